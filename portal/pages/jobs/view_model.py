"""View model of a job, computed as templates read it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from urllib.parse import urlencode

from django.db.models import F, Min
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.permissions import PERMISSIONS, roles_of
from cluster.models import HighPriority, Pool
from common.errors import NotFound
from common.resources import parse_gpu, show_duration, show_place
from jobs.arrays.models import show_array_id
from jobs.changing import show_label
from jobs.lifecycle import MADE_ROOM
from jobs.models import Job, JobKind, Priority, Task, read_job_id
from jobs.reason_messages import describe_end, describe_wait
from jobs.running_slices import may_resize
from jobs.states import HOLDING, JOB_ACTIVE, JobState
from portal.access.idle_rows import IdleRow, find_told_rows
from portal.pages.jobs.activity import Activities, Activity
from portal.wording.image_pulls import job_hint, start_sentence
from portal.wording.resources import (
    describe_gpu,
    describe_other_pools,
    describe_roles,
    list_alternatives,
    show_elapsed,
)
from portal.wording.starts import describe_length, describe_start, describe_unknown_start
from scheduler.preview.runtime_capabilities import runtime_resizes
from scheduler.preview.stored_forecasts import lacks_run_times, load_forecasts, load_told_lengths
from sharing.shares import find_share

FRESH = timedelta(seconds=5)
"""A job this young is not yet owed a reason: the scheduler looks every second."""


LABELS_IN_ROW = 3


class JobRights:
    """A user's permissions on jobs, looked up once per team."""

    def __init__(self, user: User):
        self.user = user
        self._roles: dict[tuple[int, bool], set[str]] = {}
        self._shared: dict[int, bool] = {}

    def may(self, action: str, job: Job) -> bool:
        key = (job.team_id, job.user_id == self.user.pk)
        if key not in self._roles:
            self._roles[key] = roles_of(self.user, job.team, job.user_id)
        return bool(self._roles[key] & PERMISSIONS[action])

    def may_enter(self, job: Job) -> bool:
        """Whether the user may enter it: as its owner, or as a colleague to whom it was opened."""
        if self.may("job.enter", job):
            return True
        if job.pk not in self._shared:
            self._shared[job.pk] = self.may("job.visit", job) and find_share(self.user, job) is not None
        return self._shared[job.pk]


def find_job(user: User, job_id: str) -> Job:
    """Return the visible job with this id ("job-412"). Raises NotFound."""
    number = read_job_id(job_id)
    job = Job.objects.visible_to(user).with_names().filter(pk=number).first() if number else None
    if job is None:
        raise NotFound()
    return job


@dataclass(frozen=True)
class LabelLink:
    """A label, and the jobs that have it."""

    text: str

    @property
    def href(self) -> str:
        return f"{reverse('jobs')}?{urlencode({'whose': 'team', 'label': self.text})}"


def find_jobs(user: User, job_ids: Iterable[str]) -> list[Job]:
    """Return those of the jobs that the user sees."""
    keys = filter(None, map(read_job_id, job_ids))
    return list(Job.objects.visible_to(user).with_names().filter(pk__in=keys).order_by("pk"))


