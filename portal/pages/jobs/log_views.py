"""A task's log for its page: parts of it as JSON, all of it as a download; 404 for those who may not see the job."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.views.decorators.http import require_safe

from common.errors import FieldError, InvalidInput, NotFound, RangeOutside
from jobs.models import Task
from portal.downloads import read_range
from portal.pages.jobs.detail import TaskLog, log_store
from portal.pages.jobs.view_model import find_job
from portal.pages.request_guards import signed_in
from runtimes.log_errors import find_errors
from runtimes.log_reading import LogReader, find_text

PIECE = 256 * 1024
LONGEST_NUMBER, LONGEST_TEXT = 18, 200


@require_safe
@signed_in
def read_lines(request: HttpRequest, job_id: str, task_uuid: UUID) -> JsonResponse:
    """Answer a window of the log: ?line=N, and lines around it; ?from=OFFSET; or ?before=OFFSET."""
    log = LogReader(log_store(), str(find_task(request, job_id, task_uuid).uuid))
    if "line" in request.GET:
        window = log.read_around(read_number(request, "line"))
    elif "before" in request.GET:
        window = log.read_before(read_number(request, "before"))
    else:
        window = log.read_from(read_number(request, "from"))
    text = window.data.decode("utf-8", "replace")
    return _told({"start": window.start, "end": window.end, "size": window.size, "line": window.line, "text": text})


@require_safe
@signed_in
def read_times(request: HttpRequest, job_id: str, task_uuid: UUID) -> JsonResponse:
    """Answer when each line of ?from=OFFSET to ?to=OFFSET was written, in Unix seconds, or 0 if nobody knows."""
    log = LogReader(log_store(), str(find_task(request, job_id, task_uuid).uuid))
    window, times = log.read_times(read_number(request, "from"), read_number(request, "to"))
    return _told({"line": window.line, "end": window.end, "times": times})


@require_safe
@signed_in
def search_log(request: HttpRequest, job_id: str, task_uuid: UUID) -> JsonResponse:
    """Answer one turn of a search: the lines with ?q=TEXT, else those that look like errors, from ?from=OFFSET on."""
    log = LogReader(log_store(), str(find_task(request, job_id, task_uuid).uuid))
    text = request.GET.get("q", "")
    if len(text) > LONGEST_TEXT:
        raise InvalidInput([FieldError("/q", "too_long", {"max": LONGEST_TEXT, "got": len(text)})])
    found = log.search(find_text(text) if text else find_errors, read_number(request, "from"))
    return _told({"lines": found.lines, "next": found.start, "searched": found.searched, "size": found.size})


@require_safe
@signed_in
def download_log(request: HttpRequest, job_id: str, task_uuid: UUID) -> StreamingHttpResponse:
    """Send a log, whole or the asked range, as an attachment, never rendered. Raises RangeOutside."""
    task = find_task(request, job_id, task_uuid)
    size = log_store().size(str(task.uuid))
    asked = read_range(request.headers.get("Range", ""), size)
    if asked == (0, 0):
        raise RangeOutside(size=size)
    start, end = asked or (0, size)
    response = StreamingHttpResponse(
        send_log(str(task.uuid), start, end), status=206 if asked else 200, content_type="text/plain; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="{TaskLog(task, task.job).filename}"'
    response["Content-Length"], response["Accept-Ranges"] = str(end - start), "bytes"
    if asked:
        response["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return response


async def send_log(task: str, offset: int, end: int) -> AsyncIterator[bytes]:
    store = log_store()
    while offset < end:
        piece, offset = await asyncio.to_thread(store.read, task, offset, min(PIECE, end - offset))
        if not piece:
            return
        yield piece


def find_task(request: HttpRequest, job_id: str, task_uuid: UUID) -> Task:
    """Return the task of a job, both visible. Raises NotFound."""
    job = find_job(request.user, job_id)
    task = Task.objects.visible_to(request.user).filter(job=job, uuid=task_uuid).first()
    if task is None:
        raise NotFound()
    task.job = job
    return task


def read_number(request: HttpRequest, name: str) -> int:
    """Return a whole number of the query, or 0 without one. Raises InvalidInput."""
    text = request.GET.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise InvalidInput([FieldError(f"/{name}", "out_of_range", {"min": 0, "max": 10**LONGEST_NUMBER - 1})])
    return int(text)


def _told(answer: dict) -> JsonResponse:
    """Return JSON that no cache keeps, as the log grows."""
    return JsonResponse(answer, headers={"Cache-Control": "private, no-store"})
