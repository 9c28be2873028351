"""A reverse proxy between us and a real API server that does what networks and servers do, by dice of a seed.

Each fault has a chance for each kind of request (CHANCES); at its own turn it comes even against the odds, so that none
is left out. What was done stands in `given`, what passed in `seen`. `heal` ends it: then everything just passes.
"""

import asyncio
import json
import random
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

from runtimes.kubernetes.connection import Connection

CALLS: dict[str, float] = {  # of any request but a watch
    "hang": 0.004,  # no answer until the client has had enough
    "reset": 0.01,  # nothing happened, and no answer
    "lost": 0.02,  # it happened, and no answer
    "half": 0.01,  # it happened, and half an answer
    "500": 0.01,
    "502": 0.01,
    "503": 0.005,
    "504": 0.01,
    "500_done": 0.01,  # it happened, and the answer is an error
    "429": 0.005,
    "401": 0.001,
    "403": 0.001,
}
CHANCES: dict[str, dict[str, float]] = {
    "create": CALLS | {"exists": 0.02, "quota": 0.003, "422": 0.02},
    "read": CALLS | {"404": 0.01, "410": 0.005},
    "list": CALLS | {"410": 0.05, "stale": 0.1},
    "change": CALLS | {"conflict": 0.05, "404": 0.01},
    "delete": CALLS | {"conflict": 0.02, "404": 0.02},
    "watch": {"reset": 0.05, "500": 0.05, "429": 0.03, "410": 0.05, "silent": 0.15, "cut": 0.3, "gone_inside": 0.1},
    "event": {"twice": 0.03, "swapped": 0.03},
    "deleted": {"late": 0.1},
}
TURNS = 8
"""Within so many chances a fault comes at least once."""
KEPT_LISTS = 6
HANG_S, SILENT_S, LATE_S, SWAPPED_S, AFTER_S = 40.0, 600.0, 60.0, 0.5, 2