class JobView:
    """A job as one user sees it, with its newest attempt's tasks."""

    def __init__(
        self, job: Job, rights: JobRights, tasks: list[Task] | None = None, activities: Activities | None = None
    ):
        self.job = job
        self.rights = rights
        if tasks is not None:
            self.tasks = tasks
        self._activities = activities

    @property
    def id(self) -> str:
        return self.job.public_id

    @property
    def name(self) -> str:
        return self.job.name or self.id

    @cached_property
    def tasks(self) -> list[Task]:
        return self.job.in_order(self.job.newest_tasks.select_related("node"))

    @cached_property
    def idle(self) -> IdleRow | None:
        """Return what is told of it while it is idle; None while it is not."""
        if self.job.state != JobState.RUNNING:
            return None
        return find_told_rows(self.rights.user, [self.job.pk]).get(self.id)

    # ---- permitted actions ----

    @property
    def may_stop(self) -> bool:
        open_and_wanted = not self.job.is_final and self.job.stop_requested_at is None
        return open_and_wanted and self.rights.may("job.stop", self.job)

    @property
    def may_retry(self) -> bool:
        return self.job.is_final and self.rights.may("job.retry", self.job)

    @property
    def may_hold(self) -> bool:
        waits = self.is_waiting and self.job.held_at is None and self.job.stop_requested_at is None
        return waits and self.rights.may("job.hold", self.job)

    @property
    def may_release(self) -> bool:
        return self.is_waiting and self.job.held_at is not None and self.rights.may("job.release", self.job)

    @property
    def may_resize(self) -> bool:
        return may_resize(self.job, self.tasks) and self.rights.may("job.resize", self.job) and runtime_resizes()

    @property
    def may_prioritize(self) -> bool:
        waits = self.is_waiting and self.job.stop_requested_at is None and self.job.kind != JobKind.INTERACTIVE
        return waits and self.rights.may("job.prioritize", self.job)

    @property
    def may_raise(self) -> bool:
        """Whether to offer high priority: to who can consent to it, and to its owner where the team has a budget."""
        pays = self.job.pool.high_priority == HighPriority.BUDGET or self.rights.may("job.consent", self.job)
        return self.job.priority < Priority.HIGH and self.may_prioritize and pays

    @property
    def may_lower(self) -> bool:
        return self.job.priority >= Priority.HIGH and self.may_prioritize

    @property
    def stop_effect(self) -> str:
        if self.is_waiting:
            return _("The job leaves the queue and does not start. You can retry it later.")
        if self.started_at is None:
            return _("The job has been placed but has not started; its resources are released.")
        words = _(
            "The program is asked to stop, and is killed 10 seconds later or when the grace period of its "
            "checkpoint ends. Work that is not saved by then is lost."
        )
        if self.saved_at is None:
            return words
        ago = show_duration(round((timezone.now() - self.saved_at).total_seconds()))
        return f"{words} {_('Its last checkpoint was %(ago)s ago.') % {'ago': ago}}"

    @property
    def saved_at(self) -> datetime | None:
        """Return the oldest of the tasks' checkpoints, None if one has none since its start."""
        times = [
            task.checkpointed_at
            for task in self.tasks
            if task.checkpointed_at and task.started_at and task.checkpointed_at > task.started_at
        ]
        return min(times) if times and len(times) == len(self.tasks) else None

    # ---- request ----

    @property
    def ask(self) -> str:
        return describe_request(self.job)

    @property
    def priority(self) -> str:
        return str(Priority(self.job.priority).label)

    @property
    def priority_label(self) -> str:
        return _("%(priority)s priority") % {"priority": self.priority}

    @property
    def has_usual_priority(self) -> bool:
        return self.job.priority == Priority.NORMAL

    @property
    def labels(self) -> list[LabelLink]:
        return [LabelLink(show_label(*label)) for label in sorted(self.job.labels.items())]

    @property
    def hidden_labels(self) -> int:
        """How many of its labels a row of the list does not show."""
        return max(len(self.job.labels) - LABELS_IN_ROW, 0)

    @property
    def first_labels(self) -> list[LabelLink]:
        return self.labels[:LABELS_IN_ROW]

    @property
    def label_lines(self) -> str:
        """Its labels as they are edited: one in a line."""
        return "\n".join(link.text for link in self.labels)

    @property
    def may_label(self) -> bool:
        return self.rights.may("job.label", self.job)

    @property
    def array_id(self) -> str:
        """The array of which it is an element, or ""."""
        return show_array_id(self.job.array_id) if self.job.array_id else ""

    # ---- placement ----

    @property
    def is_waiting(self) -> bool:
        return self.job.state == JobState.QUEUED

    @property
    def is_active(self) -> bool:
        return self.job.state in JOB_ACTIVE

    @property
    def has_ended(self) -> bool:
        return self.job.is_final

    @property
    def where(self) -> list[str]:
        """Return the places in use: "n1, GPU 0", or "n1"."""
        placed = [task for task in self.tasks if task.state in HOLDING and task.node]
        with_cards = {task.node_id for task in placed if task.cards}
        said = [describe_place(task) for task in placed if task.cards or task.node_id not in with_cards]
        return list(dict.fromkeys(said))

    @property
    def has_simulated_cards(self) -> bool:
        return any(card.get("simulated") for task in self.tasks for card in task.cards)

    @property
    def activity(self) -> Activity | None:
        """How busy its cards were in the last hour, None if nothing is known or it does not run."""
        self._activities = self._activities or Activities(self.tasks)
        return self._activities.of(self.job.pk)

    # ---- waiting ----

    @property
    def pools(self) -> str:
        """Where it waits, runs or ran: "train", "train or dev"."""
        return list_alternatives(self.job.pool_names)

    @property
    def other_pools(self) -> str:
        """Say where else it waits, or ""."""
        return describe_other_pools(self.job.told_pool_name, self.job.pool_names)

    @property
    def place(self) -> str:
        """Its queue position, or ""."""
        if self.job.wait_position is None or not self.is_waiting:
            return ""
        params = {"position": self.job.wait_position, "of": self.job.wait_of, "pool": self.job.told_pool_name}
        return _("#%(position)s of %(of)s in %(pool)s") % params

    @property
    def stopped_for(self) -> str:
        """Say for what the job was stopped that is queued again, or ""."""
        if not self.is_waiting or self.job.reason not in MADE_ROOM:
            return ""
        params = {"why": describe_end(self.job.reason), "attempt": self.job.attempt}
        return _("%(why)s It is queued again, as attempt %(attempt)s.") % params

    @property
    def reasons(self) -> list[str]:
        """Return wait reasons as sentences, most binding first."""
        if not self.is_waiting:
            return []
        if self.job.held_at is not None:
            return [describe_wait({"code": "held", "params": {"who": self.job.held_by}})]
        return [describe_wait(reason) for reason in self.job.wait_reasons] or [self._no_reason_text]

    @property
    def reason(self) -> str:
        """Return the sentence that holds for the whole job, or ""."""
        return next(iter(self.reasons), "")

    @property
    def reason_anchor(self) -> str:
        """Return the anchor of the first wait reason in the documents, or ""."""
        codes = ["held"] if self.job.held_at is not None else [reason["code"] for reason in self.job.wait_reasons]
        return f"wait-{codes[0]}" if codes else ""

    @property
    def further_reasons(self) -> list[str]:
        """Return what follows from it, such as what one of several tasks is short of."""
        return self.reasons[1:]

    @cached_property
    def starts(self) -> str:
        """When it is forecast to start, or ""."""
        return describe_start(load_forecasts([self.job]).get(self.job.pk)) if self.is_waiting else ""

    @cached_property
    def length(self) -> str:
        """How long it is predicted to run and by what, or ""."""
        told = load_told_lengths([self.job]).get(self.job.pk)
        return describe_length(told, own=self.job.user_id == self.rights.user.pk)

    @property
    def why_start_unknown(self) -> str:
        """Why nobody can tell when it will start, or ""."""
        if not self.is_waiting or self.starts:
            return ""
        told = self.job.wait_places[0]["pool"] if self.job.wait_places else self.job.pool_id
        pool = self.job.pool if told == self.job.pool_id else Pool.objects.filter(pk=told).first() or self.job.pool
        return describe_unknown_start(pool) if lacks_run_times(pool.pk) else ""

    @property
    def is_unexplained(self) -> bool:
        """Whether a wait reason is overdue."""
        explained = self.job.held_at is not None or bool(self.job.wait_reasons)
        return self.is_waiting and not explained and timezone.now() - self.job.queued_at > FRESH

    @property
    def _no_reason_text(self) -> str:
        if self.is_unexplained:
            return _("the scheduler has not recorded a reason yet")
        return _("the scheduler checks this job in a moment")

    # ---- durations ----

    @property
    def assigned_at(self) -> datetime | None:
        return min((task.assigned_at for task in self.tasks if task.assigned_at), default=None)

    @property
    def started_at(self) -> datetime | None:
        """Return when its first task ran, even if the job was never observed running."""
        return self.job.started_at or min((task.started_at for task in self.tasks if task.started_at), default=None)

    @property
    def ends_at(self) -> datetime | None:
        """Return when its time limit ends it; None while it does not run, or without one."""
        limit = self.job.max_time_s
        if self.job.state != JobState.RUNNING or not limit or self.started_at is None:
            return None
        return self.started_at + timedelta(seconds=limit)

    @property
    def first_started_at(self) -> datetime | None:
        """Return when its first attempt ran."""
        first = self.job.tasks.filter(started_at__isnull=False).aggregate(first=Min("started_at"))["first"]
        return first or self.job.started_at

    @property
    def waited(self) -> str:
        """Return the newest attempt's wait, "" while waiting."""
        until = self.assigned_at or self.started_at or self.job.ended_at
        return "" if self.is_waiting else show_elapsed(self.job.queued_at, until)

    @property
    def ran(self) -> str:
        """Return the run time so far or in all, or ""."""
        return show_elapsed(self.started_at, self.job.ended_at or timezone.now())

    # ---- end ----

    @property
    def end(self) -> str:
        """Say why it ended, or ""."""
        if not self.has_ended:
            return ""
        if self.job.reason == "stopped_by_user" and self.job.stop_requested_by:
            return _("Stopped by %(who)s.") % {"who": self.job.stop_requested_by}
        if self.job.reason == "exit_nonzero" and self.job.exit_code is not None:
            return _("The program ended with exit code %(code)s.") % {"code": self.job.exit_code}
        return describe_end(self.job.reason)

    @property
    def hint(self) -> str:
        """Say what to do about its end, or ""."""
        return job_hint(self.job, self.tasks) if self.has_ended else ""

    @property
    def engine_message(self) -> str:
        """Return the engine's message for its end, or ""."""
        return next((task.detail for task in self.tasks if self.has_ended and task.reason == self.job.reason), "")

    @property
    def sentence(self) -> str:
        """Say what it does now: waits, runs or ended."""
        params = {"pool": self.pools, "where": " · ".join(self.where), "ran": self.ran, "who": self.job.held_by}
        if self.job.stop_requested_at is not None and not self.has_ended:
            if not self.job.stop_requested_by:
                return _("The role that ends the job is done; the other tasks are being stopped.")
            return _("%(by)s requested a stop; the job ends in a moment.") % {"by": self.job.stop_requested_by}
        if self.is_waiting:
            return self._waiting_sentence(params)
        if self.has_ended:
            return self.end if not self.ran else _("%(end)s Ran for %(ran)s.") % {"end": self.end, "ran": self.ran}
        if self.job.state == JobState.RUNNING:
            return _("Running on %(where)s.") % params
        if self.job.state == JobState.STARTING:
            return start_sentence(self.job, self.tasks) or _("Starting on %(where)s.") % params
        return _("Stopping.")

    def _waiting_sentence(self, params: dict) -> str:
        if self.job.held_at is not None:
            return _("Held by %(who)s: the job keeps its place in pool %(pool)s and does not start.") % params
        if self.job.wait_position is None:
            return _("Waiting in pool %(pool)s.") % params
        params |= {"position": self.job.wait_position, "of": self.job.wait_of, "pool": self.job.told_pool_name}
        words = _("Queue position %(position)s of %(of)s in pool %(pool)s.") % params
        return f"{words} {self.other_pools}".rstrip()


