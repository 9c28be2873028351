"""The queue page."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from accounts.models import User
from cluster.models import Pool
from common.errors import NotFound
from common.resources import parse_gpu
from jobs.models import Priority
from jobs.states import JobState
from portal.access.redacted_rows import (
    SHORT_WORDS,
    QueueRow,
    count_active,
    list_active_rows,
    load_queue_rows,
    sort_by_position,
)
from portal.pages.cluster.queued_jobs import QueuedJob, load_queued_jobs, sum_milli
from portal.pages.cluster.scheduler_pulse import last_pass, scheduler_late
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.templatetags.amounts import gpu_sum
from portal.wording.resources import describe_gpu
from scheduler.preview.preview import PoolCapacity, list_capacity
from scheduler.preview.stored_forecasts import measure_coverage

SHOWN, LEAST_SHOWN, MOST_SHOWN = 100, 20, 500
"""Rows of one table at first, of each where many pools are shown, and where one asks for more; the rest is counted, and
programs ask the API."""


class Line:
    """anchor: whether links to the job lead to this line; it has one in the queue of each pool where it waits."""

    def __init__(self, row: QueueRow, *, anchor: bool = True):
        self.row = row
        self.anchor = anchor

    @property
    def ask(self) -> str:
        return " + ".join(describe_ask(gpu, tasks) for gpu, tasks in self.row.asks)

    @property
    def priority(self) -> str:
        return "" if self.row.priority is None else str(Priority(self.row.priority).label)

    @property
    def state_label(self) -> str:
        return str(JobState(self.row.state).label)


def describe_ask(gpu: str, tasks: int) -> str:
    """Describe equal tasks' request: "4 × (8 × H100)"."""
    words = describe_gpu(parse_gpu(gpu))
    return words if tasks == 1 else _("%(tasks)s × (%(ask)s)") % {"tasks": tasks, "ask": words}


@dataclass(frozen=True)
class PoolQueue:
    """A pool's jobs, cut to what is shown; *_more count the rest."""

    room: PoolCapacity
    waiting: list[Line]
    active: list[Line]
    waiting_more: int
    active_more: int


@dataclass(frozen=True)
class ReasonCount:
    code: str
    words: str
    count: int
    share: int
    href: str
    chosen: bool


@signed_in
@require_safe
def show_queue(request: HttpRequest) -> HttpResponse:
    """Show the queue, of one ?pool= or ?reason=. ?rows=500: up to so many of each table."""
    user, pool, reason = cast(User, request.user), request.GET.get("pool", ""), request.GET.get("reason", "")
    pools = list(Pool.objects.values_list("name", flat=True))
    if pool and pool not in pools:
        raise NotFound(kind="pool")
    everywhere = list_capacity(user)
    rooms = [room for room in everywhere if not pool or room.pool == pool]
    most = MOST_SHOWN if request.GET.get("rows") == str(MOST_SHOWN) else max(SHOWN // max(len(rooms), 1), LEAST_SHOWN)
    waiting, active = load_queued_jobs(pool or None), count_active()
    chosen = [job for job in waiting if not reason or job.reason == reason]
    lines = {room.pool: sort_by_position(chosen, room.pool) for room in rooms}
    rows = load_queue_rows(user, {job.pk for jobs in lines.values() for job in jobs[:most]})
    context = {
        "answer": answer(waiting, sum(active[room.pool] for room in rooms), rooms, everywhere),
        "queues": [_pool_queue(user, room, lines[room.pool], rows, active[room.pool], most) for room in rooms],
        "reasons": count_reasons(waiting, pool, reason),
        "pool": pool,
        "pools": pools,
        "reason": reason,
        "without_reason": _address(pool, ""),
        "next_rows": MOST_SHOWN if most < MOST_SHOWN else 0,
        "late": scheduler_late(),
        "last_pass": last_pass(),
        "coverage": measure_coverage(),
    }
    return render_page(request, "queue/page.html", context, fragment="queue/_live.html")


def answer(waiting: list[QueuedJob], active: int, rooms: list[PoolCapacity], everywhere: list[PoolCapacity]) -> str:
    """Summarize the queue of `rooms`."""
    if not waiting:
        free = gpu_sum(sum(room.free_milli for room in rooms))
        return _("Nothing is waiting. GPUs free: %(gpus)s.") % {"gpus": free}
    asked = sum_milli(waiting, {room.pool: room.card_mib for room in everywhere})
    gpus = ngettext("%(count)s GPU", "%(count)s GPUs", 1 if asked == 1000 else 2) % {"count": gpu_sum(asked)}
    words = ngettext(
        "%(count)s job is waiting for %(gpus)s; %(active)s running.",
        "%(count)s jobs are waiting for %(gpus)s; %(active)s running.",
        len(waiting),
    )
    return words % {"count": len(waiting), "gpus": gpus, "active": active}


def count_reasons(waiting: Iterable[QueuedJob], pool: str, reason: str) -> list[ReasonCount]:
    """Count jobs by most binding reason, as filter links."""
    counts = Counter(job.reason for job in waiting)
    return [
        ReasonCount(
            code=code,
            words=str(SHORT_WORDS.get(code, _("not checked yet"))),
            count=count,
            share=round(100 * count / max(counts.values())),
            href=_address(pool, "" if code == reason else code),
            chosen=code == reason,
        )
        for code, count in counts.most_common()
    ]


def _pool_queue(
    user: User,
    room: PoolCapacity,
    waiting: list[QueuedJob],
    rows: Mapping[int, QueueRow],
    active_count: int,
    most: int,
) -> PoolQueue:
    """waiting: all in the pool's order. rows: of what is shown."""
    ours = [rows[job.pk] for job in waiting[:most] if job.pk in rows]
    active = list_active_rows(user, room.pool, most)
    return PoolQueue(
        room=room,
        waiting=[Line(row.seen_in(room.pool), anchor=row.pool == room.pool) for row in ours],
        active=[Line(row) for row in active],
        waiting_more=len(waiting[most:]),
        active_more=max(active_count - len(active), 0),
    )


def _address(pool: str, reason: str) -> str:
    return "?" + urlencode({name: value for name, value in (("pool", pool), ("reason", reason)) if value})
