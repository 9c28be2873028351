"""The way to a service's replicas, for programs and browsers: what waits, to which replica, and what is in flight."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from time import monotonic

from channels.db import database_sync_to_async
from django.utils import translation

from common.errors import NotFound, Unavailable
from portal.access.services.routes import ReplicaAddress, Route, load_route
from portal.gateway.http.grant_cache import LoadCache
from portal.gateway.http.relay import NotStarted
from portal.gateway.http.scope import Send
from portal.gateway.http.services.canary_shares import CanaryShares
from portal.gateway.http.services.early_body import EarlyBody
from portal.gateway.http.services.going_on import going_on
from portal.gateway.http.services.in_flight import InFlight
from portal.gateway.http.services.traffic import TrafficCounts
from portal.gateway.http.services.usage import UsageCounter
from portal.gateway.http.upstream.dialing import NOT_RUNNING, NotDialed
from portal.gateway.http.upstream.upstream import Upstream
from portal.services.wait_words import Wait, describe_waking
from runtimes.contract.access import Access
from services.models import Service

ROUTE_S = 1.0
LOOK_S = 0.1
"""How often a held request asks whether a replica is ready; those of a service ask together."""
PassTo = Callable[[ReplicaAddress, Send], Awaitable[bool | None]]
"""Passes a request to a replica and its answer to the caller. Returns whether the answer is whole; None for what is no
answer, as a socket's, and is not counted.
"""


class Left(Exception):
    """The caller went away while the request was held."""


class StillWaking(Unavailable):
    """A request was held for as long as the service's file says. told: what it waits for, for programs."""

    def __init__(self, name: str, wait: Wait):
        super().__init__("service_waking", name=name, why=wait.words, retry_after_s=wait.retry_s)
        self.told = {"job": wait.job, "position": wait.position, "of": wait.of, "starts": wait.starts}


class ServiceDoor:
    """Knows, for one process, where the requests of services go and how many there are."""

    def __init__(self, access: Callable[[], Access]):
        self.upstream = Upstream(access)
        self._routes: LoadCache[Route] = LoadCache(load_route, lambda: ROUTE_S)
        self.in_flight, self.traffic, self.usage = InFlight(), TrafficCounts(), UsageCounter()
        self._canaries = CanaryShares(self.in_flight)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Publish what is in flight, what was answered and who called while the process lives."""
        async with self.in_flight.publishing(), self.traffic.publishing(), going_on(self.usage.store()):
            yield
        await self.aclose()

    async def aclose(self) -> None:
        await self.upstream.aclose()

    async def pass_on(
        self,
        service: int,
        receive: EarlyBody,
        send: Send,
        pass_to: PassTo,
        language: Callable[[], str],
        most_s: float = inf,
    ) -> None:
        """Call `pass_to` once a replica is ready, again with another one only for what no program has seen.

        language: of the wait's words. most_s: how long it may wait, if that is less than the service's file says.
        Raises Unavailable, StillWaking, Left; `pass_to` raises NotStarted where no program answered.
        """
        since, unreachable = monotonic(), set[str]()
        with self.in_flight.counted(self.in_flight.services, service):
            while True:
                route = await self._find_route(service)
                reachable = [one for one in route.replicas if one.task not in unreachable]
                if not reachable:
                    unreachable.clear()
                    await self._hold(service, route, since + min(route.hold.for_s, most_s), receive, language)
                    continue
                canary = None if unreachable else self._canaries.find_canary(service, route)
                chosen = canary or min(reachable, key=lambda one: self.in_flight.replicas[one.replica])
                answer = self.traffic.follow(service, chosen.revision, send)
                try:
                    with self.in_flight.counted(self.in_flight.replicas, chosen.replica):
                        await receive.stop()
                        is_whole = await pass_to(chosen, answer.send)
                    if is_whole is not None:
                        answer.end(is_whole)
                    return
                except NOT_RUNNING:
                    unreachable.add(chosen.task)
                except NotStarted as why:
                    if not isinstance(why.__cause__, NotDialed):
                        answer.end(is_whole=False)
                        raise Unavailable("service_silent", name=route.name) from why
                    unreachable.add(chosen.task)
                self._routes.drop(service)

    async def _hold(
        self, service: int, route: Route, until: float, receive: EarlyBody, language: Callable[[], str]
    ) -> None:
        """Wait until there are replicas to try. Raises Unavailable once that took too long, Left."""
        held = self.in_flight.held
        if held[service] >= route.hold.requests:
            raise Unavailable("service_full", name=route.name, max=route.hold.requests, retry_after_s=10)
        receive.read_ahead()
        self.in_flight.wake()
        with self.in_flight.counted(held, service):
            while True:
                left_s = until - monotonic()
                if left_s <= 0:
                    raise StillWaking(route.name, await database_sync_to_async(_load_wait)(service, language()))
                if await _happens_within(receive.left, min(LOOK_S, left_s)):
                    raise Left
                self._routes.drop_older(LOOK_S, service)
                if (await self._find_route(service)).replicas:
                    return

    async def _find_route(self, service: int) -> Route:
        route = await self._routes.find(service)
        assert route is not None  # it raises
        if route.refusal is not None:
            raise route.refusal
        return route


async def _happens_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


def _load_wait(service: int, language: str) -> Wait:
    row = Service.objects.live().with_names().filter(pk=service).first()
    if row is None:
        raise NotFound(kind="service", id=f"svc-{service}")
    with translation.override(language):
        return describe_waking(row)
