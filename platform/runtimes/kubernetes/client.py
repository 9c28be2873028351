"""A client of the API server: JSON over HTTPS, every request with a time limit, none repeated behind the caller's back.

`call` and `list_all` raise Unavailable and Rejected by the table of answers.py; what callers tell apart themselves
(a name that is taken, a thing that is gone) comes back as an Answer.
"""

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

from runtimes.base import Rejected, Unavailable
from runtimes.kubernetes.answers import Answer, Deed, read_answer, read_failure
from runtimes.kubernetes.connection import Connection
from runtimes.kubernetes.limiter import Limiter, Urgency

log = logging.getLogger("tessera.kubernetes")

CONNECT_S, READ_S = 5.0, 30.0
ALIVE = (
    *urllib3.connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""The kernel asks a silent peer after 15 s whether it is there, and gives it up 15 s later. What lies between us and it
keeps a connection by that, and one that is dead is not taken out of the pool for the next request.
"""
PAGE = 500
TRIES = 4
"""Of what the server says to try again at once."""
NO_RIGHT_FIRST_S, NO_RIGHT_MOST_S = 2.0, 30.0
"""How long nothing is created after a refusal of that right: twice as long for each in a row."""
JSON = "application/json"
BARE = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Of each thing in a list its metadata only."""
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Thing = dict[str, Any]
"""As the API server has it."""


class Expired(Unavailable):
    """The version that we asked from is too old: list anew. Who asked from none takes it as any other failure."""


@dataclass(frozen=True)
class Listed:
    """version: of the whole list, from which a watch goes on."""

    items: list[Thing]
    version: str


@dataclass
class Counts:
    """Requests by (verb, status), for metrics. status: 0 where no answer came."""

    requests: dict[tuple[str, int], int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, verb: str, status: int) -> None:
        with self.lock:
            self.requests[verb, status] = self.requests.get((verb, status), 0) + 1


class ApiServer:
    """Any number of threads may use one."""

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
        handles: tuple[Deed, ...] = (),
        accept: str = JSON,
    ) -> tuple[Answer, dict[str, Any]]:
        """One request, and again only where the server says that somebody else was faster.

        handles: deeds that the caller handles besides "done". Raises Rejected for "reject", Unavailable for the rest.
        """
        if verb == "POST" and time.monotonic() < self._no_creates_until:
            raise Unavailable("The cluster lately refused us the right to create: nothing is created for a while.")
        for more in range(TRIES - 1, -1, -1):
            answer, found = self._once(verb, path, body, query, content, urgency, accept=accept)
            if answer.deed != "again" or not more or "again" in handles:
                break
            self._sleep(self._dice.uniform(0, 0.2 * (TRIES - more)))
        if verb == "POST" and answer.deed == "done":
            self._no_creates_s = 0.0
        if answer.deed in ("done", *handles):
            return answer, found
        if answer.deed == "reject":
            raise Rejected(answer.words)
        if answer.deed == "expired":
            raise Expired(answer.words)
        if answer.deed == "no_right":
            log.error("the cluster refuses %s %s: %s", verb, path, answer.words)
            if verb == "POST":
                self._no_creates_s = min(max(2 * self._no_creates_s, NO_RIGHT_FIRST_S), NO_RIGHT_MOST_S)
                self._no_creates_until = time.monotonic() + self._no_creates_s
        raise Unavailable(answer.words)

    def list_all(self, path: str, *, labels: str = "", trim: Callable[[Thing], Thing] = lambda thing: thing) -> Listed:
        """A consistent list, page by page. It begins anew where a page's version grew too old.

        trim: what to keep of each thing: a long list as a whole may be too large for a process.
        """
        return self._list_anew(path, labels, trim, JSON)

    def list_versions(self, path: str, *, labels: str = "") -> Listed:
        """The same, of each thing its name, namespace and version only: a fraction of the bytes and of the work."""
        return self._list_anew(path, labels, _trim_to_version, BARE)

    def watch(
        self, path: str, *, labels: str, version: str, seconds: int, silence_s: float
    ) -> Iterator[dict[str, Any]]:
        """Events from `version` on, bookmarks among them, until the server ends it after so many seconds.

        silence_s: this long without a word means that the connection is dead, and so does a word that takes as long
        after the end. Raises Unavailable where it is or breaks, Expired where the version is too old.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query |= {"timeoutSeconds": str(seconds)} | ({"labelSelector": labels} if labels else {})
        self._limiter.acquire(Urgency.STATUS)
        timeout = urllib3.Timeout(connect=CONNECT_S, read=silence_s)
        try:
            response = self._send("GET", path, None, query, {}, timeout, preload_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(read_failure(error).words) from error
        late = threading.Timer(seconds + silence_s, response.shutdown)  # of who sends a byte now and then
        late.daemon = True
        late.start()
        try:
            self._judge_watch(response)
            yield from _lines(response)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Unavailable(read_failure(error).words) from error
        finally:
            late.cancel()
            response.close()  # never back into the pool: it may be in the middle of a chunk

    def read_log(self, path: str, most: int | None = None) -> bytes:
        """The text of a container's log, at most so many bytes. Raises Unavailable; Rejected where there is none."""
        query = {"limitBytes": str(most)} if most is not None else {}
        answer, found = self._once("GET", path, None, query, "", Urgency.STATUS, as_text=True)
        if answer.deed in ("gone", "reject", "no_right"):
            raise Rejected(answer.words)
        if answer.deed != "done":
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
        except ValueError:  # a proxy's page, or half an answer
            found = {}
            self.counts.add(verb, response.status)
            if response.status < 400:
                return Answer("unknown", "The answer is not JSON."), {}
        else:
            self.counts.add(verb, response.status)
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = read_answer(verb, response.status, found, headers)
        if answer.deed == "slow":
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
        if answer.deed == "slow":
            self._limiter.close(answer.after_s)
        raise Expired(answer.words) if answer.deed == "expired" else Unavailable(answer.words)


def _trim_to_version(thing: Thing) -> Thing:
    return {"metadata": {name: thing["metadata"].get(name, "") for name in ("name", "namespace", "resourceVersion")}}


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[dict[str, Any]]:
    """One JSON value a line. What is cut in the middle of a line raises ValueError."""
    rest = b""
    for piece in response.stream(1 << 16, decode_content=True):
        *whole, rest = (rest + piece).split(b"\n")
        yield from (json.loads(line) for line in whole if line.strip())
    if rest.strip():
        yield json.loads(rest)
