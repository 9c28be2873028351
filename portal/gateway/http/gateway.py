"""ASGI gateway to apps, in front of Django.

It serves apps' hosts only and Django the portal's only, so they share no origin.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from math import inf

from django.db import DatabaseError
from django.utils import translation

from common.errors import PlatformError
from portal.access.app_links import app_origin, is_app_host
from portal.access.app_sessions import AppGrant, load_visit
from portal.error_pages import DATABASE_ERRORS
from portal.gateway.http import error_texts
from portal.gateway.http.cookies import Tossed, read_cookie, session_cookie
from portal.gateway.http.cross_origin import is_visit, refusal
from portal.gateway.http.grant_cache import GrantCache
from portal.gateway.http.relay import NotStarted, relay
from portal.gateway.http.responses import Answer, Words, build_error_answer, deny, language_of, send_answer
from portal.gateway.http.scope import Application, Message, Receive, Request, Send, read_scope
from portal.gateway.http.services.door import Left, ServiceDoor
from portal.gateway.http.services.early_body import EarlyBody
from portal.gateway.http.sign_in import ENTER, ask_portal, redeem
from portal.gateway.http.tensorboards import TensorBoards
from portal.gateway.http.upstream.dialing import NOT_ANSWERING, NOT_RUNNING, Target
from portal.gateway.http.upstream.upstream import Upstream
from portal.gateway.http.websocket_relay import relay_socket
from portal.gateway.rechecks import Rechecks
from portal.gateway.touches import touch
from runtimes.contract.access import Access
from services.models import CallCount
from services.usage import Calls

log = logging.getLogger("tessera.gateway")

PAGE_WAITS_S = 2.0
"""How long a page of a service is held while that wakes, before the browser is told so; it asks again by itself."""
RECHECK_S = 20  # of open sockets; with GrantCache, access ends within 25 s even if a message is lost


class Gateway:
    """Wraps the portal's ASGI application; `load` finds the app grant of a label and session secret."""

    def __init__(
        self,
        portal: Application,
        access: Callable[[], Access],
        services: ServiceDoor | None = None,
        load: Callable[[str, str], AppGrant | None] = load_visit,
    ):
        self._portal, self._access = portal, access
        self._services = services or ServiceDoor(access)
        self._visits, self._boards = GrantCache(load), TensorBoards(access)
        self._rechecks = Rechecks(self._visits.forget)
        self._upstream = Upstream(access)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        label = label_of(scope)
        if label is None:
            await self._portal(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._serve_socket(label, scope, receive, send)
        else:
            await self._serve(label, read_scope(scope), receive, send)

    async def aclose(self) -> None:
        await self._services.aclose()
        await self._upstream.aclose()

    # ---- requests ----

    async def _serve(self, label: str, request: Request, receive: Receive, send: Send) -> None:
        answer = await self._lead(label, request, lambda grant: self._relay(grant, request, receive, send))
        if answer is not None:
            await send_answer(answer, send)

    async def _relay(self, grant: AppGrant, request: Request, receive: Receive, send: Send) -> None:
        if grant.service:
            await self._relay_to_service(grant, request, EarlyBody(receive), send)
            return
        if is_visit(request.method, request.headers) or request.method not in ("GET", "HEAD"):  # pages poll by GET
            touch(grant.task)
        try:
            await self._boards.start_board(grant)
            await relay(self._upstream.pool, grant, request, receive, send)
        except (NotStarted, *NOT_ANSWERING, NOT_RUNNING, PlatformError):
            self._boards.forget(grant)
            raise

    async def _relay_to_service(self, grant: AppGrant, request: Request, receive: EarlyBody, send: Send) -> None:
        async def pass_to(target: Target, send: Send) -> bool:
            return await relay(self._upstream.pool, target, request, receive, send)

        waits_s = PAGE_WAITS_S if is_visit(request.method, request.headers) else inf
        language = partial(_language_of, grant, request)
        await self._services.pass_on(grant.service, receive, self._count(grant, send), pass_to, language, waits_s)

    def _count(self, grant: AppGrant, send: Send) -> Send:
        """Count what a program answers to browsers. Not a page that waits for it: it asks again by itself."""
        return self._services.usage.watch(Calls(grant.service, CallCount.BY_BROWSER), send)

    async def _lead(
        self, label: str, request: Request, through: Callable[[AppGrant], Awaitable[None]]
    ) -> Answer | None:
        """Run `through` for an admitted grant; return an error response, or None.

        The cached task may have ended and its next attempt run, so one retry reads the grant anew.
        """
        for last in (False, True):
            grant = await self._admit(label, request)
            if isinstance(grant, Answer):
                return grant
            try:
                await through(grant)
                return None
            except Left:
                return None
            except DATABASE_ERRORS as away:
                with translation.override(_language_of(grant, request)):
                    return _build_unavailable(label, request, away)
            except (NotStarted, *NOT_ANSWERING, NOT_RUNNING, PlatformError) as why:
                answer = _build_failure(grant, request, why)
                if last or not isinstance(why, NOT_RUNNING):
                    break
                self._visits.forget(grant.user_id)
        return answer

    async def _admit(self, label: str, request: Request) -> AppGrant | Answer:
        """Return the grant if the request may pass, else a response."""
        with translation.override(language_of(request.headers)):
            # A page elsewhere can make a browser send its cookies, but never a token that it does not know.
            if not request.token and (why := refusal(request.method, request.headers, app_origin(label))):
                log.warning("refused %s at %s: %s", request.method, label, why)
                return _build_error(403, error_texts.describe_foreign_origin(), request)
            try:
                if request.raw_path == ENTER:
                    return await redeem(label, request.query, request.method, request.headers)
                grant = await self._visit(label, request)
                if grant is None:
                    return self._answer_unknown_host(label, request)
            except Tossed:
                return _build_error(400, error_texts.describe_two_cookies(), request)
            except DATABASE_ERRORS as away:
                return _build_unavailable(label, request, away)
        with translation.override(_language_of(grant, request)):
            return grant if grant.is_open else _build_error(503, error_texts.describe_not_running(grant), request)

    async def _visit(self, label: str, request: Request) -> AppGrant | None:
        secret = request.token or read_cookie(request.headers, session_cookie(label))
        return await self._visits.find(label, secret) if secret else None

    @staticmethod
    def _answer_unknown_host(label: str, request: Request) -> Answer:
        if request.token:
            return _build_error(401, error_texts.describe_dead_token(), request)
        if is_visit(request.method, request.headers):
            return ask_portal(label, request.full_path, request.headers)
        return _build_error(401, error_texts.describe_signed_out(), request)

    # ---- sockets ----

    async def _serve_socket(self, label: str, scope: Message, receive: Receive, send: Send) -> None:
        request = read_scope(scope)
        await receive()  # "websocket.connect"
        early = EarlyBody(receive)

        async def converse(grant: AppGrant) -> None:
            async def hear() -> Message:
                message = await early()
                touch(grant.task)
                return message

            async def until_ended() -> None:
                await self._until_ended(label, request, grant)

            async def pass_to(target: Target, send: Send) -> None:
                session, protocols = self._upstream.session, scope["subprotocols"]
                await relay_socket(session, target, request, protocols, hear, send, until_ended)

            if grant.service:
                language = partial(_language_of, grant, request)
                await self._services.pass_on(grant.service, early, self._count(grant, send), pass_to, language)
            else:
                await pass_to(grant, send)

        answer = await self._lead(label, request, converse)
        if answer is not None:
            await deny(answer, send)

    async def _until_ended(self, label: str, request: Request, grant: AppGrant) -> None:
        """Return when the user loses access."""
        with self._rechecks.bell(grant.user_id) as bell:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(bell.wait(), RECHECK_S)
                bell.clear()
                try:
                    if await self._visit(label, request) is None:
                        return
                except DatabaseError as away:  # checked again next round
                    log.warning("cannot ask whether a socket to %s may stay: %s", grant.name, away)


def label_of(scope: Message) -> str | None:
    """Return the label of the app host in the request; None for the portal or a repeated Host."""
    if scope["type"] not in {"http", "websocket"}:
        return None
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return is_app_host(hosts[0]) if len(hosts) == 1 else None


def _build_failure(grant: AppGrant, request: Request, why: Exception) -> Answer:
    with translation.override(_language_of(grant, request)):
        if grant.service and isinstance(why, PlatformError):
            return _build_error(why.status, error_texts.describe_service(grant, why), request)
        if isinstance(why, NOT_RUNNING):
            return _build_error(503, error_texts.describe_not_running(grant), request)
        if isinstance(why, PlatformError):
            return _build_error(502, error_texts.describe_failed_start(why), request)
        log.info("%s does not answer on port %s: %r", grant.name, grant.port, why.__cause__ or why)
        return _build_error(502, error_texts.describe_silent_app(grant), request)


def _build_unavailable(label: str, request: Request, away: Exception) -> Answer:
    log.warning("cannot ask who comes to %s: %s", label, away)
    return _build_error(503, error_texts.describe_unavailable(), request)


def _language_of(grant: AppGrant, request: Request) -> str:
    return language_of(request.headers, grant.language)


def _build_error(status: int, words: Words, request: Request) -> Answer:
    return build_error_answer(status, words, request.method, request.headers)
