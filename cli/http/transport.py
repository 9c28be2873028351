"""HTTP client of the API: JSON, one request at a time, with retries where safe.

By http.client: `import httpx` brings `tessera --help` from 69 to 244 ms, since it loads rich, pygments and click where
they are installed, as here. Without these it is 115 ms, and its Client then reads the CA bundle for 55 ms more.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from cli.failures import DENIED, SERVER, Failure, Unreachable, refusal_of

VERSION = "0.1.0"
PREFIX = "/api/v1"
PAUSES_S = (0.3, 1.0, 3.0)
"""Pauses before retries of a request whose connection dropped."""
ANSWER_WITHIN_S = 60.0
PIECE = 65536
LANGUAGE = "en"
"""Of help and tables, so also of what the platform answers: else a person's own setting would mix two in one table."""
_NAMED = re.compile(r"/jobs/([^/:]+)")
_BUSY = frozenset({502, 503, 504})
_AWAY = frozenset({"", "unavailable", "database_away"})
"""Problem codes of an outage; any other code is an answer for the caller."""


class _Dropped(Exception):
    """The connection failed. sent: the request may have been carried out."""

    def __init__(self, why: str, *, sent: bool):
        self.why, self.sent = why, sent


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Any
    body: bytes


class Client:
    """A client of one server. patient: whether to retry."""

    def __init__(
        self,
        server: str,
        token: str = "",
        *,
        quiet: bool = False,
        timeout_s: float = ANSWER_WITHIN_S,
        patient: bool = True,
    ):
        self.server, self.token, self.quiet = server, token, quiet
        self.timeout_s, self.patient = timeout_s, patient

    def get(self, path: str, /, **query: Any) -> Any:
        return self._send_for_json("GET", _add_query(path, query))

    def get_all(self, path: str, most: int = 10_000, **query: Any) -> dict:
        """Return all pages of a list as one, up to `most`."""
        found: list = []
        cursor = None
        while True:
            page = self.get(path, limit=min(500, most - len(found)), cursor=cursor, **query)
            found += page["results"]
            cursor = page["next_cursor"]
            if cursor is None or len(found) >= most:
                return {"results": found, "next_cursor": cursor}

    def post(self, path: str, data: Any = None, *, key: str = "", repeat: bool = True) -> Any:
        """Send JSON. repeat: safe to retry, by nature or by `key`."""
        body = b"" if data is None else _encode(data)
        return self.send_body(path, body, "application/json" if body else "", key=key, repeat=repeat)

    def send_body(self, path: str, body: bytes, content_type: str, *, key: str = "", repeat: bool = True) -> Any:
        headers = {"Content-Type": content_type} if content_type else {}
        headers |= {"Idempotency-Key": key} if key else {}
        return self._send_for_json("POST", path, body, headers, repeat=repeat)

    def patch(self, path: str, data: Any) -> Any:
        return self.patch_body(path, _encode(data), {"Content-Type": "application/json"})

    def patch_body(self, path: str, body: bytes, headers: dict[str, str]) -> Any:
        """Send once: after a break the caller asks where to go on."""
        return self._send_for_json("PATCH", path, body, headers, repeat=False)

    def delete(self, path: str, /, **query: Any) -> None:
        self._send("DELETE", _add_query(path, query), repeat=False)

    @contextmanager
    def stream(
        self, path: str, /, headers: dict[str, str] | None = None, **query: Any
    ) -> Iterator[tuple[Any, Iterator[bytes]]]:
        """Yield (headers, chunks). Raises Unreachable."""
        with self.stream_answer("GET", PREFIX + _add_query(path, query), b"", headers or {}) as answer:
            yield answer

    @contextmanager
    def stream_answer(
        self, method: str, address: str, body: bytes, headers: dict[str, str]
    ) -> Iterator[tuple[Any, Iterator[bytes]]]:
        """Yield (headers, chunks) of a request to an address of the portal, such as a service's. Raises Unreachable."""
        self._must_be_signed_in()
        try:
            connection = self._connect()
        except _Dropped as drop:
            raise self._unreachable(drop) from None
        try:
            with self._broken_is_unreachable():
                response = self._send_request(connection, method, address, body, headers)
                if response.status >= 300:
                    raise self._build_refusal(_read_answer(response), address.removeprefix(PREFIX))
            yield response.headers, self._pieces(response)
        finally:
            connection.close()

    @contextmanager
    def _broken_is_unreachable(self) -> Iterator[None]:
        try:
            yield
        except (HTTPException, OSError) as error:
            raise Unreachable(f"The connection to {self.server} broke ({_describe_error(error)}).") from None

    def _send_for_json(self, method: str, path: str, *args: Any, **others: Any) -> Any:
        answer = self._send(method, path, *args, **others)
        try:
            return json.loads(answer.body) if answer.body else None
        except ValueError:
            words = f"{self.server} did not answer with JSON. Check the address: tessera login URL"
            raise Failure(SERVER, words) from None

    def _send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None, *, repeat: bool = True
    ) -> Answer:
        self._must_be_signed_in(path)
        headers = headers or {}
        noted = False
        for pause in (*(PAUSES_S if self.patient else ()), None):
            try:
                answer = self._exchange(method, path, body, headers)
            except _Dropped as drop:
                # Without a server fail at once, except for submits.
                again = repeat if drop.sent else "Idempotency-Key" in headers
                if pause is None or not again:
                    raise self._unreachable(drop) from None
                why = drop.why
            else:
                if not _is_busy(answer) or pause is None or not repeat:
                    return self._refuse_errors(answer, path)
                why = f"it answered {answer.status}"
            if not noted:
                self._print_note(f"{self.server} did not take it ({why}); trying again.")
            noted = True
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _exchange(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = self._connect()
        try:
            return _read_answer(self._send_request(connection, method, PREFIX + path, body, headers))
        except (HTTPException, OSError) as error:
            raise _Dropped(_describe_error(error), sent=True) from None
        finally:
            connection.close()

    def _connect(self) -> HTTPConnection:
        parts = urlsplit(self.server)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout_s)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise _Dropped(_describe_error(error), sent=False) from None
        return connection

    def _send_request(
        self, connection: HTTPConnection, method: str, address: str, body: bytes, headers: dict[str, str]
    ) -> HTTPResponse:
        common = {
            "Accept": "application/json, */*;q=0.5",
            "Accept-Language": LANGUAGE,
            "User-Agent": f"tessera-cli/{VERSION}",
        }
        if self.token:
            common["Authorization"] = f"Bearer {self.token}"
        connection.request(method, urlsplit(self.server).path + address, body or None, common | headers)
        return connection.getresponse()

    def _refuse_errors(self, answer: Answer, path: str) -> Answer:
        if answer.status >= 300:
            raise self._build_refusal(answer, path)
        return answer

    def _build_refusal(self, answer: Answer, path: str) -> Failure:
        if answer.status < 400:
            where = answer.headers.get("Location", "")
            return Failure(SERVER, f"{self.server} sends us on to {where!r}. Sign in there: tessera login URL")
        refusal = refusal_of(answer.status, answer.body, self.server, _subject(path))
        away = answer.status in _BUSY and refusal.code in _AWAY
        return Unreachable(*refusal.lines) if away else refusal

    def _must_be_signed_in(self, path: str = "") -> None:
        if not self.token and path != "/version":
            raise Failure(DENIED, f"You are not signed in to {self.server}. Run: tessera login {self.server}")

    def _unreachable(self, drop: "_Dropped") -> Unreachable:
        if not drop.sent:
            return Unreachable(
                f"{self.server} does not answer ({drop.why}). Is the address right, and is the platform started?"
            )
        return Unreachable(
            f"The connection to {self.server} dropped ({drop.why}).",
            "It may have been done all the same: look before you try again.",
        )

    def _print_note(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr)

    def _pieces(self, response: HTTPResponse) -> Iterator[bytes]:
        """Yield chunks; errors of the reader are not translated."""
        with self._broken_is_unreachable():
            while piece := response.read1(PIECE):
                yield piece
            if response.length:  # shorter than announced
                raise IncompleteRead(b"", response.length)


