"""WebSocket of the web terminal: a shell in a running task, shown by one page.

Binary frames are input and output, text frames JSON.
From the browser: {"hello": key or "", "shown": n, "size": [columns, rows]} first; {"size": [...]}, {"ack": n}.
To it: {"shell": key, "again": bool, "at": n, "received": m}, {"taken": m}, and {"bye": why, ...} before it is closed.
`why`: signed_out, not_found, not_running, too_many_requests, user_limit, unavailable, rejected (with "detail"),
not_understood, elsewhere (another view took over), and those of shells.End (with "code").

It is on the portal's host, so the session cookie is checked and no ticket is needed; the exact Origin keeps other pages
out.
"""

import asyncio
import json
import logging
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from accounts.models import User
from common.errors import PlatformError
from common.rates import check_rate
from portal.access.origin import comes_from_our_page
from portal.access.session_user import load_session_user
from portal.access.task_access import TaskAccess, find_task_access
from portal.gateway.terminal.shells import Shell, TypedTooMuch, find_shell, open_shell
from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected, Unavailable

log = logging.getLogger("tessera.terminal")

LONGEST_TEXT, LONGEST_PIECE = 1024, 64 * 1024
MOST_COLUMNS, MOST_ROWS = 500, 300
OPENED_PER_MINUTE = 20
RECHECK_S = 15
CODES = {"signed_out": 4401, "not_understood": 4400, "not_found": 4404, "not_running": 4409, "too_many_requests": 4429}
OVER = 4410
"""Closed for every other reason; a code above 4000 tells the page not to try again by itself."""


class TerminalConsumer(AsyncWebsocketConsumer):
    async def connect(self) -> None:
        self.shell: Shell | None = None
        self.view: object = None
        self.group = ""
        self.running: set[asyncio.Task] = set()
        self.closed = False
        if not comes_from_our_page(self.scope["headers"]):
            await self.close()
            return
        await self.accept()  # only an accepted socket can send a reason
        person = await database_sync_to_async(load_session_user)(self.scope["session"].session_key)
        if person is None:
            await self._close_with("signed_out")
            return
        try:
            self.access = await self._find_access(person)
        except PlatformError as refusal:
            await self._close_with(refusal.code)
            return
        self.group = f"user-{person.pk}"
        await self.channel_layer.group_add(self.group, self.channel_name)
        self._spawn(self._watch())

    async def disconnect(self, code: int) -> None:
        self.closed = True
        for task in self.running:
            task.cancel()
        if self.shell:
            self.shell.leave(self.view)
        if self.group:
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def dispatch(self, message: dict) -> None:
        """Drop messages of the user's group but "recheck"."""
        if message["type"].startswith("websocket.") or message["type"] == "recheck":
            await super().dispatch(message)

    async def recheck(self, message: dict) -> None:
        """Recheck access, as sent to user-<id> after a sign-out, suspension or move."""
        await self._check_rights()

    # ---- from the browser ----

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle a frame; an invalid one closes the socket."""
        if self.closed:
            return
        try:
            if bytes_data is not None:
                self._type(bytes_data)
            else:
                await self._handle_message(_read(text_data or ""))
        except (ValueError, TypeError, KeyError, OverflowError, TypedTooMuch):  # int(1e999) overflows
            await self._close_with("not_understood")

    def _type(self, data: bytes) -> None:
        if self.shell is None or len(data) > LONGEST_PIECE:
            raise ValueError
        self.shell.type(data)

    async def _handle_message(self, message: dict[str, Any]) -> None:
        if "hello" in message:
            await self._attach_shell(message["hello"], int(message.get("shown", 0)), _size(message["size"]))
        elif self.shell is None:
            raise ValueError
        elif "size" in message:
            self.shell.resize(_size(message["size"]))
        elif "ack" in message:
            self.shell.acknowledge(int(message["ack"]))

    async def _attach_shell(self, key: object, shown: int, size: PtySize) -> None:
        if self.shell is not None:
            raise ValueError
        shell = find_shell(key, self.access)
        again = shell is not None
        try:
            shell = shell or await open_shell(self.access, size)
        except PlatformError as refusal:
            await self._close_with(refusal.code)
        except (Rejected, Unavailable) as refusal:
            await self._close_with("rejected" if isinstance(refusal, Rejected) else "unavailable", detail=str(refusal))
        if shell is None or self.closed:
            return
        self.shell, self.view = shell, shell.attach(self._send_taken)
        at = shell.position(shown if again else 0)
        if again:
            shell.resize(size)
        await self._send_message({"shell": shell.key, "again": again, "at": at, "received": shell.received})
        self._spawn(self._send_output(shell, at))

    async def _send_output(self, shell: Shell, at: int) -> None:
        async for piece in shell.output(self.view, at):
            await self.send(bytes_data=piece)
        if not shell.is_shown_in(self.view):
            await self._close_with("elsewhere")
        elif shell.end:
            await self._close_with(shell.end.why, code=shell.end.code)

    async def _watch(self) -> None:
        """Recheck the login session, which the shell does not know."""
        while True:
            await asyncio.sleep(RECHECK_S)
            await self._check_rights()

    async def _check_rights(self) -> None:
        person = await database_sync_to_async(load_session_user)(self.scope["session"].session_key)
        if person is None or person.pk != self.access.user_id:
            await self._close_with("signed_out")
        elif self.shell:
            await self.shell.recheck()

    @database_sync_to_async
    def _find_access(self, person: User) -> TaskAccess:
        check_rate("terminal", person.username, limit=OPENED_PER_MINUTE, per_s=60)
        return find_task_access(person, self.scope["url_route"]["kwargs"]["name"])

    async def _send_taken(self, taken: int) -> None:
        await self._send_message({"taken": taken})

    async def _close_with(self, why: str, **more: object) -> None:
        if self.closed:
            return
        await self._send_message({"bye": why, **more})
        self.closed = True
        await self.close(CODES.get(why, OVER))

    async def _send_message(self, message: dict) -> None:
        if not self.closed:
            await self.send(text_data=json.dumps(message))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.running.add(task)  # asyncio keeps weak references only
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a terminal's task failed", exc_info=error)


def _read(text: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError, also if too long or deep."""
    try:
        message = json.loads(text) if len(text) <= LONGEST_TEXT else None
    except RecursionError:
        message = None
    if not isinstance(message, dict):
        raise ValueError
    return message


def _size(pair: Any) -> PtySize:
    """Return a size within limits; zero breaks programs. Raises ValueError, TypeError."""
    columns, rows = pair
    return PtySize(max(2, min(int(columns), MOST_COLUMNS)), max(1, min(int(rows), MOST_ROWS)))
