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
        T.FAILED, True, "fault", _("It used more memory than it asked for."), _("Ask for more memory and submit again.")
    ),
    "gpu_out_of_memory": Reason(
        T.FAILED, True, "fault", _("It used more GPU memory than its slice has."), _("Ask for a larger slice.")
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
    "rejected_by_cluster": Reason(
        T.FAILED, False, "fault", _("The cluster refused it."), _("The words of the cluster are in the event list.")
    ),
    "refused_by_node": Reason(
        T.FAILED,
        False,
        "fault",
        _("Its machine had no place for it after all, so it never began."),
        _("It is queued again by itself, a few times. The words of the cluster stand beside the task."),
    ),
    "evicted": Reason(
        T.FAILED,
        True,
        "fault",
        _("Its machine ran out of memory or disk, or was emptied, so the cluster ended it."),
        _("With `retry` and the reason evicted it is tried again."),
    ),
    "node_lost": Reason(T.FAILED, True, "fault", _("Its node was lost.")),
    "container_lost": Reason(
        T.FAILED,
        True,
        "fault",
        _("Its process disappeared without an exit code."),
        _("The machine may have been restarted."),
    ),
    "preempted": Reason(T.STOPPED, True, "neutral", _("It made room for a job with a higher priority.")),
    "overtaken": Reason(T.STOPPED, True, "neutral", _("Shorter work went first.")),
    "reclaimed": Reason(T.STOPPED, True, "neutral", _("Its team had borrowed what another team took back.")),
    "window_closed": Reason(
        T.STOPPED, True, "neutral", _("It ran on cards that another pool had lent for a while, and took back.")
    ),
    "maintenance": Reason(T.STOPPED, True, "neutral", _("Its machine went into maintenance.")),
    "time_limit": Reason(
        T.FAILED, True, "fault", _("It reached its time limit."), _("Raise max_time and submit again.")
    ),
    "idle": Reason(T.STOPPED, False, "neutral", _("It was idle and its GPU was given back.")),
    "stopped_by_user": Reason(T.STOPPED, False, "neutral", _("Somebody stopped it.")),
    "gang_broken": Reason(T.STOPPED, True, "neutral", _("Another task of its gang ended, so it was stopped.")),
    "job_done": Reason(T.STOPPED, False, "ok", _("Its job was done.")),
}

# Why a job waits. Params come formatted.
WAIT_REASONS: dict[str, str | Promise] = {
    "ahead_in_queue": _("%(n)s jobs ahead of it need the same resources first"),
    "ahead_in_queue.one": _("one job ahead of it needs the same resources first"),
    "making_room": _("room is being made for it: %(n)s jobs with less right to their place are being stopped"),
    "making_room.one": _("room is being made for it: a job with less right to its place is being stopped"),
    "maintenance": _(
        "it would still run when %(nodes)s goes into maintenance, from %(at)s until %(until)s; "
        "with a `time` that ends before, it may start now"
    ),
    "maintenance.several": _(
        "it would still run when %(n)s machines go into maintenance, from %(at)s until %(until)s; "
        "with a `time` that ends before, it may start now"
    ),
    "maintenance.now": _("%(nodes)s is in maintenance until %(until)s"),
    "maintenance.now.several": _("%(n)s machines are in maintenance until %(until)s"),
    "reserved_for_larger": _(
        "what is free is kept for a job that starts at about %(at)s; with a `time` that ends before, it may start now"
    ),
    "reserved_for_larger.unknown": _(
        "what is free is kept for a job that is waiting for more; a job that says its `time` may pass it"
    ),
    "borrow_denied": _(
        "what is free beyond your team's guarantee is promised to %(teams)s; "
        "a job with `preemptible: true` may borrow it"
    ),
    "borrow_denied.nodes": _(
        "what is free beyond your team's guarantee is promised to %(teams)s as whole nodes of %(cards)s cards; "
        "a job with `preemptible: true` may borrow it"
    ),
    "no_fit_now": _("%(resource)s: it asks for %(ask)s; the best node has %(best)s free, of %(free)s free in all"),
    "no_fit_now.slice": _(
        "no card has room for it: the best has %(free_mib)s of memory free, and the slice needs %(need_mib)s"
    ),
    "no_fit_now.shared": _(
        "each card with enough free memory serves as many tasks, or has given as much compute, as it can"
    ),
    "gang_incomplete": _("%(have)s of %(need)s tasks fit together now; all start together or none"),
    "fragmented": _("enough is free overall, in pieces too small"),
    "team_limit": _("the team is at its limit of %(resource)s: %(used)s of %(limit)s used, and it asks for %(ask)s"),
    "user_limit": _("you are at your limit of %(resource)s: %(used)s of %(limit)s used, and it asks for %(ask)s"),
    "rate_policy": _("at most %(limit)s of a person's jobs run at once; %(used)s run now"),
    "model_unavailable": _("all %(models)s cards are taken or out of service"),
    "start_after": _("it is tried again after %(at)s"),
    "held": _("held by %(who)s"),
    "node_recovering": _("no node is ready; it is tried again as soon as one is"),
    "impossible": _(
        "nothing here can ever give the %(asked)s of %(field)s that it asks for; the largest is %(largest)s"
    ),
    "unexplained": _("the scheduler has not looked at it yet"),
}
