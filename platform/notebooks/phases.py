"""The phases of a start, how long each took, and how long it usually takes.

queue      waits for its turn and its slice
place      is handed to its machine
container  its first process comes up
jupyter    JupyterLab loads until it answers
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from events.models import Event
from jobs.models import Task
from jobs.states import TaskState
from notebooks.models import Notebook

PHASES = ("queue", "place", "container", "jupyter")
STARTS_LOOKED_AT = 50


@dataclass(frozen=True)
class Phase:
    """began_at: None while it has not begun. took_s: None until it is over. usual_s: None where nothing is known."""

    name: str
    began_at: datetime | None
    took_s: float | None
    usual_s: float | None


def load_phases(notebook: Notebook) -> list[Phase]:
    """Those of the newest start; [] before the first."""
    return build_phases(load_moments(notebook), load_usual()) if notebook.job else []


def build_phases(moments: Iterable[datetime | None], usual: Mapping[str, float]) -> list[Phase]:
    """Pure. moments: when each of PHASES began, and when the last one ended; None for what has not come yet."""
    at = list(moments)
    # A short phase may be over before anybody saw it: then it took no time.
    for i in reversed(range(len(at) - 1)):
        at[i] = at[i] or at[i + 1]
    phases = []
    for name, began, ended in zip(PHASES, at[:-1], at[1:], strict=True):
        took = max((ended - began).total_seconds(), 0.0) if began and ended else None
        phases.append(Phase(name, began, took, usual.get(name)))
    return phases


def load_moments(notebook: Notebook) -> list[datetime | None]:
    """When it was submitted, placed, begun, up, and ready."""
    job, task = notebook.job, notebook.task
    if job is None:
        return [None] * 5
    if task is None:
        return [job.queued_at, None, None, None, None]
    begun = Event.objects.filter(kind=Task.KIND, object_id=task.pk, to_state=TaskState.STARTING).order_by("seq").first()
    return [job.queued_at, task.assigned_at, begun.at if begun else None, task.started_at, notebook.ready_at]


def measure_phases(notebook: Notebook) -> dict[str, float]:
    """{phase: seconds} of a start that is ready."""
    phases = build_phases(load_moments(notebook), {})
    return {phase.name: round(phase.took_s, 2) for phase in phases if phase.took_s is not None}


def load_usual() -> dict[str, float]:
    """{phase: median seconds} over the newest starts of everybody.

    Looked for among the notebooks that were started last: their events lie together in an index, while in the order of
    time a cluster that mostly runs jobs has very many others in between.
    """
    newest = Notebook.objects.filter(job__isnull=False).order_by("-job_id").values_list("pk", flat=True)
    ready = Event.objects.filter(kind=Notebook.KIND, object_id__in=list(newest[:STARTS_LOOKED_AT]), verb="ready")
    taken = [event.params.get("took_s", {}) for event in ready.order_by("-id")[:STARTS_LOOKED_AT]]
    known = {name: [took[name] for took in taken if name in took] for name in PHASES}
    return {name: median(times) for name, times in known.items() if times}
