"""The door of services for programs: /-/TEAM/NAME/… on the portal's host, by a service key or an API token.

No cookie is read or set here, so nothing that a browser adds by itself opens it, and no page of a service runs on the
portal's origin.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from django.conf import settings

from common.errors import NotFound, NotSignedIn, PlatformError, Unavailable
from portal.access.services.callers import Caller, load_caller
from portal.access.services.routes import ReplicaAddress
from portal.error_pages import DATABASE_ERRORS
from portal.gateway.http.cross_origin import Headers, value_of
from portal.gateway.http.grant_cache import LoadCache
from portal.gateway.http.relay import relay
from portal.gateway.http.responses import Answer, deny, language_of, send_answer
from portal.gateway.http.scope import Application, Message, Receive, Request, Send, build_request, read_raw_path
from portal.gateway.http.services.answers import build_problem, to_caller, to_replica
from portal.gateway.http.services.door import Left, ServiceDoor, StillWaking
from portal.gateway.http.services.early_body import EarlyBody
from portal.gateway.http.services.going_on import going_on
from portal.gateway.http.services.key_limits import KeyLimits
from portal.gateway.http.tokens import without_token
from portal.gateway.http.websocket_relay import relay_socket
from services.usage import Calls

log = logging.getLogger("tessera.gateway")

PREFIX = b"/-/"
ADDRESS = re.compile(r"(/-/([A-Za-z0-9_.-]{1,64})/([a-z0-9-]{1,40}))(/.*)?", re.DOTALL)
BEARER = re.compile(r"bearer +(\S{8,200}) *", re.IGNORECASE)
CALLER_S = 5.0
RECHECK_S = 5.0
"""How often it is asked whether the caller of an open socket may still call."""


class ProgramDoor:
    """Wraps the portal's ASGI application. Requests to services never reach Django's views."""

    def __init__(self, portal: Application, door: ServiceDoor):
        self._portal, self._door = portal, door
        self._callers: LoadCache[Caller] = LoadCache(load_caller, lambda: CALLER_S)
        self._limits = KeyLimits()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not (scope.get("raw_path") or b"").startswith(PREFIX):
            await self._portal(scope, receive, send)
            return
        headers, language = scope["headers"], ""
        try:
            prefix, team, name, path = _read_address(read_raw_path(scope))
            asked = (team.lower(), name, _read_secret(headers))
            caller = await self._find_caller(asked)
            language = caller.language
            send = self._door.usage.watch(Calls(caller.service, caller.key, caller.key_name), send)
            query = without_token(scope["query_string"].decode("latin-1"))
            request = build_request(scope, path, query, to_replica(headers), _scheme())
            async with self._limits.admitted(caller):
                if scope["type"] == "websocket":
                    await self._serve_socket(caller, asked, request, scope["subprotocols"], EarlyBody(receive), send)
                else:
                    await self._serve(caller, prefix, request, EarlyBody(receive), send)
        except Left:
            return
        except PlatformError as error:
            more = {"wait": error.told} if isinstance(error, StillWaking) else {}
            await _refuse(scope, await build_problem(error, headers, language, **more), send)
        except DATABASE_ERRORS as away:
            log.warning("cannot ask for a service: %s", away)
            refusal = Unavailable(retry_after_s=5)
            await _refuse(scope, await build_problem(refusal, headers, language), send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the limits of keys while the process lives."""
        async with going_on(self._limits.renew()):
            yield

    async def _serve(self, caller: Caller, prefix: str, request: Request, receive: EarlyBody, send: Send) -> None:
        async def pass_to(replica: ReplicaAddress, send: Send) -> bool:
            return await relay(self._door.upstream.pool, replica, request, receive, send, partial(to_caller, prefix))

        await self._door.pass_on(caller.service, receive, send, pass_to, _choose_language(caller, request))

    async def _serve_socket(
        self,
        caller: Caller,
        asked: tuple[str, str, str],
        request: Request,
        protocols: list[str],
        receive: EarlyBody,
        send: Send,
    ) -> None:
        async def until_ended() -> None:
            await self._wait_until_refused(asked)

        async def pass_to(replica: ReplicaAddress, send: Send) -> None:
            await relay_socket(self._door.upstream.session, replica, request, protocols, receive, send, until_ended)

        await receive()  # "websocket.connect"
        await self._door.pass_on(caller.service, receive, send, pass_to, _choose_language(caller, request))

    async def _find_caller(self, asked: tuple[str, str, str]) -> Caller:
        caller = await self._callers.find(*asked)
        assert caller is not None  # it raises
        return caller

    async def _wait_until_refused(self, asked: tuple[str, str, str]) -> None:
        """Return once the caller may not call any more."""
        while True:
            await asyncio.sleep(RECHECK_S)
            try:
                await self._find_caller(asked)
            except PlatformError:
                return
            except DATABASE_ERRORS as away:  # asked again next time
                log.warning("cannot ask whether a caller's socket may stay: %s", away)


def _choose_language(caller: Caller, request: Request) -> Callable[[], str]:
    return partial(language_of, request.headers, caller.language)


async def _refuse(scope: Message, answer: Answer, send: Send) -> None:
    await (deny if scope["type"] == "websocket" else send_answer)(answer, send)


def _read_address(raw_path: str) -> tuple[str, str, str, str]:
    """Return what stands before the program's paths, the team, the service, and the path. Raises NotFound."""
    found = ADDRESS.fullmatch(raw_path)
    if found is None:
        raise NotFound(kind="service", id=raw_path[:80])
    return found[1], found[2], found[3], found[4] or "/"


def _read_secret(headers: Headers) -> str:
    found = BEARER.fullmatch(value_of(headers, b"authorization"))
    if found is None:
        raise NotSignedIn()
    return found[1]


def _scheme() -> str:
    return settings.TESSERA_PUBLIC_URL.partition(":")[0]
