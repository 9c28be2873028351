"""Jobs of an exported history, from their rows, tasks, holdings and events. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from events.models import Event
from jobs.models import Job, Task
from jobs.states import JOB_FINAL, JobState
from monitoring.history.file_format import Attempt, JobLine, Seat
from monitoring.history.names import Names, number_commands
from quotas.models import Holding

MACHINE_FAILED = frozenset({"node_lost", "container_lost"})


@dataclass(frozen=True)
class JobRows:
    """A job with all its tasks, what they held by uuid, and its events in order."""

    job: Job
    tasks: Sequence[Task]
    holdings: Mapping[str, Sequence[Holding]]
    events: Sequence[Event]


def describe_job(rows: JobRows, names: Names, card_index: Mapping[int, int]) -> JobLine:
    """card_index: {card: its index on its machine}."""
    job = rows.job
    choices = [
        {"pool": one["name"], "gang": one["gang"], "max_time_s": one["max_time_s"]}
        | {"preemptible": job.is_preemptible_in(one["pool"])}
        for one in job.choices
    ]
    attempts = [tasks for _, tasks in sorted(_group_by_attempt(rows.tasks).items())]
    return JobLine(
        id=job.pk,
        team=names.team(job.team_id),
        person=names.person(job.user_id),
        kind=job.kind,
        priority=job.priority,
        preemptible=job.preemptible,
        choices=choices or [{"pool": job.pool.name, "gang": job.gang, "max_time_s": job.max_time_s}],
        submitted_at=job.eligible_at.timestamp(),
        attempts=[_describe_attempt(rows, tasks, names, card_index) for tasks in attempts],
        time_s=job.time_s,
        retry=job.spec.get("retry") or {},
        saves=bool(job.spec.get("checkpoint")) or any(task.checkpointed_at for task in rows.tasks),
        holds=_list_holds(rows.events),
        ended_at=_seconds(job.ended_at) if job.state in JOB_FINAL else None,
        name=names.word(job.name),
        image=names.word(job.spec.get("image") or ""),
        command=number_commands(job.spec),
    )


def _group_by_attempt(tasks: Iterable[Task]) -> dict[int, list[Task]]:
    found: dict[int, list[Task]] = {}
    for task in tasks:
        found.setdefault(task.attempt, []).append(task)
    return found


def _describe_attempt(rows: JobRows, tasks: list[Task], names: Names, card_index: Mapping[int, int]) -> Attempt:
    number, held = tasks[0].attempt, [one for task in tasks for one in rows.holdings.get(str(task.uuid), ())]
    assigned = [task.assigned_at for task in tasks if task.assigned_at]
    started = [task.started_at for task in tasks if task.started_at]
    saved = [task.checkpointed_at for task in tasks if task.checkpointed_at]
    ends = [one.released_at for one in held] or [task.ended_at for task in tasks]
    queued_at, reason = _find_queued_at(rows, number), _find_reason(rows, number)
    lost = [task for task in tasks if task.reason in MACHINE_FAILED]
    return Attempt(
        queued_at=queued_at,
        assigned_at=_seconds(min(assigned, default=None)),
        started_at=_seconds(max(started)) if len(started) == len(tasks) else None,
        saved_at=_seconds(min(saved)) if len(saved) == len(tasks) else None,
        freed_at=_seconds(max(ends)) if ends and all(ends) else None,  # type: ignore[type-var]
        reason=reason,
        pool=rows.job.pool.name if assigned and number == rows.job.attempt else _find_pool(held, rows.job),
        seats=[_describe_seat(task, rows.holdings.get(str(task.uuid), ()), names, card_index) for task in tasks]
        if assigned
        else [],
        lost=sorted({names.machine(task.node_id) for task in lost if task.node_id}),
    )


def _describe_seat(task: Task, held: Sequence[Holding], names: Names, card_index: Mapping[int, int]) -> Seat:
    cards = [
        [card_index[one.gpu_id], one.gpu_memory_mib, one.gpu_compute_percent, one.gpu_milli]
        for one in held
        if one.gpu_id is not None and one.gpu_id in card_index
    ]
    return Seat(
        task.role, task.rank, names.machine(task.node_id), sorted(cards), task.cpu_milli, task.memory_mib
    )  # fmt: skip


def _find_pool(held: Sequence[Holding], job: Job) -> str:
    return held[0].pool.name if held else ""


def _find_queued_at(rows: JobRows, number: int) -> float:
    """Return since when an attempt waited: the submit, or the event that began it."""
    begun = [e for e in rows.events if e.to_state == JobState.QUEUED and e.params.get("attempt") == number]
    return begun[-1].at.timestamp() if begun else rows.job.eligible_at.timestamp()


def _find_reason(rows: JobRows, number: int) -> str:
    """Return why an attempt ended: the end of the job after it began, or why the next one was queued."""
    began = 0
    for event in rows.events:
        if event.to_state == JobState.QUEUED and event.params.get("attempt") == number:
            began = event.seq
    for event in rows.events:
        if event.verb == "state" and event.seq > began:
            if event.to_state in JOB_FINAL:
                return event.reason
            if event.to_state == JobState.QUEUED and event.params.get("attempt", 0) > number:
                return event.reason
    return ""


def _list_holds(events: Iterable[Event]) -> list[list[float | None]]:
    holds: list[list[float | None]] = []
    for event in events:
        if event.verb == "held":
            holds.append([event.at.timestamp(), None])
        elif event.verb == "released" and holds and holds[-1][1] is None:
            holds[-1][1] = event.at.timestamp()
    return holds


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
