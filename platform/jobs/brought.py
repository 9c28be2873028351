"""Logs that the agent of a machine brings to the store: what it may append, and when a log is whole.

The store's size is the truth: an agent that was told another one goes on from there. What it sends twice is there once.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone

from cluster.models import Agent
from common.errors import Unavailable
from events.bus import hint, ring
from jobs.models import BroughtLog, Task
from runtimes.logs import LogStore

log = logging.getLogger("tessera.logs")

MOST_BYTES = 200 << 20
"""Of one log, as the local runtime keeps them; its end is kept too, and what is between is left out by the agent."""
SLACK_BYTES = 1 << 16
"""For the words that say what is left out."""
BEHIND_S = 5.0
"""Less than this is no delay that anybody is told of."""
HEARD_EVERY = timedelta(seconds=10)
SILENT_AFTER = timedelta(seconds=45)

CALLS_PER_S = 100
"""Of all agents together: many of them call more rarely each."""
PAUSE_LEAST_S, ASK_LEAST_S = 0.5, 2.0

UNKNOWN, OPEN, ENDED, DONE = "unknown", "open", "ended", "done"


@dataclass(frozen=True)
class Piece:
    """What an agent says of one log. task: uuid in hex. offset: of content in the log, in bytes. behind_s: age of the
    oldest line that this does not bring yet, 0 where it brings all. end: of BroughtLog.End, when no more will come.
    """

    task: str
    offset: int
    content: bytes = b""
    behind_s: float = 0
    end: str = ""


@dataclass(frozen=True)
class Known:
    """What the platform has of a log. state: unknown (no task of this machine), open (the task may still write), ended
    (it does not any more: bring the rest), done (nothing more is wanted). size: of the stored log, in bytes.
    """

    task: str
    state: str
    size: int = 0


def take_pieces(agent: Agent, pieces: Iterable[Piece]) -> list[Known]:
    """Append what belongs to tasks of the agent's own machine. Any number of times. Raises Unavailable where the store
    takes nothing now.
    """
    pieces = list(pieces)
    _note_heard(agent)
    uuids = [UUID(piece.task) for piece in pieces]
    own = Task.objects.filter(uuid__in=uuids, node__name=agent.node_name).select_related("brought", "job")
    tasks, store = {task.uuid.hex: task for task in own}, LogStore(settings.TESSERA_LOGS)
    return [_take(store, tasks[piece.task], piece) if piece.task in tasks else _unknown(piece) for piece in pieces]


def pace_of_logs() -> tuple[float, float]:
    """(seconds between two calls of one agent that bring something, and between two that only ask)."""
    bringing = Agent.objects.filter(logs_at__gt=timezone.now() - SILENT_AFTER).count()
    pause_s = max(PAUSE_LEAST_S, bringing / CALLS_PER_S)
    return pause_s, max(ASK_LEAST_S, 2 * pause_s)


def brought_of(task: Task) -> BroughtLog | None:
    """What is known of its log; None where no agent ever had a word of it."""
    return getattr(task, "brought", None)


def _unknown(piece: Piece) -> Known:
    return Known(piece.task, UNKNOWN)


def _take(store: LogStore, task: Task, piece: Piece) -> Known:
    known = brought_of(task)
    if known is not None and known.end:
        return Known(piece.task, DONE, store.size(piece.task))
    size = _append(store, piece)
    end = piece.end if task.is_final and size >= piece.offset else ""
    _note(task, known, _since(piece), end)
    return Known(piece.task, DONE if end else ENDED if task.is_final else OPEN, size)


def _append(store: LogStore, piece: Piece) -> int:
    """The log's size afterwards. Where the piece would leave a gap, that says where to go on."""
    room = max(MOST_BYTES + SLACK_BYTES - piece.offset, 0)
    try:
        return store.append(piece.task, piece.offset, piece.content[:room]) if piece.content else store.size(piece.task)
    except ValueError:
        return store.size(piece.task)
    except OSError as error:
        log.error("no log is stored: %s", error)
        raise Unavailable() from error


def _since(piece: Piece) -> datetime | None:
    return timezone.now() - timedelta(seconds=piece.behind_s) if piece.behind_s >= BEHIND_S else None


def _note(task: Task, known: BroughtLog | None, behind_since: datetime | None, end: str) -> None:
    """Written where it changed. Pages look again when a log falls behind, has caught up, or is whole."""
    told = None if end else behind_since, end
    was = (known.behind_since, known.end) if known is not None else None
    if told == was:
        return
    BroughtLog.objects.update_or_create(task=task, defaults={"behind_since": told[0], "end": end})
    if was is None or (told[0] is None, end) != (was[0] is None, was[1]):
        ring(task.job)
    if end:
        hint("reconcile")


def _note_heard(agent: Agent) -> None:
    if agent.logs_at is None or timezone.now() - agent.logs_at > HEARD_EVERY:
        Agent.objects.filter(pk=agent.pk).update(logs_at=Now())