def view_jobs(jobs: Iterable[Job], user: User) -> list[JobView]:
    """Return views of `jobs` (with_names), tasks read in one query."""
    jobs, rights = list(jobs), JobRights(user)
    tasks: dict[int, list[Task]] = defaultdict(list)
    newest = Task.objects.filter(job__in=jobs, attempt=F("job__attempt"))
    for task in newest.select_related("node"):
        tasks[task.job_id].append(task)
    activities = Activities([task for found in tasks.values() for task in found])
    views = [JobView(job, rights, job.in_order(tasks[job.pk]), activities) for job in jobs]
    idle = find_told_rows(user, [job.pk for job in jobs if job.state == JobState.RUNNING])
    for view in views:
        view.idle = idle.get(view.id)
    return views


def describe_request(job: Job) -> str:
    """Describe the GPUs requested: "¼ GPU", "4 GB of V100", "2 to 4 nodes with 1 GPU"."""
    if len(job.gang) > 1:
        return describe_roles(job.gang)
    ask = parse_gpu(job.gang[0]["request"]["gpu"])
    if job.state == JobState.QUEUED and job.least < job.most:
        nodes = _("%(least)s to %(most)s") % {"least": job.least, "most": job.most}
    elif (size := job.size) == 1:
        return describe_gpu(ask)
    else:
        nodes = str(size)
    return _("%(nodes)s nodes with %(ask)s") % {"nodes": nodes, "ask": describe_gpu(ask)}


def describe_place(task: Task) -> str:
    """Return "n1, GPU 0"."""
    if not task.cards:
        return task.node.name if task.node else ""
    indexes = ", ".join(show_place(card["index"]) for card in task.cards)
    return _("%(node)s, GPU %(indexes)s") % {"node": task.node.name if task.node else "?", "indexes": indexes}