STATUS = {
    "500": (500, "InternalError", "etcdserver: request timed out"),
    "500_done": (500, "InternalError", "etcdserver: leader changed"),
    "502": (502, "", "Bad Gateway"),
    "503": (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    "504": (504, "Timeout", "the server was unable to return a response in the time allotted"),
    "429": (429, "TooManyRequests", "too many requests, please try again later"),
    "401": (401, "Unauthorized", "Unauthorized"),
    "403": (403, "Forbidden", 'pods is forbidden: User "x" cannot do this'),
    "exists": (409, "AlreadyExists", "pods already exists"),
    "conflict": (409, "Conflict", "the object has been modified; please apply your changes to the latest version"),
    "quota": (403, "Forbidden", "pods is forbidden: exceeded quota: full, requested: pods=1, used: pods=1"),
    "404": (404, "NotFound", "pods not found"),
    "410": (410, "Expired", "The provided continue parameter is too old"),
    "422": (422, "Invalid", "Pod is invalid: spec.containers[0].image: Invalid value"),
}
GONE_INSIDE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


class FaultProxy:
    """A context manager: in it `connection` leads through the faults, in a thread with a loop of its own.

    given: {(kind, fault): times}. seen: {(verb, kind): requests}. refused: names of the pods whose making was told to
    be wrong for ever; full: of those that a quota was said to have no room for.
    """

    def __init__(self, behind: Connection, seed: int, chances: dict[str, dict[str, float]] = CHANCES):
        self.behind, self.chances = behind, chances
        self.given, self.seen = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self.refused: set[str] = set()
        self.full: set[str] = set()
        self.healed_at: float | None = None
        self._dice = random.Random(seed)
        self._turn = {
            (kind, fault): self._dice.randint(1, TURNS) for kind, faults in chances.items() for fault in faults
        }
        self._lists: dict[str, deque[bytes]] = defaultdict(lambda: deque(maxlen=KEPT_LISTS))
        self._loop = asyncio.new_event_loop()
        self._healed = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)

    def __enter__(self) -> "FaultProxy":
        self._thread.start()
        self._await(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def connection(self) -> Connection:
        return Connection(f"http://127.0.0.1:{self.port}", self.behind.tls)

    def heal(self) -> None:
        """No fault begins from now on. A watch that is silent stays so, as one through a dead middlebox does."""
        if self.healed_at is None:
            self.healed_at = time.monotonic()

    def missing(self) -> set[tuple[str, str]]:
        """What did not come yet."""
        return {(kind, fault) for kind, faults in self.chances.items() for fault in faults} - set(self.given)

    def _await(self, work) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self) -> None:
        connector = TCPConnector(ssl=self.behind.tls, limit=0)
        self._session = ClientSession(connector=connector, timeout=ClientTimeout(total=None))
        self._runner = web.AppRunner(self._application(), handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        return application

    async def _close(self) -> None:
        await self._runner.cleanup()
        await self._session.close()
        await asyncio.sleep(0.3)  # TLS says goodbye

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        kind = kind_of(request)
        self.seen[request.method, kind] += 1
        fault = self._draw(kind)
        if kind == "watch":
            return await self._watch(request, fault)
        return await self._call(request, kind, fault)

    def _draw(self, kind: str) -> str:
        """The fault that this one gets, "" for none."""
        if self.healed_at is not None:
            return ""
        for fault in self.chances.get(kind, {}):
            self._turn[kind, fault] -= 1
        due = [fault for fault in self.chances.get(kind, {}) if self._turn[kind, fault] == 0]
        struck = [fault for fault, chance in self.chances.get(kind, {}).items() if self._dice.random() < chance]
        for other in due[1:]:
            self._turn[kind, other] = 1  # the next one's
        fault = next(iter([*due, *struck]), "")
        if fault:
            self.given[kind, fault] += 1
        return fault

    async def _call(self, request: web.Request, kind: str, fault: str) -> web.StreamResponse:
        body = await request.read()
        if fault == "hang":
            await asyncio.sleep(HANG_S)
        if fault in ("hang", "reset"):
            return _hang_up(request)
        if fault in ("422", "quota"):
            (self.refused if fault == "422" else self.full).add(json.loads(body)["metadata"]["name"])
        if fault in STATUS and fault != "500_done":
            return _status(fault)
        try:
            status, headers, answer = await self._forward(request, body)
        except (ClientError, OSError):  # the one behind us is away: that is a fault of its own, and no page of ours
            return _hang_up(request)
        if fault == "lost":
            return _hang_up(request)
        if fault == "500_done":
            return _status(fault)
        if kind == "list" and status == 200:
            kept = self._lists[request.path_qs]
            answer, _ = (kept[0] if fault == "stale" and kept else answer), kept.append(answer)
        if fault == "half":
            answer = answer[: len(answer) // 2]
        return web.Response(status=status, body=answer, headers=headers)

    async def _forward(self, request: web.Request, body: bytes) -> tuple[int, dict[str, str], bytes]:
        async with self._session.request(
            request.method, self.behind.server + request.path_qs, data=body or None, headers=_headers_of(request)
        ) as answer:
            kept = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            return answer.status, kept, await answer.read()

    async def _watch(self, request: web.Request, fault: str) -> web.StreamResponse:
        if fault == "reset":
            return _hang_up(request)
        if fault in STATUS:
            return _status(fault)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if fault == "silent":
            await response.prepare(request)
            await asyncio.sleep(SILENT_S)
            return response
        left = self._dice.randint(100, 20_000) if fault == "cut" else 1 << 40
        if fault == "gone_inside":
            left = self._dice.randint(0, 5_000)
        try:
            async with self._session.get(self.behind.server + request.path_qs, headers=_headers_of(request)) as answer:
                response.set_status(answer.status)
                await response.prepare(request)
                async for line in self._disturbed(answer.content):
                    whole = fault != "cut" or line.count(b"\n") > 1  # nothing that came late is lost with it
                    await response.write(line if whole else line[:left])
                    left -= len(line)
                    if left <= 0:
                        break
        except (ClientError, OSError):
            return _hang_up(request)
        if fault == "gone_inside":
            await response.write(json.dumps({"type": "ERROR", "object": GONE_INSIDE}).encode() + b"\n")
        elif fault == "cut":
            return _hang_up(request)
        return response

    async def _disturbed(self, content) -> AsyncIterator[bytes]:
        """The lines of a watch, some of them late, twice, or after the ones behind."""
        waiting: list[tuple[float, bytes]] = []
        held: list[bytes] = []
        reading = asyncio.ensure_future(content.readline())
        try:
            while True:
                rest = max(min(at for at, _ in waiting) - time.monotonic(), 0.0) if waiting else None
                await asyncio.wait([reading], timeout=rest)
                now = time.monotonic()
                for each in [each for each in waiting if each[0] <= now]:
                    waiting.remove(each)
                    yield each[1]
                if not reading.done():
                    continue
                line = reading.result()
                if not line:
                    yield b"".join(line for _, line in waiting)
                    return
                reading = asyncio.ensure_future(content.readline())
                fault = self._draw(_kind_of_event(line))
                if fault == "late":
                    waiting.append((now + LATE_S, line))
                elif fault == "swapped":
                    held = [line]
                    waiting.append((now + SWAPPED_S, line))
                else:
                    before = [each for each in waiting if each[1] in held]
                    waiting = [each for each in waiting if each not in before]
                    yield b"".join([line, *[line] * (fault == "twice"), *[each[1] for each in before]])
        finally:
            reading.cancel()


def _kind_of_event(line: bytes) -> str:
    start = line[:40]
    return "bookmark" if b'"BOOKMARK"' in start else "deleted" if b'"DELETED"' in start else "event"


def kind_of(request: web.Request) -> str:
    if request.query.get("watch") == "true":
        return "watch"
    single = not request.path.endswith(("/pods", "/nodes", "/namespaces"))
    kinds = {"POST": "create", "PATCH": "change", "DELETE": "delete"}
    return kinds.get(request.method) or ("read" if single else "list")


def _headers_of(request: web.Request) -> dict[str, str]:
    names = ("Accept", "Content-Type", "Authorization")
    kept = {name: request.headers[name] for name in names if name in request.headers}
    return kept | {"Accept-Encoding": "identity"}


def _hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _status(fault: str) -> web.Response:
    status, reason, message = STATUS[fault]
    headers = {"Retry-After": str(AFTER_S)} if status in (429, 503) else {}
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return web.json_response(body, status=status, headers=headers)
