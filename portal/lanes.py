"""How many requests are worked on at once: a storm of calls neither slows the pages of others nor empties the pool.

A web process works on them in threads that take turns, each with a connection of the database's pool. What would be too
many at once waits here, in order and before anything is done, and is refused with the true reason where it waited long.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import translation

from common.errors import Busy
from portal.error_pages import show_failure
from portal.health import PROBES
from portal.request_metrics import count_request

WAITS_S = 10.0
MOST_WAITING = 1000
"""In each lane; a request that waits holds its body."""
PAGES, READS, WRITES, WRITES_BESIDE_PAGES = 8, 4, 6, 1
"""At once, and together fewer than the pool has connections (config.settings). One by one, writing calls beside a page
are hardly slower, as all threads share one interpreter, and it has its turn after each of them.
"""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Lane:
    """Lets requests in as long as there is room; the others wait their turn."""

    def __init__(self, room: Callable[[], int]):
        self.room = room
        self.inside = 0
        self._line: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for room. Raises Busy after WAITS_S, or at once if too many wait."""
        if not self._line and self.inside < self.room():
            self.inside += 1
            return
        if len(self._line) >= MOST_WAITING:
            raise Busy()
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            async with asyncio.timeout(WAITS_S):
                await turn
        except BaseException as gone:
            self._give_up(turn)
            if isinstance(gone, TimeoutError):
                raise Busy() from None
            raise

    def leave(self) -> None:
        self.inside -= 1
        self.call_next()

    def call_next(self) -> None:
        while self._line and self.inside < self.room():
            turn = self._line.popleft()
            if not turn.done():
                self.inside += 1
                turn.set_result(None)

    def _give_up(self, turn: "asyncio.Future[None]") -> None:
        if turn in self._line:
            self._line.remove(turn)
        elif turn.done() and not turn.cancelled():  # it was called in the same moment
            self.leave()


class LanedHandler(ASGIHandler):
    """Django, with a lane each for pages, reading calls and writing calls. Beside a page, fewer writing calls begin.

    Bodies have arrived by then, and answers that are streamed leave before their first byte.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pages, self.reads = Lane(lambda: PAGES), Lane(lambda: READS)
        self.writes = Lane(lambda: WRITES_BESIDE_PAGES if self.pages.inside else WRITES)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        if request.path in PROBES or request.path.startswith(settings.STATIC_URL):
            return await super().get_response_async(request)
        lane = self._choose(request)
        try:
            await lane.enter()
        except Busy as busy:
            return _refuse(request, busy)
        began = monotonic()
        try:
            response = await super().get_response_async(request)
            count_request(request, response.status_code, monotonic() - began)
            return response
        finally:
            lane.leave()
            self.writes.call_next()  # they may have waited for the page

    def _choose(self, request: HttpRequest) -> Lane:
        if not request.path.startswith("/api/"):
            return self.pages
        return self.reads if request.method in SAFE else self.writes


def _refuse(request: HttpRequest, busy: Busy) -> HttpResponse:
    with translation.override(translation.get_language_from_request(request)):
        response = show_failure(request, busy)
    response._resource_closers.append(request.close)  # type: ignore[attr-defined]  # as Django does
    return response
