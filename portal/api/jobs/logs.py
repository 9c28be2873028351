"""API of task logs, from any byte on and while written."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from accounts.models import ApiToken, User
from common.errors import FieldError, InvalidInput, NotFound
from jobs.models import Job, Task
from portal.api.jobs.jobs import find_job
from portal.api.view import MAX_ID, ApiView, read_query
from runtimes.log_reading import LogReader, Window, find_text
from runtimes.log_store import READ_LIMIT, LogStore

POLL_S = 0.15
PART = 1 << 20
"""Most that is answered at once of a log whose lines are worked on."""
LINE = re.compile(rb"[^\n]*\n|[^\n]+")
ASK_EVERY_S = 1.0
"""How often a follower checks for the task's end and its caller's right."""


class PlainText(BaseRenderer):
    """For content negotiation; the view streams."""

    media_type = "text/plain"
    format = "text"

    def render(self, data: object, *_: object) -> bytes:
        return str(data).encode()


class LogQuery(serializers.Serializer):
    """task: a uuid of this job; else rank of the newest attempt. search: only lines with this text; of ASCII letters
    the case does not count. timestamps: put before each line when it was written, or "-" where that is not known. Both
    answer a part of the log, and the rest from X-Log-Next-Offset on, until that is X-Log-Size.
    """

    task = serializers.UUIDField(required=False)
    rank = serializers.IntegerField(min_value=0, max_value=1_000_000, default=0)
    offset = serializers.IntegerField(min_value=0, max_value=MAX_ID, default=0)
    follow = serializers.BooleanField(default=False)
    search = serializers.CharField(required=False, max_length=200, trim_whitespace=False)
    timestamps = serializers.BooleanField(default=False)


@dataclass(frozen=True)
class Reader:
    """The caller, whose right is checked again while streaming."""

    user_id: int
    token_id: int | None

    def may_read(self, task: Task) -> bool:
        user = User.objects.filter(pk=self.user_id, suspended_at__isnull=True).first()
        token_lives = self.token_id is None or ApiToken.objects.live().filter(pk=self.token_id).exists()
        return bool(user and token_lives and Task.objects.visible_to(user).filter(pk=task.pk).exists())


class JobLogs(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "read_log"}
    renderer_classes = [PlainText, JSONRenderer]

    @extend_schema(
        parameters=[LogQuery],
        responses={
            (200, "text/plain"): OpenApiResponse(
                {"type": "string", "format": "binary"}, "The bytes as they were written, colours (ANSI) included."
            )
        },
    )
    @extend_schema(
        parameters=[
            OpenApiParameter(
                "X-Log-Offset", int, OpenApiParameter.HEADER, response=[200], description="Of the first byte."
            ),
            OpenApiParameter(
                "X-Log-Next-Offset", int, OpenApiParameter.HEADER, response=[200], description="Not sent with follow."
            ),
            OpenApiParameter(
                "X-Log-Size", int, OpenApiParameter.HEADER, response=[200], description="Not sent with follow."
            ),
            OpenApiParameter("X-Task", str, OpenApiParameter.HEADER, response=[200], description="The task's uuid."),
        ]
    )
    def get(self, request: Request, job_id: str) -> HttpResponseBase:
        """Stream a task's log. After a break, ask from X-Log-Offset plus the bytes that arrived."""
        query = read_query(request, LogQuery)
        task = find_task(find_job(request, job_id), query)
        store, offset = LogStore(settings.TESSERA_LOGS), query["offset"]
        if query.get("search") or query["timestamps"]:
            if query["follow"]:
                raise InvalidInput([FieldError("/follow", "log_is_followed_whole")])
            return send_lines(LogReader(store, task.uuid.hex), task, query)
        reader = Reader(request.user.pk, request.auth.pk if request.auth else None)
        size = store.size(task.uuid.hex)
        pieces = follow(store, task, offset, reader) if query["follow"] else read(store, task, offset, size)
        response = StreamingHttpResponse(pieces, content_type="text/plain; charset=utf-8")
        response["X-Log-Offset"], response["X-Task"] = str(offset), str(task.uuid)
        response["X-Accel-Buffering"] = "no"
        if not query["follow"]:
            response["X-Log-Next-Offset"] = str(max(offset, size))
            response["X-Log-Size"] = str(size)
            response["Content-Length"] = str(max(size - offset, 0))
        return response


def send_lines(log: LogReader, task: Task, query: dict) -> HttpResponse:
    """Answer a part of the log, or the lines that are found in it."""
    if text := query.get("search"):
        found = log.search(find_text(text), query["offset"])
        windows, end = [log.read_line(offset) for offset in found.offsets], found.searched
    else:
        windows = [log.read_from(query["offset"], PART)]
        end = windows[0].end
    body = b"".join(stamp_lines(log, window) if query["timestamps"] else window.data for window in windows)
    headers = {"X-Log-Offset": query["offset"], "X-Log-Next-Offset": end, "X-Log-Size": log.size, "X-Task": task.uuid}
    return HttpResponse(body, content_type="text/plain; charset=utf-8", headers=headers)


def stamp_lines(log: LogReader, window: Window) -> bytes:
    """Put before each line when it was written, as far as that is known."""
    times = log.time_lines(window.start, window.data)
    return b"".join(show_second(time) + line for time, line in zip(times, LINE.findall(window.data), strict=True))


def show_second(second: int) -> bytes:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ} ".encode() if second else b"- "


def find_task(job: Job, query: dict) -> Task:
    tasks = job.tasks.all()
    if uuid := query.get("task"):
        found = next((task for task in tasks if task.uuid == uuid), None)
    else:
        found = next((t for t in tasks if t.attempt == job.attempt and t.rank == query["rank"]), None)
    if found is None and "task" in query:
        raise NotFound(kind="task", id=str(query["task"]))
    if found is None:
        most = max((task.rank for task in tasks if task.attempt == job.attempt), default=0)
        raise InvalidInput([FieldError("/rank", "too_large", {"max": most, "got": query["rank"]})])
    return found


async def read(store: LogStore, task: Task, offset: int, end: int) -> AsyncIterator[bytes]:
    await sync_to_async(_close_connection)()
    while offset < end:
        piece, offset = await asyncio.to_thread(store.read, task.uuid.hex, offset, min(READ_LIMIT, end - offset))
        if not piece:
            return
        yield piece


async def follow(store: LogStore, task: Task, offset: int, reader: Reader) -> AsyncIterator[bytes]:
    """Yield old and new content until the log is complete or the right ends."""
    ended, asked_at, clock = False, -ASK_EVERY_S, asyncio.get_running_loop().time
    while True:
        if clock() - asked_at >= ASK_EVERY_S:
            may, ended = await sync_to_async(_check_reader)(task, reader)
            asked_at = clock()
            if not may:
                return
        piece, offset = await asyncio.to_thread(store.read, task.uuid.hex, offset, READ_LIMIT)
        if piece:
            yield piece
        elif ended:
            return
        else:
            await asyncio.sleep(POLL_S)


def _close_connection() -> None:
    """Release the connection before the log is sent."""
    connection.close()


def _check_reader(task: Task, reader: Reader) -> tuple[bool, bool]:
    """Return (may read, log complete); releases the connection."""
    try:
        return reader.may_read(task), not Task.objects.filter(pk=task.pk).log_open().exists()
    finally:
        connection.close()
