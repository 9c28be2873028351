"""Measure the phases of a notebook start.

queue      waits for resources
place      is handed to its node
container  its first process starts
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

START_PHASES = ("queue", "place", "container", "jupyter")
STARTS_LOOKED_AT = 50


@dataclass(frozen=True)
class Phase:
    """began_at: None before it begins. took_s: None before it ends. usual_s: None if unknown."""

    name: str
    began_at: datetime | None
    took_s: float | None
    usual_s: float | None


def load_start_phases(notebook: Notebook) -> list[Phase]:
    return build_start_phases(load_phase_times(notebook), load_usual_durations()) if notebook.job else []


def build_start_phases(moments: Iterable[datetime | None], usual: Mapping[str, float]) -> list[Phase]:
    """Build phases from the moments at which each began and the last ended."""
    at = list(moments)
    # A phase that ended unobserved took no time.
    for i in reversed(range(len(at) - 1)):
        at[i] = at[i] or at[i + 1]
    phases = []
    for name, began, ended in zip(START_PHASES, at[:-1], at[1:], strict=True):
        took = max((ended - began).total_seconds(), 0.0) if began and ended else None
        phases.append(Phase(name, began, took, usual.get(name)))
    return phases


def load_phase_times(notebook: Notebook) -> list[datetime | None]:
    """Return when the start was submitted, placed, begun, running and ready."""
    job, task = notebook.job, notebook.task
    if job is None:
        return [None] * 5
    if task is None:
        return [job.queued_at, None, None, None, None]
    begun = Event.objects.filter(kind=Task.KIND, object_id=task.pk, to_state=TaskState.STARTING).order_by("seq").first()
    return [job.queued_at, task.assigned_at, begun.at if begun else None, task.started_at, notebook.ready_at]


def measure_start_phases(notebook: Notebook) -> dict[str, float]:
    """Return {phase: seconds} of a ready start."""
    phases = build_start_phases(load_phase_times(notebook), {})
    return {phase.name: round(phase.took_s, 2) for phase in phases if phase.took_s is not None}


def load_usual_durations() -> dict[str, float]:
    """Return {phase: median seconds} over the newest starts. By notebook, as an index holds these events together."""
    newest = Notebook.objects.filter(job__isnull=False).order_by("-job_id").values_list("pk", flat=True)
    ready = Event.objects.filter(kind=Notebook.KIND, object_id__in=list(newest[:STARTS_LOOKED_AT]), verb="ready")
    taken = [event.params.get("took_s", {}) for event in ready.order_by("-id")[:STARTS_LOOKED_AT]]
    known = {name: [took[name] for took in taken if name in took] for name in START_PHASES}
    return {name: median(times) for name, times in known.items() if times}
