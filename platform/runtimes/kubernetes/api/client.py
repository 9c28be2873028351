"""API server client: JSON over HTTPS with timeouts, rate limit and no hidden retries."""

import json
import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlencode

import urllib3

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.api.answers import Answer, NextStep, read_answer, read_failure
from runtimes.kubernetes.api.connection import Connection
from runtimes.kubernetes.api.limiter import Limiter, Urgency

log = logging.getLogger("tessera.kubernetes")

CONNECT_S, READ_S = 5.0, 30.0
ALIVE = (
    *urllib3.connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""TCP keepalive: a peer is probed after 15 s of silence and given up 15 s later. Middleboxes keep the connection open,
and a broken one is not taken from the pool for the next request.
"""
PAGE = 500
TRIES = 4
"""Attempts for conflicts, which are retried at once."""
NO_RIGHT_FIRST_S, NO_RIGHT_MOST_S = 2.0, 30.0
"""How long creations pause after a 403: doubled for each one in a row."""
JSON = "application/json"
BARE = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Accept header for lists with metadata only."""
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Thing = dict[str, Any]
"""An API object as decoded JSON."""


class Expired(Unavailable):
    """The resourceVersion is too old: list again."""


@dataclass(frozen=True)
class Listed:
    """A list's result. version: where a watch continues."""

    items: list[Thing]
    version: str


@dataclass
class Counts:
    """Request counts by (verb, status), for metrics; status 0: no answer."""

    requests: dict[tuple[str, int], int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, verb: str, status: int) -> None:
        with self.lock:
            self.requests[verb, status] = self.requests.get((verb, status), 0) + 1


class ApiServer:
    """Thread-safe client of one API server."""

    def __init__(
        self,
        connection: Connection,
        *,
        per_s: float = 20.0,
        burst: int = 40,
        sleep: Callable[[float], None] = time.sleep,
        dice: random.Random | None = None,
    ):
        self.connection = connection
        self.counts = Counts()
        self._limiter = Limiter(per_s, burst)
        self._pool = urllib3.PoolManager(ssl_context=connection.tls, maxsize=16, retries=False, socket_options=ALIVE)
        self._sleep, self._dice = sleep, dice or random.Random()  # noqa: S311 - jitter is no secret
        self._no_creates_until = self._no_creates_s = 0.0

    def close(self) -> None:
        self._pool.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] = {},
        content: str = JSON,
        urgency: Urgency = Urgency.STATUS,
        handles: tuple[NextStep, ...] = (),
        accept: str = JSON,
    ) -> tuple[Answer, dict[str, Any]]:
        """Send one request; retry conflicts only.

        handles: deeds to return besides "done". Raises Rejected for "reject", Expired for "expired", else Unavailable.
        """
        if verb == "POST" and time.monotonic() < self._no_creates_until:
            raise Unavailable("The cluster lately refused us the right to create: nothing is created for a while.")
        for more in range(TRIES - 1, -1, -1):
            answer, found = self._once(verb, path, body, query, content, urgency, accept=accept)
            if answer.next_step != "again" or not more or "again" in handles:
                break
            self._sleep(self._dice.uniform(0, 0.2 * (TRIES - more)))
        if verb == "POST" and answer.next_step == "done":
            self._no_creates_s = 0.0
        if answer.next_step in ("done", *handles):
            return answer, found
        if answer.next_step == "reject":
            raise Rejected(answer.words)
        if answer.next_step == "expired":
            raise Expired(answer.words)
        if answer.next_step == "no_right":
            log.error("the cluster refuses %s %s: %s", verb, path, answer.words)
            if verb == "POST":
                self._no_creates_s = min(max(2 * self._no_creates_s, NO_RIGHT_FIRST_S), NO_RIGHT_MOST_S)
                self._no_creates_until = time.monotonic() + self._no_creates_s
        raise Unavailable(answer.words)

    def list_all(self, path: str, *, labels: str = "", trim: Callable[[Thing], Thing] = lambda thing: thing) -> Listed:
        """List all items page by page, anew if a page expires. trim: reduces each at once, to bound memory."""
        return self._list_anew(path, labels, trim, JSON)

    def list_versions(self, path: str, *, labels: str = "") -> Listed:
        """List metadata only: a fraction of the bytes and work."""
        return self._list_anew(path, labels, _trim_to_version, BARE)

    def watch(
        self, path: str, *, labels: str, version: str, seconds: int, silence_s: float
    ) -> Iterator[dict[str, Any]]:
        """Yield watch events and bookmarks from `version` until the server ends the watch.

        silence_s: read timeout, also after `seconds`. Raises Unavailable, or Expired for an old version.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query |= {"timeoutSeconds": str(seconds)} | ({"labelSelector": labels} if labels else {})
        self._limiter.acquire(Urgency.STATUS)
        timeout = urllib3.Timeout(connect=CONNECT_S, read=silence_s)
        try:
            response = self._send("GET", path, None, query, {}, timeout, preload_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(read_failure(error).words) from error
        late = threading.Timer(seconds + silence_s, response.shutdown)  # trickled bytes never time out
        late.daemon = True
        late.start()
        try:
            self._judge_watch(response)
            yield from _lines(response)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Unavailable(read_failure(error).words) from error
        finally:
            late.cancel()
            response.close()  # maybe within a chunk, so not reusable

    def read_log(self, path: str, most: int | None = None) -> bytes:
        """Return a container's log. most: bytes. Raises Unavailable; Rejected if there is none."""
        query = {"limitBytes": str(most)} if most is not None else {}
        answer, found = self._once("GET", path, None, query, "", Urgency.STATUS, as_text=True)
        if answer.next_step in ("gone", "reject", "no_right"):
            raise Rejected(answer.words)
        if answer.next_step != "done":
            raise Unavailable(answer.words)
        return found["text"]

    def _list_anew(self, path: str, labels: str, trim: Callable[[Thing], Thing], accept: str) -> Listed:
        for _ in range(TRIES):
            try:
                return self._list_pages(path, {"labelSelector": labels} if labels else {}, trim, accept)
            except Expired:
                continue
        raise Unavailable(f"The list of {path} grew too old {TRIES} times while it was read.")

    def _list_pages(self, path: str, query: dict[str, str], trim: Callable[[Thing], Thing], accept: str) -> Listed:
        items: list[Thing] = []
        more: dict[str, str] = {}
        while True:
            _, page = self.call("GET", path, query={"limit": str(PAGE), **query, **more}, accept=accept)
            items += map(trim, page.get("items") or [])
            token = page["metadata"].get("continue")
            if not token:
                return Listed(items, page["metadata"]["resourceVersion"])
            more = {"continue": token}

    def _once(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
        content: str,
        urgency: Urgency,
        *,
        as_text: bool = False,
        accept: str = JSON,
    ) -> tuple[Answer, dict[str, Any]]:
        self._limiter.acquire(urgency)
        sent = json.dumps(body).encode() if body is not None else None
        headers = {"Accept": accept} | ({"Content-Type": content} if sent is not None else {})
        try:
            response = self._send(verb, path, sent, query, headers, urllib3.Timeout(connect=CONNECT_S, read=READ_S))
            found = (
                {"text": response.data} if as_text and response.status == 200 else json.loads(response.data or b"{}")
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self.counts.add(verb, 0)
            return read_failure(error), {}
        except ValueError:  # a proxy's page, or truncated
            found = {}
            self.counts.add(verb, response.status)
            if response.status < 400:
                return Answer("unknown", "The answer is not JSON."), {}
        else:
            self.counts.add(verb, response.status)
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = read_answer(verb, response.status, found, headers)
        if answer.next_step == "slow":
            self._limiter.close(answer.after_s)
        return answer, found

    def _send(
        self,
        verb: str,
        path: str,
        body: bytes | None,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        timeout: urllib3.Timeout,
        *,
        preload_content: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        url = f"{self.connection.server}{path}"
        if query:
            url += f"?{urlencode(query)}"
        return self._pool.request(
            verb,
            url,
            body=body,
            headers={"Accept": JSON, **self.connection.authorization(), **headers},
            timeout=timeout,
            redirect=False,
            preload_content=preload_content,
        )

    def _judge_watch(self, response: urllib3.BaseHTTPResponse) -> None:
        self.counts.add("WATCH", response.status)
        if response.status == 200:
            return
        body = json.loads(response.read(65536) or b"{}")
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = read_answer("GET", response.status, body, headers)
        if answer.next_step == "slow":
            self._limiter.close(answer.after_s)
        raise Expired(answer.words) if answer.next_step == "expired" else Unavailable(answer.words)


def _trim_to_version(thing: Thing) -> Thing:
    return {"metadata": {name: thing["metadata"].get(name, "") for name in ("name", "namespace", "resourceVersion")}}


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield one JSON value per line. Raises ValueError on a truncated line."""
    rest = b""
    for piece in response.stream(1 << 16, decode_content=True):
        *whole, rest = (rest + piece).split(b"\n")
        yield from (json.loads(line) for line in whole if line.strip())
    if rest.strip():
        yield json.loads(rest)
