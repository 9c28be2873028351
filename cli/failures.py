"""Failures of commands: a stable exit code and lines for people."""

import json
import os
from typing import Any

from cli.output.safe_text import plain

OK, JOB_FAILED, USAGE, NOT_FOUND, DENIED, WAITS, SERVER = range(7)
INTERRUPTED = 130
TOKEN_VARIABLE = "TESSERA_TOKEN"  # noqa: S105 - the name of a variable

_CODES = {401: DENIED, 403: DENIED, 404: NOT_FOUND, 429: SERVER}


class Failure(Exception):
    """lines: sentences for stderr. exit_code: one of the above."""

    def __init__(self, exit_code: int, *lines: str):
        self.exit_code = exit_code
        self.lines = lines
        super().__init__(" ".join(lines))


class Unreachable(Failure):
    """The server or a dependency does not answer."""

    def __init__(self, *lines: str):
        super().__init__(SERVER, *lines)


class Refused(Failure):
    """The server refused. status: of HTTP. code, params: the problem's, stable."""

    def __init__(self, exit_code: int, *lines: str, status: int, code: str = "", params: dict | None = None):
        super().__init__(exit_code, *lines)
        self.status = status
        self.code = code
        self.params = params or {}


def refusal_of(status: int, body: bytes, server: str, subject: str = "") -> Refused:
    """Return the failure of an answer above 399. body: problem+json (RFC 9457), or anything.

    subject: the object's name, such as "job-412".
    """
    problem = _problem(body)
    if problem is None:
        return Refused(SERVER, _no_problem(status, server), status=status)
    code = str(problem.get("code", ""))
    lines = _lines(problem) or [f"{server} answered {status}."]
    if status == 401 or code == "missing_scope":
        lines.append(_other_token(server))
    if status == 404 and subject:
        lines[0] = f"{plain(subject)}: {lines[0]}"
    if status >= 500 and status != 503 and (request_id := plain(str(problem.get("request_id") or ""))):
        lines.append(f"The server's log names it {request_id}.")
    exit_code = DENIED if code == "user_limit" else _CODES.get(status, USAGE if status < 500 else SERVER)
    params = problem.get("params")
    return Refused(exit_code, *lines, status=status, code=code, params=params if isinstance(params, dict) else None)


def _other_token(server: str) -> str:
    """Say where to replace the token: the environment's goes first."""
    if os.environ.get(TOKEN_VARIABLE, "").strip():
        place = f"It stands in {TOKEN_VARIABLE}: set that to one from {server}/settings/tokens, or unset it"
    else:
        place = f"Make a token at {server}/settings/tokens"
    return f"{place} and run: tessera login {server}"


def _problem(body: bytes) -> dict | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "status" in found else None


def _no_problem(status: int, server: str) -> str:
    if status >= 500:
        return f"{server} answered {status}. Try again; if it stays so, its log says why."
    return f"{server} answered {status}, and not as Tessera does. Check the address: tessera login URL"


def _lines(problem: dict) -> list[str]:
    """Return a line per wrong field, else the problem's sentence."""
    hints = {hint.get("pointer", ""): hint.get("value") for hint in _dicts(problem.get("hints"))}
    lines = []
    for error in _dicts(problem.get("errors")):
        pointer = str(error.get("pointer", ""))
        field, text = field_of(pointer), plain(str(error.get("detail", "")))
        line = f"{field}: {text}" if field else text
        lines.append(f"{line} (try: {_setting(pointer, hints.pop(pointer))})" if pointer in hints else line)
    if not lines:
        lines = [plain(str(problem.get("detail") or problem.get("title") or ""))]
    return [line for line in lines if line] + [f"try: {_setting(*hint)}" for hint in hints.items()]


def field_of(pointer: str) -> str:
    """Return a JSON pointer as people write it: "/env/A~1B" is "env.A/B"."""
    parts = pointer.split("/")[1:]
    return plain(".".join(part.replace("~1", "/").replace("~0", "~") for part in parts))


def _setting(pointer: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{field_of(pointer)}: {plain(text)}"


def _dicts(value: Any) -> list[dict]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
