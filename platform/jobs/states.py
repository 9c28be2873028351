"""States of jobs and tasks, legal moves, and the meaning of reasons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db import models
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


class TaskState(models.TextChoices):
    PENDING = "PENDING", _("Waiting")
    ASSIGNED = "ASSIGNED", _("Placed")
    STARTING = "STARTING", _("Starting")
    RUNNING = "RUNNING", _("Running")
    STOPPING = "STOPPING", _("Stopping")
    LOST = "LOST", _("Lost")
    STOPPED = "STOPPED", _("Stopped")
    SUCCEEDED = "SUCCEEDED", _("Done")
    FAILED = "FAILED", _("Failed")


class JobState(models.TextChoices):
    QUEUED = "QUEUED", _("Queued")
    STARTING = "STARTING", _("Starting")
    RUNNING = "RUNNING", _("Running")
    STOPPING = "STOPPING", _("Stopping")
    SUCCEEDED = "SUCCEEDED", _("Done")
    FAILED = "FAILED", _("Failed")
    CANCELLED = "CANCELLED", _("Cancelled")


T = TaskState
TASK_MOVES: dict[str, frozenset[str]] = {
    T.PENDING: frozenset({T.ASSIGNED, T.STOPPED}),
    T.ASSIGNED: frozenset({T.STARTING, T.STOPPING, T.LOST, T.FAILED, T.STOPPED}),
    T.STARTING: frozenset({T.RUNNING, T.STOPPING, T.LOST, T.SUCCEEDED, T.FAILED}),
    T.RUNNING: frozenset({T.STOPPING, T.LOST, T.SUCCEEDED, T.FAILED}),
    T.STOPPING: frozenset({T.LOST, T.STOPPED, T.SUCCEEDED, T.FAILED}),
    T.LOST: frozenset({T.RUNNING, T.STOPPING, T.STOPPED, T.SUCCEEDED, T.FAILED}),
    T.STOPPED: frozenset(),
    T.SUCCEEDED: frozenset(),
    T.FAILED: frozenset(),
}
HOLDING = frozenset({T.ASSIGNED, T.STARTING, T.RUNNING, T.STOPPING, T.LOST})
TASK_FINAL = frozenset({T.STOPPED, T.SUCCEEDED, T.FAILED})

J = JobState
JOB_FINAL = frozenset({J.SUCCEEDED, J.FAILED, J.CANCELLED})
JOB_ACTIVE = frozenset({J.STARTING, J.RUNNING, J.STOPPING})
_OPEN = frozenset({J.QUEUED, J.STARTING, J.RUNNING, J.STOPPING})
JOB_MOVES: dict[str, frozenset[str]] = {
    **{state: (_OPEN | JOB_FINAL) - {state} for state in _OPEN},
    # A person's retry.
    **{state: frozenset({J.QUEUED}) for state in JOB_FINAL},
}


def is_done(gang: Iterable[Mapping], tasks: Iterable[tuple[str, str]]) -> bool:
    """Whether a role that ends the job succeeded. tasks: (role, state) of the newest attempt."""
    states: dict[str, list[str]] = {}
    for role, state in tasks:
        states.setdefault(role, []).append(state)
    enough = {"any": any, "all": all}
    return any(
        enough[role["ends_job"]](state == T.SUCCEEDED for state in states[role["role"]])
        for role in gang
        if role.get("ends_job") and role["role"] in states
    )


def derive_job_state(tasks: Iterable[str], *, stopping: bool, done: bool = False) -> str:
    """Return a job's state from those of its newest attempt's tasks.

    stopping: stopped tasks mean cancelled. done: a role that ends the job succeeded.
    """
    states = set(tasks)
    if states <= {T.PENDING}:
        return J.QUEUED
    if not states - TASK_FINAL:
        return J.SUCCEEDED if done else _ended(states, stopping)
    if done or stopping or T.STOPPING in states or states & {T.FAILED, T.STOPPED}:
        return J.STOPPING
    if states & {T.ASSIGNED, T.STARTING, T.PENDING}:
        return J.STARTING
    return J.RUNNING


def _ended(states: set[str], stopping: bool) -> str:
    if T.FAILED in states:
        return J.FAILED
    if T.STOPPED in states:
        return J.CANCELLED if stopping else J.FAILED
    return J.SUCCEEDED


@dataclass(frozen=True)
class Reason:
    """An end reason. retry: whether a retry rule may name it."""

    state: str
    retry: bool
    colour: str
    words: str | Promise
    hint: str | Promise = ""


# Why a task ended. Colours are those of the state chips.
REASONS: dict[str, Reason] = {
    "completed": Reason(T.SUCCEEDED, False, "ok", _("Finished.")),
    "exit_nonzero": Reason(
        T.FAILED, True, "fault", _("The program ended with an error."), _("Read the last lines of the log.")
    ),
    "out_of_memory": Reason(
        T.FAILED,
        True,
        "fault",
        _("The program used more memory than the job asked for."),
        _("Ask for more memory and submit again."),
    ),
    "gpu_out_of_memory": Reason(
        T.FAILED, True, "fault", _("The program used more GPU memory than its slice has."), _("Ask for a larger slice.")
    ),
    "image_pull": Reason(
        T.FAILED, True, "fault", _("The image could not be pulled."), _("Check the name of the image.")
    ),
    "start_failed": Reason(
        T.FAILED,
        True,
        "fault",
        _("The program could not be started."),
        _("Check the command and the working directory."),
    ),
    "secret_missing": Reason(
        T.FAILED,
        False,
        "fault",
        _("A secret that the job names, or the token that submitted it, is not there any more, so it was not started."),
        _("The event list says which. Make a secret again under Secrets, then retry the job."),
    ),
    "data_missing": Reason(
        T.FAILED,
        False,
        "fault",
        _("A version of a dataset that the job names is not there any more, so it was not started."),
        _("Bring the files back, or name another version and submit again."),
    ),
    "rejected_by_cluster": Reason(
        T.FAILED,
        False,
        "fault",
        _("The cluster rejected the task."),
        _("The event list has the message of the cluster."),
    ),
    "refused_by_node": Reason(
        T.FAILED,
        False,
        "fault",
        _("The machine had no room after all, so the task never started."),
        _("The task is queued again automatically, a few times. The message of the cluster is shown beside it."),
    ),
    "evicted": Reason(
        T.FAILED,
        True,
        "fault",
        _("The machine ran out of memory or disk, or was drained, so the cluster ended the task."),
        _("With `retry` and the reason evicted, it is retried."),
    ),
    "node_lost": Reason(T.FAILED, True, "fault", _("The node was lost.")),
    "container_lost": Reason(
        T.FAILED,
        True,
        "fault",
        _("The process disappeared without an exit code."),
        _("The machine may have been restarted."),
    ),
    "preempted": Reason(T.STOPPED, True, "neutral", _("Stopped to make room for a job with a higher priority.")),
    "overtaken": Reason(T.STOPPED, True, "neutral", _("Stopped to let shorter work run first.")),
    "reclaimed": Reason(
        T.STOPPED, True, "neutral", _("Stopped because another team took back what this team had borrowed.")
    ),
    "window_closed": Reason(
        T.STOPPED, True, "neutral", _("Stopped because another pool took back the cards that it had lent.")
    ),
    "maintenance": Reason(T.STOPPED, True, "neutral", _("Stopped because the machine went into maintenance.")),
    "time_limit": Reason(
        T.FAILED, True, "fault", _("The time limit was reached."), _("Raise max_time and submit again.")
    ),
    "idle": Reason(T.STOPPED, False, "neutral", _("Stopped because it was idle; the GPU was released.")),
    "alert": Reason(
        T.STOPPED,
        False,
        "neutral",
        _("Stopped by an alert rule, after a warning."),
        _("The alert says why. Submit it again once that is mended."),
    ),
    "waited_too_long": Reason(
        T.STOPPED,
        False,
        "neutral",
        _("Cancelled because it had not started within wait_max."),
        _("Submit it again with a longer wait_max, or ask what would let it start sooner."),
    ),
    "dependency_failed": Reason(
        T.STOPPED,
        False,
        "neutral",
        _("Cancelled because a job that it waited for did not end as `after` asks."),
        _("Mend or retry that job first, then retry this one."),
    ),
    "replaced": Reason(T.STOPPED, False, "neutral", _("Stopped because its schedule started the next run instead.")),
    "pruned": Reason(
        T.STOPPED,
        False,
        "neutral",
        _("Stopped early by its sweep: other trials had come further by the same step."),
        _("Its numbers are kept. The page of the sweep shows the best trial."),
    ),
    "not_needed": Reason(
        T.STOPPED, False, "ok", _("Stopped because its service needs fewer replicas, or another revision.")
    ),
    "stopped_by_user": Reason(T.STOPPED, False, "neutral", _("Stopped by a user.")),
    "gang_broken": Reason(T.STOPPED, True, "neutral", _("Stopped because another task of its gang ended.")),
    "job_done": Reason(T.STOPPED, False, "ok", _("Stopped because the job was done.")),
}
