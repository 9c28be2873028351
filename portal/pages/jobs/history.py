"""A job's events as sentences."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from events.models import Event
from jobs.models import Job, Task
from jobs.reason_messages import describe_end
from monitoring.replay.span import SPAN
from notebooks.models import Notebook
from portal.wording.events import describe_event

MOST_EVENTS = 500

ICONS = {
    "submitted": ("send", ""),
    "stop_requested": ("hand-stop", "next"),
    "held": ("player-pause", "next"),
    "released": ("player-play", ""),
    "dependencies_met": ("player-play", ""),
    "resize_requested": ("adjustments", "next"),
    "settled": ("check", "next"),
    "changed": ("adjustments", ""),
    "resized": ("adjustments", ""),
    "resize_refused": ("adjustments", "idle"),
    "entered": ("terminal-2", ""),
    "left": ("terminal-2", ""),
    "QUEUED": ("rotate-clockwise", ""),
    "ASSIGNED": ("map-pin", "next"),
    "STARTING": ("bolt", "work"),
    "RUNNING": ("player-play", "work"),
    "STOPPING": ("player-stop", "next"),
    "LOST": ("question-mark", "idle"),
    "SUCCEEDED": ("check", ""),
    "FAILED": ("alert-circle", "fault"),
}


@dataclass(frozen=True)
class Happening:
    """A line of the history; `detail`: the engine's message."""

    at: datetime
    actor: str
    words: str
    why: str
    detail: str
    icon: str
    tone: str

    @property
    def replay(self) -> str:
        """Link to the cluster at that moment; "" where it cannot be shown any more."""
        return (
            f"{reverse('replay')}?{urlencode({'at': self.at.isoformat()})}" if self.at > timezone.now() - SPAN else ""
        )


def history_of(job: Job, notebook: Notebook | None = None) -> list[Happening]:
    """Return the newest MOST_EVENTS lines, with a notebook also its terminal sessions."""
    tasks = list(Task.objects.filter(job=job).values_list("pk", flat=True))
    which = Q(kind="job", object_id=job.pk) | Q(kind="task", object_id__in=tasks)
    if notebook:
        sessions = Q(kind=Notebook.KIND, object_id=notebook.pk, verb__in=("entered", "left"))
        which |= sessions & Q(at__gte=job.submitted_at)
    alone = job.most == 1
    return [_happening(row, alone) for row in Event.objects.filter(which).order_by("-id")[:MOST_EVENTS]]


def _happening(row: Event, alone: bool) -> Happening:
    about = row.to_state or row.verb
    icon, tone = ICONS.get(about, ("circle-dotted", ""))
    return Happening(
        at=row.at,
        actor=row.actor,
        words=describe_event(row, alone=alone),
        why=describe_end(row.reason) if row.reason else "",
        detail=str(row.params.get("detail", "")),
        icon=icon,
        tone=tone,
    )
