"""The reference of errors and reasons: the tables from which the platform makes its sentences."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from common.errors import PlatformError
from jobs.reason_messages import RESIZE_REFUSED, WAIT_REASONS
from jobs.states import REASONS
from portal.api.http.problems import TITLES_BY_STATUS
from portal.wording.errors import ERROR_MESSAGES, FIELD_MESSAGES

ROOT = Path(__file__).resolve().parents[2]
PARAMETER = re.compile(r"%\((\w+)\)[sd]")


def describe_errors() -> str:
    """Return the page of errors: first those of whole requests, then those of single fields."""
    statuses = find_statuses()
    lines = ["# Errors", "", *_INTRODUCTION_OF_ERRORS, "", "## Requests", ""]
    for code, sentences in _by_code(ERROR_MESSAGES):
        answers = ", ".join(
            f"{status} *{TITLES_BY_STATUS.get(status, '')}*" for status in sorted(statuses.get(code, ()))
        )
        lines += [f"### `{code}` {{ #{code} }}", "", *([f"HTTP {answers}.", ""] if answers else []), *sentences, ""]
    lines += ["## Fields", "", "One field of a form, a job file or a body of the API.", ""]
    for code, sentences in _by_code(FIELD_MESSAGES):
        lines += [f"### `{code}` {{ #field-{code} }}", "", *sentences, ""]
    return "\n".join(lines)


def describe_reasons() -> str:
    """Return the page of reasons: why jobs wait, why tasks ended, why a slice was not resized."""
    lines = ["# Reasons", "", *_INTRODUCTION_OF_REASONS, "", "## Why a job waits", ""]
    for code, sentences in _by_code(WAIT_REASONS):
        lines += [f"### `{code}` {{ #wait-{code} }}", "", *sentences, ""]
    lines += ["## Why a job ended", "", "`retry.when` of a job file names those that can be retried.", ""]
    for code, reason in REASONS.items():
        retried = "It can be retried." if reason.retry else "It is not retried."
        lines += [f"### `{code}` {{ #{code} }}", "", f"{reason.words} {reason.hint}".strip(), "", f"{retried}", ""]
    lines += ["## Why a slice kept its size", ""]
    lines += [f"- `{kind}`: {words}" for kind, words in RESIZE_REFUSED.items()]
    return "\n".join([*lines, ""])


def find_statuses() -> dict[str, set[int]]:
    """Return {code: HTTP statuses} of the error classes, and of where they are raised with a code of its own."""
    classes = {each.__name__: each for each in _all_errors(PlatformError)}
    found: dict[str, set[int]] = {}
    for each in classes.values():
        if "code" in vars(each) or each is PlatformError:
            found.setdefault(each.code, set()).add(each.status)
    for path in (file for top in ("platform", "portal", "scheduler") for file in sorted((ROOT / top).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes:
                for code in _codes_of(node):
                    found.setdefault(code, set()).add(classes[node.func.id].status)
    return found


def _codes_of(call: ast.Call) -> Iterator[str]:
    given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "code")]
    for node in given:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _all_errors(top: type[PlatformError]) -> Iterator[type[PlatformError]]:
    yield top
    for below in top.__subclasses__():
        yield from _all_errors(below)


def _by_code(messages: Mapping[str, object]) -> Iterator[tuple[str, list[str]]]:
    """Yield (code, its sentences); `code.variant` belongs to `code`."""
    codes: dict[str, list[str]] = {}
    for key in sorted(messages):
        codes.setdefault(key.split(".")[0], []).append(_as_text(str(messages[key])))
    for code, sentences in codes.items():
        yield code, sentences if len(sentences) == 1 else [f"- {sentence}" for sentence in sentences]


def _as_text(sentence: str) -> str:
    shown = PARAMETER.sub(lambda found: f"‹{found[1].replace('_', ' ')}›", sentence).replace("%%", "%")
    shown = re.sub(r"([*<|])", r"\\\1", shown)
    return shown[:1].upper() + shown[1:]


_INTRODUCTION_OF_ERRORS = (
    "Written from the platform's own tables. `code` never changes; the sentence is in the reader's language, and what",
    "stands in ‹angle brackets› is filled in. Answers of the API are `application/problem+json`, whose `help` leads",
    "here ([The API and webhooks](../api.md)).",
)
_INTRODUCTION_OF_REASONS = (
    "Written from the platform's own tables. A job's page, *Queue*, `tessera why` and `GET /jobs/{id}/wait` tell why a",
    "job waits; its page and `tessera ps` tell why it ended. What stands in ‹angle brackets› is filled in.",
)
