"""API server client: the official one under our rules, with timeouts, a rate limit and no hidden retries.

Pods, nodes and what goes with them are plain dicts; `typed` gives the official client's interfaces for the rest.
"""

import json
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.api_response import ApiResponse
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTResponse

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.api.credentials import Credentials, CredentialSource
from runtimes.kubernetes.api.limiter import Limiter, Urgency
from runtimes.kubernetes.api.response_handling import Answer, NextStep, read_answer, read_failure

log = logging.getLogger("tessera.kubernetes")

CONNECT_S, READ_S = 5.0, 30.0
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
Body = Mapping[str, Any] | None
Texts = Mapping[str, str]
Request = tuple[Any, ...]
"""A request as the official client serializes it: verb, address, headers, body."""
Interface = TypeVar("Interface")


class Expired(Unavailable):
    """The resourceVersion is too old: list again."""


class Gone(Unavailable):
    """There is no such object."""


class Conflict(Unavailable):
    """Somebody else changed the object meanwhile."""


class NoRight(Unavailable):
    """Our account may not do this."""


RAISED: Mapping[NextStep, type[Exception]] = {
    "reject": Rejected,
    "expired": Expired,
    "gone": Gone,
    "again": Conflict,
    "no_right": NoRight,
}
FAILURES = (urllib3.exceptions.HTTPError, ApiException, OSError)
"""What a request without a whole answer raises; an ApiException here tells of TLS."""


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
        source: CredentialSource,
        *,
        per_s: float = 20.0,
        burst: int = 40,
        sleep: Callable[[float], None] = time.sleep,
        dice: random.Random | None = None,
    ):
        self.counts = Counts()
        self._source = source
        self._limiter = Limiter(per_s, burst)
        self._sleep, self._dice = sleep, dice or random.Random()  # noqa: S311 - jitter is no secret
        self._no_creates_until = self._no_creates_s = 0.0

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def typed(self, interface: Callable[[ApiClient], Interface]) -> Interface:
        """Return one of the official client's interfaces, such as StorageV1Api. It raises what `call` raises."""
        credentials = self._source.current()

        def send(*request: Any) -> RESTResponse:
            self._limiter.acquire(Urgency.DELETE if request[0] == "DELETE" else Urgency.STATUS)
            answer, response = self._exchange(credentials, request)
            if response is None or answer.next_step != "done":
                raise build_error(answer)
            return response

        return interface(_TypedClient(credentials.configuration, send))

    def call(
        self,
        verb: str,
        path: str,
        body: Body = None,
        *,
        query: Mapping[str, str] = {},
        content: str = JSON,
        urgency: Urgency = Urgency.STATUS,
        handles: tuple[NextStep, ...] = (),
        accept: str = JSON,
        not_after: float = math.inf,
    ) -> tuple[Answer, dict[str, Any]]:
        """Send one request; retry conflicts only.

        handles: next steps to return besides "done". not_after: monotonic time after which it is not sent any more,
        as the rate limit may hold it up. Raises Rejected, or a kind of Unavailable.
        """
        if verb == "POST" and time.monotonic() < self._no_creates_until:
            raise Unavailable("The cluster lately refused us the right to create: nothing is created for a while.")
        headers = {"Accept": accept} | ({"Content-Type": content} if body is not None else {})
        for tried in range(1, TRIES + 1):
            answer, data = self._send_whole(verb, path, body, query, headers, urgency, not_after)
            if answer.next_step != "again" or tried == TRIES or "again" in handles:
                break
            self._sleep(self._dice.uniform(0, 0.2 * tried))
        found = {}
        if answer.next_step == "done":
            try:
                found = json.loads(data or b"{}")
            except ValueError:
                answer = Answer("unknown", "The answer is not JSON.")
        if verb == "POST" and answer.next_step == "done":
            self._no_creates_s = 0.0
        if answer.next_step in ("done", *handles):
            return answer, found
        if answer.next_step == "no_right":
            log.error("the cluster refuses %s %s: %s", verb, path, answer.words)
            if verb == "POST":
                self._no_creates_s = min(max(2 * self._no_creates_s, NO_RIGHT_FIRST_S), NO_RIGHT_MOST_S)
                self._no_creates_until = time.monotonic() + self._no_creates_s
        raise build_error(answer)

    def list_all(
        self,
        path: str,
        *,
        labels: str = "",
        trim: Callable[[Thing], Thing] = lambda thing: thing,
        accept: str = JSON,
    ) -> Listed:
        """List all items page by page, anew if a page expires. trim: reduces each at once, to bound memory."""
        query = {"limit": str(PAGE)} | ({"labelSelector": labels} if labels else {})
        for _ in range(TRIES):
            try:
                return self._list_pages(path, query, trim, accept)
            except Expired:
                continue
        raise Unavailable(f"The list of {path} grew too old {TRIES} times while it was read.")

    def list_versions(self, path: str, *, labels: str = "") -> Listed:
        """List metadata only: a fraction of the bytes and work."""
        return self.list_all(path, labels=labels, trim=_trim_to_version, accept=BARE)

    def watch(
        self, path: str, *, labels: str, version: str, seconds: int, silence_s: float
    ) -> Iterator[dict[str, Any]]:
        """Yield watch events and bookmarks from `version` until the server ends the watch.

        silence_s: read timeout, also after `seconds`. Raises Unavailable, or Expired for an old version.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query |= {"timeoutSeconds": str(seconds)} | ({"labelSelector": labels} if labels else {})
        self._limiter.acquire(Urgency.STATUS)
        credentials = self._source.current()
        request = _serialize(credentials, "GET", path, None, query, {})
        try:
            response = self._send(credentials, request, (CONNECT_S, silence_s)).response
        except FAILURES as error:
            raise Unavailable(read_failure(error).words) from error
        late = threading.Timer(seconds + silence_s, response.shutdown)  # trickled bytes never time out
        late.daemon = True
        late.start()
        try:
            answer = self._classify("WATCH", response, b"" if response.status == 200 else response.read(65536))
            if answer.next_step != "done":
                raise Expired(answer.words) if answer.next_step == "expired" else Unavailable(answer.words)
            yield from _read_lines(response)
        except (*FAILURES, ValueError) as error:
            raise Unavailable(read_failure(error).words) from error
        finally:
            late.cancel()
            response.close()  # maybe within a chunk, so not reusable

    def read_log(self, path: str, most: int | None = None) -> bytes:
        """Return a container's log. most: bytes. Raises Unavailable; Rejected if there is none."""
        query = {"limitBytes": str(most)} if most is not None else {}
        answer, text = self._send_whole("GET", path, None, query, {}, Urgency.STATUS)
        if answer.next_step in ("gone", "reject", "no_right"):
            raise Rejected(answer.words)
        if answer.next_step != "done":
            raise Unavailable(answer.words)
        return text

    def _list_pages(self, path: str, query: dict[str, str], trim: Callable[[Thing], Thing], accept: str) -> Listed:
        items: list[Thing] = []
        while True:
            _, page = self.call("GET", path, query=query, accept=accept)
            items += map(trim, page.get("items") or [])
            if not (token := page["metadata"].get("continue")):
                return Listed(items, page["metadata"]["resourceVersion"])
            query = {**query, "continue": token}

    def _send_whole(
        self,
        verb: str,
        path: str,
        body: Body,
        query: Texts,
        headers: Texts,
        urgency: Urgency,
        not_after: float = math.inf,
    ) -> tuple[Answer, bytes]:
        """Send a request once and return its whole answer."""
        self._limiter.acquire(urgency)
        if time.monotonic() > not_after:
            raise Unavailable("The rate limit held this request up for too long.")
        credentials = self._source.current()
        answer, response = self._exchange(credentials, _serialize(credentials, verb, path, body, query, headers))
        return answer, response.data if response else b""

    def _exchange(self, credentials: Credentials, request: Request) -> tuple[Answer, RESTResponse | None]:
        verb = request[0]
        try:
            response = self._send(credentials, request, (CONNECT_S, READ_S))
            response.read()
        except FAILURES as error:
            self.counts.add(verb, 0)
            return read_failure(error), None
        return self._classify(verb, response, response.data), response

    def _send(self, credentials: Credentials, request: Request, timeout: tuple[float, float]) -> RESTResponse:
        try:
            response = credentials.client.call_api(*request, _request_timeout=timeout)
        except FAILURES:
            self._source.report_status(credentials, 0)
            raise
        self._source.report_status(credentials, response.status)
        return response

    def _classify(self, verb: str, response: RESTResponse | urllib3.BaseHTTPResponse, data: bytes) -> Answer:
        """Read an answer by the table, count it, and slow down where it asks for that."""
        self.counts.add(verb, response.status)
        try:
            body = {} if response.status < 300 else json.loads(data or b"{}")
        except ValueError:  # a proxy's page
            body = {}
        answer = read_answer(verb, response.status, body, response.headers)
        if answer.next_step == "slow":
            self._limiter.close(answer.after_s)
        return answer


