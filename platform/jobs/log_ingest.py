"""Take in task logs from node agents. The stored size is the offset, so what is sent twice is stored once.

Values of secrets are masked. What may be the begin of one is not stored yet; the agent sends it again with the rest.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone

from cluster.models import Agent
from common.errors import Unavailable
from events.record_and_publish import hint, publish_row
from jobs.models import BroughtLog, Task
from jobs.used_secrets.giving import load_masks
from runtimes.log_masking import NO_MASK, LogMask
from runtimes.log_store import LogStore

log = logging.getLogger("tessera.logs")

MOST_BYTES = 200 << 20
"""Per log, as in the local runtime; beyond it the agent keeps the log's end and leaves out the middle."""
SLACK_BYTES = 1 << 16
"""For the line that says what was left out."""
BEHIND_S = 5.0
"""A shorter delay is not shown."""
HEARD_EVERY = timedelta(seconds=10)
SILENT_AFTER = timedelta(seconds=45)

CALLS_PER_S = 100
"""Of all agents together."""
PAUSE_LEAST_S, ASK_LEAST_S = 0.5, 2.0

UNKNOWN, OPEN, ENDED, DONE = "unknown", "open", "ended", "done"


@dataclass(frozen=True)
class Piece:
    """A piece of a log. task: uuid in hex. offset: in bytes. behind_s: age of the oldest line not sent.

    moments: (offset, Unix second) of when its bytes were written.
    """

    task: str
    offset: int
    content: bytes = b""
    behind_s: float = 0
    end: str = ""
    moments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class StoredLog:
    """The stored state of a log: unknown, open (may grow), ended (send the rest) or done."""

    task: str
    state: str
    size: int = 0


def store_pieces(agent: Agent, pieces: Iterable[Piece]) -> list[StoredLog]:
    """Append log pieces of tasks on the agent's node. Idempotent. Raises Unavailable."""
    pieces = list(pieces)
    _record_report_time(agent)
    uuids = [UUID(piece.task) for piece in pieces]
    own = Task.objects.filter(uuid__in=uuids, node__name=agent.node_name).select_related("brought", "job")
    tasks, store = {task.uuid.hex: task for task in own}, LogStore(settings.TESSERA_LOGS)
    masks = load_masks(tasks.values())
    return [
        _take(store, tasks[piece.task], piece, masks.get(piece.task, NO_MASK))
        if piece.task in tasks
        else _unknown(piece)
        for piece in pieces
    ]


def get_log_pace() -> tuple[float, float]:
    """Return the seconds between two calls of an agent: (with content, without)."""
    bringing = Agent.objects.filter(logs_at__gt=timezone.now() - SILENT_AFTER).count()
    pause_s = max(PAUSE_LEAST_S, bringing / CALLS_PER_S)
    return pause_s, max(ASK_LEAST_S, 2 * pause_s)


def load_ingest(task: Task) -> BroughtLog | None:
    return getattr(task, "brought", None)


def _unknown(piece: Piece) -> StoredLog:
    return StoredLog(piece.task, UNKNOWN)


def _take(store: LogStore, task: Task, piece: Piece, mask: LogMask | None) -> StoredLog:
    """Store a piece. mask: None if it is not known any more what to mask."""
    known = load_ingest(task)
    if mask is None or (known is not None and known.end):
        return StoredLog(piece.task, DONE, store.size(piece.task))
    size = _append(store, piece, mask)
    end = piece.end if task.is_final and size >= piece.offset else ""
    _record(task, known, _since(piece), end)
    return StoredLog(piece.task, DONE if end else ENDED if task.is_final else OPEN, size)


def _append(store: LogStore, piece: Piece, mask: LogMask) -> int:
    """Append a piece, masked, unless it leaves a gap, and return the log's size."""
    content = mask.cover(piece.content, is_last=bool(piece.end))
    if not content:
        return store.size(piece.task)
    room = max(MOST_BYTES + SLACK_BYTES - piece.offset, 0)
    moments = sorted(((at, second) for at, second in piece.moments), key=itemgetter(0))
    try:
        return store.append(piece.task, piece.offset, content[:room], moments)
    except ValueError:
        return store.size(piece.task)
    except OSError as error:
        log.error("no log is stored: %s", error)
        raise Unavailable() from error


def _since(piece: Piece) -> datetime | None:
    return timezone.now() - timedelta(seconds=piece.behind_s) if piece.behind_s >= BEHIND_S else None


def _record(task: Task, known: BroughtLog | None, behind_since: datetime | None, end: str) -> None:
    """Write a changed upload state, and publish what pages show."""
    told = None if end else behind_since, end
    was = (known.behind_since, known.end) if known is not None else None
    if told == was:
        return
    BroughtLog.objects.update_or_create(task=task, defaults={"behind_since": told[0], "end": end})
    if was is None or (told[0] is None, end) != (was[0] is None, was[1]):
        publish_row(task.job)
    if end:
        hint("reconcile")


def _record_report_time(agent: Agent) -> None:
    if agent.logs_at is None or timezone.now() - agent.logs_at > HEARD_EVERY:
        Agent.objects.filter(pk=agent.pk).update(logs_at=Now())