def job_path(job_id: str, rest: str = "") -> str:
    """Return the address of a job, or of an array, which is asked for its state and told to stop in the same way."""
    return f"/{'arrays' if is_array_id(job_id) else 'jobs'}/{quote(full_id(job_id), safe='')}{rest}"


def is_array_id(text: str) -> bool:
    return re.fullmatch(r"arr-[0-9]+", text.strip(), re.ASCII | re.IGNORECASE) is not None


def full_id(job_id: str) -> str:
    text = job_id.strip().lower()
    return f"job-{text}" if text.isascii() and text.isdecimal() else text


def compare_versions(there: str) -> str:
    if there.split(".")[:2] == VERSION.split(".")[:2]:
        return ""
    older = "this command" if _numbers(VERSION) < _numbers(there) else "the platform"
    return f"The platform is {there} and this command {VERSION}: {older} is the older, and should be updated."


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version)]


def _subject(path: str) -> str:
    """Return what a request names, such as "job-412"."""
    parts = urlsplit(path)
    named = _NAMED.match(parts.path)
    query = parse_qs(parts.query)
    return unquote(named[1]) if named else (query.get("path") or query.get("place") or [""])[0]


def _add_query(path: str, query: dict[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _read_answer(response: HTTPResponse) -> Answer:
    return Answer(response.status, response.headers, response.read())


def _is_busy(answer: Answer) -> bool:
    """Whether to retry soon, by Retry-After."""
    later = answer.headers.get("Retry-After", "")
    return answer.status in _BUSY and not (later.isdecimal() and int(later) > sum(PAUSES_S))


def _encode(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()


def _describe_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
