"""A reverse proxy that lets in whoever shows a token of exec_credential.py, for as long as that lives."""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from aiohttp import ClientError, WSMsgType, web

from runtimes.kubernetes.api.credentials import CredentialSource
from tests.exec_credential import issued_at, user_of
from tests.reverse_proxy import ReverseProxy, hang_up, status_answer


class TokenProxy(ReverseProxy):
    """given: how often a token was let in ("passed"), refused, or expired during a watch or a session ("cut")."""

    def __init__(self, behind: CredentialSource, lives_s: float, log: Path):
        super().__init__(behind, user_of(lives_s, log), shown=("Accept", "Content-Type"))
        self.lives_s, self.given = lives_s, Counter[str]()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        left = self._left_s(request)
        if left <= 0:
            self.given["refused"] += 1
            return status_answer(401, "Unauthorized", "Unauthorized")
        self.given["passed"] += 1
        try:
            async with asyncio.timeout(left):
                return await (self._relay(request) if "Upgrade" in request.headers else self._forward(request))
        except TimeoutError:
            self.given["cut"] += 1
        except (ClientError, OSError):
            pass
        return hang_up(request)

    def _left_s(self, request: web.Request) -> float:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        try:
            return issued_at(token) + self.lives_s - time.time() if kind == "Bearer" else 0.0
        except ValueError:
            return 0.0

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        async with self.sent_on(request, await request.read()) as answer:
            kept = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        """Both directions of a websocket, until one ends."""
        wanted = request.headers["Sec-WebSocket-Protocol"].split(",")
        url = self.behind.configuration.host + request.path_qs
        async with self.session.ws_connect(url, protocols=wanted, max_msg_size=0) as there:
            here = web.WebSocketResponse(protocols=wanted, max_msg_size=0)
            await here.prepare(request)
            ways = [asyncio.create_task(_pump(*pair)) for pair in ((here, there), (there, here))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
            await here.close()
            return here


async def _pump(source, target) -> None:
    with suppress(ClientError, OSError):
        async for message in source:
            if message.type is WSMsgType.BINARY:
                await target.send_bytes(message.data)
