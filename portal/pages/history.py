"""A job's history in sentences: its own events and those of its tasks, in the order in which they happened."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.resources import show_duration
from events.models import Event
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from jobs.words import end_words

MOST_EVENTS = 500

# (kind, state or verb) -> sentence. params of the event fill it; "task" is "main.0" in a gang and "the task" alone.
SENTENCES = {
    ("job", "submitted"): gettext_lazy("Submitted to pool %(pool)s"),
    ("job", "stop_requested"): gettext_lazy("Asked to stop"),
    ("job", "held"): gettext_lazy("Held: it keeps its place and does not start"),
    ("job", "released"): gettext_lazy("Released: it may start again"),
    ("job", "entered.terminal"): gettext_lazy("Opened a terminal"),
    ("job", "left.terminal"): gettext_lazy("Left the terminal after %(lasted)s"),
    ("job", "entered.ssh"): gettext_lazy("Entered by SSH"),
    ("job", "left.ssh"): gettext_lazy("Left SSH after %(lasted)s"),
    ("job", "entered"): gettext_lazy("Entered (%(kind)s)"),
    ("job", "left"): gettext_lazy("Left (%(kind)s) after %(lasted)s"),
    ("job", JobState.QUEUED): gettext_lazy("Queued again as attempt %(attempt)s"),
    ("job", JobState.STARTING): gettext_lazy("The job starts"),
    ("job", JobState.RUNNING): gettext_lazy("The job runs"),
    ("job", JobState.STOPPING): gettext_lazy("The job is stopping"),
    ("job", JobState.SUCCEEDED): gettext_lazy("The job is done"),
    ("job", JobState.FAILED): gettext_lazy("The job failed"),
    ("job", JobState.CANCELLED): gettext_lazy("The job was cancelled"),
    ("task", TaskState.ASSIGNED): gettext_lazy("Task %(task)s was placed on %(node)s"),
    ("task", TaskState.STARTING): gettext_lazy("Task %(task)s is being started"),
    ("task", TaskState.RUNNING): gettext_lazy("Task %(task)s runs"),
    ("task", TaskState.STOPPING): gettext_lazy("Task %(task)s was asked to end"),
    ("task", TaskState.LOST): gettext_lazy("Task %(task)s cannot be seen any more; what it holds is kept"),
    ("task", TaskState.STOPPED): gettext_lazy("Task %(task)s was stopped"),
    ("task", TaskState.SUCCEEDED): gettext_lazy("Task %(task)s ended well"),
    ("task", TaskState.FAILED): gettext_lazy("Task %(task)s failed"),
}
OTHER = gettext_lazy("%(verb)s %(state)s")

ICONS = {
    "submitted": ("send", ""),
    "stop_requested": ("hand-stop", "next"),
    "held": ("player-pause", "next"),
    "released": ("player-play", ""),
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
    """One line. why: the reason as a sentence, "" for none; detail: the engine's own words."""

    at: datetime
    actor: str
    words: str
    why: str
    detail: str
    icon: str
    tone: str


def history_of(job: Job) -> list[Happening]:
    """The newest MOST_EVENTS lines, the newest first."""
    tasks = list(Task.objects.filter(job=job).values_list("pk", flat=True))
    rows = Event.objects.filter(Q(kind="job", object_id=job.pk) | Q(kind="task", object_id__in=tasks)).order_by("-id")
    alone = sum(role["min"] for role in job.gang) == 1
    return [_happening(row, alone) for row in rows[:MOST_EVENTS]]


def _happening(row: Event, alone: bool) -> Happening:
    about = row.to_state or row.verb
    icon, tone = ICONS.get(about, ("circle-dotted", ""))
    return Happening(
        at=row.at,
        actor=row.actor,
        words=_sentence(row, about, alone),
        why=end_words(row.reason) if row.reason else "",
        detail=str(row.params.get("detail", "")),
        icon=icon,
        tone=tone,
    )


def _sentence(row: Event, about: str, alone: bool) -> str:
    params = {name: str(value) for name, value in row.params.items()}
    params["task"] = params.get("role", "") if alone else f"{params.get('role', '')}.{params.get('rank', '')}"
    if gpus := row.params.get("gpus"):
        params["node"] = _("%(node)s (GPU %(gpus)s)") % {
            "node": params["node"],
            "gpus": ", ".join(gpu.rpartition(":")[2] for gpu in gpus),
        }
    if "seconds" in row.params:
        params["lasted"] = show_duration(row.params["seconds"])
    known = SENTENCES.get((row.kind, f"{about}.{params.get('kind')}"), SENTENCES.get((row.kind, about)))
    if known is None:
        return str(OTHER) % {"verb": row.verb, "state": row.to_state}
    return str(known) % _Blank(params)


class _Blank(dict):
    """An older event may lack a value that its sentence names today."""

    def __missing__(self, key: str) -> str:
        return "?"
