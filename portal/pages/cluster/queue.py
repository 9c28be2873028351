"""The queue page."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from accounts.models import User
from cluster.models import Gpu, Pool
from common.errors import NotFound
from common.resources import GpuAsk, gpu_milli, parse_gpu, slice_of
from jobs.models import Priority
from jobs.states import JobState
from portal.access.redacted_rows import SHORT_WORDS, QueueRow, list_active_rows, list_queue_rows, list_rows_in_pool
from portal.pages.cluster.scheduler_pulse import last_pass, scheduler_late
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.templatetags.amounts import gpu_sum
from portal.wording.resources import describe_gpu
from scheduler.preview.preview import PoolCapacity, list_capacity
from scheduler.preview.stored_forecasts import measure_coverage

SHOWN = 500
"""Rows of one table; the rest is counted. People look at the head of a queue, and programs ask the API."""


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
    """A pool's jobs, cut to SHOWN; *_more count the rest."""

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
    """Show the queue, of one ?pool= or ?reason=."""
    user, pool, reason = cast(User, request.user), request.GET.get("pool", ""), request.GET.get("reason", "")
    pools = list(Pool.objects.values_list("name", flat=True))
    if pool and pool not in pools:
        raise NotFound(kind="pool")
    rooms = [room for room in list_capacity(user) if not pool or room.pool == pool]
    waiting, active = list_queue_rows(user, pool or None), list_active_rows(user, pool or None)
    chosen = [row for row in waiting if not reason or row.reason == reason]
    context = {
        "answer": answer(waiting, len(active), rooms, load_card_sizes()),
        "queues": [_pool_queue(room, chosen, active) for room in rooms],
        "reasons": count_reasons(waiting, pool, reason),
        "pool": pool,
        "pools": pools,
        "reason": reason,
        "without_reason": _address(pool, ""),
        "late": scheduler_late(),
        "last_pass": last_pass(),
        "coverage": measure_coverage(),
        "busy": bool(waiting or active),
    }
    return render_page(request, "queue/page.html", context, fragment="queue/_live.html")


def answer(waiting: list[QueueRow], active: int, rooms: list[PoolCapacity], sellable: dict[str, int]) -> str:
    """Summarize the queue; `sellable`: MiB of each pool's first card."""
    if not waiting:
        free = gpu_sum(sum(room.free_milli for room in rooms))
        return _("Nothing is waiting. GPUs free: %(gpus)s.") % {"gpus": free}
    asked = sum(asked_milli(row, sellable.get(row.pool, 0)) for row in waiting)
    gpus = ngettext("%(count)s GPU", "%(count)s GPUs", 1 if asked == 1000 else 2) % {"count": gpu_sum(asked)}
    words = ngettext(
        "%(count)s job is waiting for %(gpus)s; %(active)s running.",
        "%(count)s jobs are waiting for %(gpus)s; %(active)s running.",
        len(waiting),
    )
    return words % {"count": len(waiting), "gpus": gpus, "active": active}


def asked_milli(row: QueueRow, sellable: int) -> int:
    """Return the thousandths that a job requests on cards of `sellable` MiB."""
    return sum(tasks * _milli_of(parse_gpu(gpu), sellable) for gpu, tasks in row.asks)


def _milli_of(ask: GpuAsk, sellable: int) -> int:
    share = slice_of(ask, sellable) if ask.is_slice and sellable else None
    return gpu_milli(share, sellable) if share else 1000 * ask.count


def load_card_sizes() -> dict[str, int]:
    cards = Gpu.objects.present().select_related("pool").order_by("-pk")
    return {card.pool.name: card.sellable_mib for card in cards}


def count_reasons(waiting: Iterable[QueueRow], pool: str, reason: str) -> list[ReasonCount]:
    """Count jobs by most binding reason, as filter links."""
    counts = Counter(row.reason for row in waiting)
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


def _pool_queue(room: PoolCapacity, waiting: list[QueueRow], active: list[QueueRow]) -> PoolQueue:
    ours = list_rows_in_pool(waiting, room.pool)
    first = {row.job_id for row in waiting if row.pool == room.pool}
    running = [row for row in active if row.pool == room.pool]
    return PoolQueue(
        room=room,
        waiting=[Line(row, anchor=row.job_id in first) for row in ours[:SHOWN]],
        active=[Line(row) for row in running[:SHOWN]],
        waiting_more=len(ours[SHOWN:]),
        active_more=len(running[SHOWN:]),
    )


def _address(pool: str, reason: str) -> str:
    return "?" + urlencode({name: value for name, value in (("pool", pool), ("reason", reason)) if value})