class _TypedClient(ApiClient):
    """The official client, which sends by our rules."""

    def __init__(self, configuration: Configuration, send: Callable[..., RESTResponse]):
        super().__init__(configuration)
        self._send = send

    def call_api(self, *request: Any, _request_timeout: object = None) -> RESTResponse:
        return self._send(*request)

    def response_deserialize(self, *args: Any, **options: Any) -> ApiResponse:
        try:
            return super().response_deserialize(*args, **options)
        except ValueError as error:  # its models are strict
            raise Unavailable(f"The answer is not understood: {error}"[:300]) from error


def build_error(answer: Answer) -> Exception:
    return RAISED.get(answer.next_step, Unavailable)(answer.words)


def _serialize(credentials: Credentials, verb: str, path: str, body: Body, query: Texts, headers: Texts) -> Request:
    """Return what ApiClient.call_api takes: the whole address, headers with our token, and the body as it is."""
    asked = {"query_params": [*query.items()], "header_params": {"Accept": JSON, **headers}}
    verb, address, headers, _, form = credentials.client.param_serialize(
        verb, path, **asked, auth_settings=["BearerToken"]
    )
    return verb, address, headers, body, form


def _trim_to_version(thing: Thing) -> Thing:
    return {"metadata": {name: thing["metadata"].get(name, "") for name in ("name", "namespace", "resourceVersion")}}


def _read_lines(response: urllib3.BaseHTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield one JSON value per line. Raises ValueError on a truncated line."""
    rest = b""
    for piece in response.stream(1 << 16, decode_content=True):
        *whole, rest = (rest + piece).split(b"\n")
        yield from (json.loads(line) for line in whole if line.strip())
    if rest.strip():
        yield json.loads(rest)
