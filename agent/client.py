"""HTTP client of the platform: JSON, one request at a time."""

import gzip
import json
import ssl
import time
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlsplit

PREFIX = "/api/v1"
ANSWER_WITHIN_S = 30.0
PACK_LEVEL = 1
"""Of gzip: a tick becomes a fifth, in a fraction of a millisecond."""
MOST = 4 * 1024 * 1024
"""Longest answer in bytes; real ones are a few kilobytes."""


class PlatformUnavailable(Exception):
    """The platform is unavailable. retry_after_s: its wish, or 0."""

    def __init__(self, why: str, retry_after_s: float = 0):
        self.retry_after_s = retry_after_s
        super().__init__(why)


class Refused(Exception):
    """The platform refused. code: of the API."""

    def __init__(self, status: int, code: str, why: str):
        self.status, self.code = status, code
        super().__init__(why)


class Platform:
    """The platform's API. authority: CA file. keep: reuse the connection, from one thread only."""

    def __init__(self, server: str, authority: str | None = None, *, keep: bool = False):
        self.parts, self.keep = urlsplit(server), keep
        self._kept: HTTPConnection | None = None
        self.skew_s: float | None = None
        """How far this machine's clock is ahead of the platform's, by its last answer."""
        if self.parts.scheme not in ("http", "https") or not self.parts.hostname:
            raise ValueError(f"{server!r} is no address of a platform. Write it like https://tessera.example.net")
        self.trust = ssl.create_default_context(cafile=authority) if self.parts.scheme == "https" else None

    def enrol(self, token: str, key: str) -> str:
        """Return the enrolled node's name. Raises PlatformUnavailable, Refused."""
        return self._post("/agents:enrol", {"token": token, "key": key})["node"]

    def report(self, node: str, key: str, said: dict[str, Any]) -> dict[str, Any]:
        """Return {"held_back": [...], "next_in_s": seconds}. Raises PlatformUnavailable, Refused."""
        return self._post(f"/agents/{quote(node, safe='')}:report", said, key)

    def send_logs(self, node: str, key: str, said: dict[str, Any]) -> dict[str, Any]:
        """Return {"logs": [{"task", "state", "size"}], "most_bytes", "pause_s", "ask_every_s"}. Raises as `report`."""
        return self._post(f"/agents/{quote(node, safe='')}:logs", said, key)

    def report_slices(self, node: str, key: str, said: dict[str, Any]) -> dict[str, Any]:
        """Return {"taken": how many tasks}. Raises PlatformUnavailable, Refused."""
        return self._post(f"/agents/{quote(node, safe='')}:slices", said, key)

    def send_samples(self, node: str, key: str, said: dict[str, Any]) -> dict[str, Any]:
        """Return {"taken", "next", "every_s"}. Raises PlatformUnavailable, Refused."""
        return self._post(f"/agents/{quote(node, safe='')}:samples", said, key, pack=True)

    def _post(self, path: str, data: dict[str, Any], key: str = "", *, pack: bool = False) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Language": "en"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        target, body = f"{self.parts.path.rstrip('/')}{PREFIX}{path}", json.dumps(data).encode()
        if pack:
            body, headers["Content-Encoding"] = gzip.compress(body, PACK_LEVEL), "gzip"
        try:
            return _parse_answer(*self._exchange(target, body, headers), self.parts.netloc)
        except (HTTPException, OSError) as error:
            raise PlatformUnavailable(f"{self.parts.netloc} does not answer: {error or type(error).__name__}") from None

    def _exchange(self, target: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        """Return (status, Retry-After, body); retried if a kept connection was closed, so requests may arrive twice."""
        known, self._kept = self._kept, None
        for connection in filter(None, (known, self._connection())):
            try:
                connection.request("POST", target, body, headers)
                response = connection.getresponse()
                self.skew_s = read_skew(response.headers.get("Date", ""), time.time())
                answer = response.status, response.headers.get("Retry-After", ""), response.read(MOST)
            except (HTTPException, OSError):
                connection.close()
                if connection is not known:
                    raise
                continue
            if self.keep and not response.will_close:
                self._kept = connection
            else:
                connection.close()
            return answer
        raise HTTPException("no connection")

    def _connection(self) -> HTTPConnection:
        host, port = self.parts.hostname or "", self.parts.port
        if self.trust is not None:
            return HTTPSConnection(host, port, timeout=ANSWER_WITHIN_S, context=self.trust)
        return HTTPConnection(host, port, timeout=ANSWER_WITHIN_S)


def read_skew(date: str, now_s: float) -> float | None:
    """Return how many seconds a clock is ahead of a Date of HTTP; None without a Date."""
    try:
        return now_s - parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return None


def _parse_answer(status: int, later: str, body: bytes, server: str) -> dict[str, Any]:
    """Return the JSON. Raises PlatformUnavailable if worth a retry, else Refused."""
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise PlatformUnavailable(
            f"{server} answered {status} without JSON. Is the address right?", _parse_seconds(later)
        )
    if status == 429 or status >= 500:
        raise PlatformUnavailable(f"{server} answered {status}: {said.get('detail', '')}", _parse_seconds(later))
    if status >= 300:
        raise Refused(status, str(said.get("code", "")), str(said.get("detail", f"status {status}")))
    return said


def _parse_seconds(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 6 else 0
