"""A reverse proxy between us and a real API server that does what networks and servers do, by dice of a seed.

What each request gets is drawn from a deck for its kind (fault_deck.py). What was done stands in `given`, what passed
in `seen`, and what befell whom in `story`. `heal` ends it: then everything just passes.
"""

import asyncio
import json
import random
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable

from aiohttp import ClientError, web

from runtimes.kubernetes.api.credentials import CredentialSource
from tests.fault_deck import CHANCES, SHARE, SHARES, Deck
from tests.reverse_proxy import ReverseProxy, hang_up, status_answer

KEPT_LISTS = 6
KEPT_LINES = 200
UUID = re.compile("[0-9a-f]{32}")
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


class FaultProxy(ReverseProxy):
    """A context manager: in it `kubeconfig` leads through the faults, in a thread with a loop of its own.

    times: how often each fault comes at least, if there are requests enough. reshape: what is done to each pod that
    somebody makes.
    given: {(kind, fault): times}. seen: {(verb, kind): requests}. refused: names of the pods whose making was told to
    be wrong for ever; full: of those that a quota was said to have no room for. story: {uuid of a task: what befell
    requests about it}, "" for watches and lists of all.
    """

    def __init__(
        self,
        behind: CredentialSource,
        seed: int,
        times: int = 1,
        chances: dict[str, dict[str, float]] = CHANCES,
        reshape: Callable[[dict], dict] = lambda pod: pod,
    ):
        super().__init__(behind, user={})
        self.times, self.reshape = times, reshape
        self.given, self.seen = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self.refused: set[str] = set()
        self.full: set[str] = set()
        self.story: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=KEPT_LINES))
        self.healed_at: float | None = None
        self._dice = random.Random(seed)
        self._decks = {
            kind: Deck(self._dice, faults, times, SHARES.get(kind, SHARE)) for kind, faults in chances.items()
        }
        self._owed = {(kind, fault) for kind, faults in chances.items() for fault in faults}
        self._lists: dict[str, deque[bytes]] = defaultdict(lambda: deque(maxlen=KEPT_LISTS))

    def __exit__(self, *_: object) -> None:
        self.heal()
        super().__exit__()

    def heal(self) -> None:
        """No fault begins from now on. A watch that is silent stays so, as one through a dead middlebox does."""
        if self.healed_at is None:
            self.healed_at = time.monotonic()

    def missing(self) -> set[tuple[str, str]]:
        """What did not come as often as it should, yet."""
        return {each for each in self._owed if self.given[each] < self.times}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        kind, began = kind_of(request), time.time()
        self.seen[request.method, kind] += 1
        fault = self._draw(kind)
        body, status = await request.read(), "no answer"
        made = json.loads(body)["metadata"]["name"] if kind == "create" else ""
        try:
            done = await (
                self._watch(request, fault) if kind == "watch" else self._call(request, kind, fault, body, made)
            )
            status = str(done.status)
            return done
        finally:
            words = f"{clock(began)} {kind} {request.method} {request.path_qs[-90:]}: {fault or 'passed'}, {status}"
            self.story[_task_in(f"{made} {request.path_qs}")].append(f"{words}, after {time.time() - began:.1f} s")

    def _draw(self, kind: str) -> str:
        """The fault that this one gets, "" for none."""
        if self.healed_at is not None or kind not in self._decks:
            return ""
        if fault := self._decks[kind].draw():
            self.given[kind, fault] += 1
        return fault

    def _give_back(self, kind: str, fault: str) -> str:
        self.given[kind, fault] -= 1
        self._decks[kind].give_back(fault)
        return ""

    async def _call(self, request: web.Request, kind: str, fault: str, body: bytes, made: str) -> web.StreamResponse:
        if made:
            body = json.dumps(self.reshape(json.loads(body))).encode()
        if kind == "list" and fault == "stale" and not self._lists[request.path_qs]:
            fault = self._give_back(kind, fault)
        if fault == "hang":
            await asyncio.sleep(HANG_S)
        if fault in ("hang", "reset"):
            return hang_up(request)
        if fault in ("422", "quota"):
            (self.refused if fault == "422" else self.full).add(made)
        if fault in STATUS and fault != "500_done":
            return _status(fault)
        try:
            status, headers, answer = await self._forward(request, body)
        except (ClientError, OSError):  # the one behind us is away: that is a fault of its own, and no page of ours
            return hang_up(request)
        if fault == "lost":
            return hang_up(request)
        if fault == "500_done":
            return _status(fault)
        if kind == "list" and status == 200:
            kept = self._lists[request.path_qs]
            answer, _ = (kept[0] if fault == "stale" else answer), kept.append(answer)
        if fault == "half":
            answer = answer[: len(answer) // 2]
        return web.Response(status=status, body=answer, headers=headers)

    async def _forward(self, request: web.Request, body: bytes) -> tuple[int, dict[str, str], bytes]:
        async with self.sent_on(request, body) as answer:
            kept = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            return answer.status, kept, await answer.read()

    async def _watch(self, request: web.Request, fault: str) -> web.StreamResponse:
        if fault == "reset":
            return hang_up(request)
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
            async with self.sent_on(request) as answer:
                response.set_status(answer.status)
                await response.prepare(request)
                async for line in self._disturbed(answer.content):
                    whole = fault != "cut" or line.count(b"\n") > 1  # nothing that came late is lost with it
                    await response.write(line if whole else line[:left])
                    left -= len(line)
                    if left <= 0:
                        break
        except (ClientError, OSError):
            return hang_up(request)
        if fault == "gone_inside":
            await response.write(json.dumps({"type": "ERROR", "object": GONE_INSIDE}).encode() + b"\n")
        elif fault == "cut":
            return hang_up(request)
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
    whole = request.path.endswith(("/pods", "/nodes", "/namespaces"))
    if request.method == "POST":
        return "create" if request.path.endswith("/pods") else "change"
    return {"PATCH": "change", "DELETE": "delete"}.get(request.method) or ("list" if whole else "read")


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at)) + f"{at % 1:.1f}"[1:]


def _task_in(text: str) -> str:
    found = UUID.search(text)
    return found[0] if found else ""


def _status(fault: str) -> web.Response:
    code, reason, message = STATUS[fault]
    return status_answer(code, reason, message, **({"Retry-After": str(AFTER_S)} if code in (429, 503) else {}))
