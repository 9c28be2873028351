"""The door of services for programs: /-/TEAM/NAME/… on the portal's host, by a service key or an API token.

No cookie is read or set here, so nothing that a browser adds by itself opens it, and no page of a service runs on the
portal's origin.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from time import monotonic
from urllib.parse import urlsplit

import aiohttp
from channels.db import database_sync_to_async
from django.conf import settings
from django.utils import translation

from common.errors import NotFound, NotSignedIn, PlatformError, Unavailable
from portal.access.services.callers import Caller, load_caller
from portal.access.services.routes import Route, load_route
from portal.error_pages import DATABASE_ERRORS
from portal.gateway.http.cross_origin import value_of
from portal.gateway.http.grant_cache import LoadCache
from portal.gateway.http.relay import NotStarted, relay
from portal.gateway.http.responses import language_of, send_answer
from portal.gateway.http.scope import Application, Message, Receive, Request, Send, read_scope
from portal.gateway.http.services.answers import build_problem, to_caller, to_replica
from portal.gateway.http.services.canary_shares import CanaryShares
from portal.gateway.http.services.early_body import EarlyBody
from portal.gateway.http.services.in_flight import InFlight
from portal.gateway.http.services.traffic import TrafficCounts
from portal.gateway.http.upstream import NOT_RUNNING, NotDialed, open_session
from portal.services.wait_words import Wait, describe_waking
from runtimes.contract.access import Access
from services.models import Service

log = logging.getLogger("tessera.gateway")

PREFIX = b"/-/"
ADDRESS = re.compile(r"(/-/([A-Za-z0-9_.-]{1,64})/([a-z0-9-]{1,40}))(/.*)?", re.DOTALL)
BEARER = re.compile(r"bearer +(\S{8,200}) *", re.IGNORECASE)
CALLER_S, ROUTE_S = 5.0, 1.0
LOOK_S = 0.1
"""How often a held request asks whether a replica is ready; those of a service ask together."""


class Left(Exception):
    """The caller went away while the request was held."""


class StillWaking(Unavailable):
    """A request was held for as long as the service's file says. told: what it waits for, for programs."""

    def __init__(self, name: str, wait: Wait):
        super().__init__("service_waking", name=name, why=wait.words, retry_after_s=wait.retry_s)
        self.told = {"job": wait.job, "position": wait.position, "of": wait.of, "starts": wait.starts}


class ServiceDoor:
    """Wraps the portal's ASGI application. Requests to services never reach Django's views."""

    def __init__(self, portal: Application, access: Callable[[], Access]):
        self._portal, self._access = portal, access
        self._callers: LoadCache[Caller] = LoadCache(load_caller, lambda: CALLER_S)
        self._routes: LoadCache[Route] = LoadCache(load_route, lambda: ROUTE_S)
        self._session: aiohttp.ClientSession | None = None
        self.in_flight, self.traffic = InFlight(), TrafficCounts()
        self._canaries = CanaryShares(self.in_flight)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (scope.get("raw_path") or b"").startswith(PREFIX):
            await self._portal(scope, receive, send)
            return
        request, language = read_scope(scope), ""
        try:
            prefix, team, name, path = _read_address(request.raw_path)
            caller = await self._callers.find(team.lower(), name, _read_secret(request))
            assert caller is not None  # it raises
            language = caller.language
            passed = replace(request, raw_path=path, headers=to_replica(request.headers), scheme=_scheme())
            with self.in_flight.counted(self.in_flight.services, caller.service):
                await self._serve(caller.service, prefix, passed, EarlyBody(receive), send)
        except Left:
            return
        except PlatformError as error:
            more = {"wait": error.told} if isinstance(error, StillWaking) else {}
            await send_answer(await build_problem(error, request.headers, language, **more), send)
        except DATABASE_ERRORS as away:
            log.warning("cannot ask for a service: %s", away)
            refusal = Unavailable(retry_after_s=5)
            await send_answer(await build_problem(refusal, request.headers, language), send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Publish what is in flight and what was answered while the process lives."""
        async with self.in_flight.publishing(), self.traffic.publishing():
            yield
        if self._session:
            await self._session.close()

    async def _serve(self, service: int, prefix: str, request: Request, receive: EarlyBody, send: Send) -> None:
        """Pass a request on once a replica is ready. Only what no program has seen is sent to another one."""
        since, unreachable = monotonic(), set[str]()
        while True:
            route = await self._find_route(service)
            reachable = [one for one in route.replicas if one.task not in unreachable]
            if not reachable:
                unreachable.clear()
                await self._hold(service, route, since, request, receive)
                continue
            canary = None if unreachable else self._canaries.find_canary(service, route)
            chosen = canary or min(reachable, key=lambda one: self.in_flight.replicas[one.replica])
            answer = self.traffic.follow(service, chosen.revision, send)
            try:
                with self.in_flight.counted(self.in_flight.replicas, chosen.replica):
                    await receive.stop()
                    headers = partial(to_caller, prefix)
                    answer.end(await relay(self._upstream(), chosen, request, receive, answer.send, headers))
                return
            except NOT_RUNNING:
                unreachable.add(chosen.task)
            except NotStarted as why:
                if not isinstance(why.__cause__, NotDialed):
                    answer.end(is_whole=False)
                    raise Unavailable("service_silent", name=route.name) from why
                unreachable.add(chosen.task)
            self._routes.drop(service)

    async def _hold(self, service: int, route: Route, since: float, request: Request, receive: EarlyBody) -> None:
        """Wait until there are replicas to try. Raises Unavailable once that took too long, Left."""
        held = self.in_flight.held
        if held[service] >= route.hold.requests:
            raise Unavailable("service_full", name=route.name, max=route.hold.requests, retry_after_s=10)
        receive.read_ahead()
        self.in_flight.wake()
        with self.in_flight.counted(held, service):
            while True:
                left_s = since + route.hold.for_s - monotonic()
                if left_s <= 0:
                    raise StillWaking(route.name, await self._describe_wait(service, request))
                if await _happens_within(receive.left, min(LOOK_S, left_s)):
                    raise Left
                self._routes.drop_older(LOOK_S, service)
                if (await self._find_route(service)).replicas:
                    return

    async def _describe_wait(self, service: int, request: Request) -> Wait:
        return await database_sync_to_async(_load_wait)(service, language_of(request.headers))

    async def _find_route(self, service: int) -> Route:
        route = await self._routes.find(service)
        assert route is not None  # it raises
        if route.refusal is not None:
            raise route.refusal
        return route

    def _upstream(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session(self._access)
        return self._session


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


def _read_address(raw_path: str) -> tuple[str, str, str, str]:
    """Return what stands before the program's paths, the team, the service, and the path. Raises NotFound."""
    found = ADDRESS.fullmatch(raw_path)
    if found is None:
        raise NotFound(kind="service", id=raw_path[:80])
    return found[1], found[2], found[3], found[4] or "/"


def _read_secret(request: Request) -> str:
    found = BEARER.fullmatch(value_of(request.headers, b"authorization"))
    if found is None:
        raise NotSignedIn()
    return found[1]


def _scheme() -> str:
    return urlsplit(settings.TESSERA_PUBLIC_URL).scheme
