"""Jobs as JSON, for those who may see them whole."""

from math import isfinite
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.resources import show_cpu, show_duration, show_memory
from events.models import Event
from jobs.arrays.models import show_array_id
from jobs.dependencies.conditions import show_dependency
from jobs.dependencies.open_elements import list_open_elements
from jobs.jobfile.description import ENDS_JOB
from jobs.models import Job, Priority, Task, may_be_stopped, show_job_id
from jobs.reason_messages import UNEXPLAINED, describe_end, describe_resize_refusal
from jobs.states import JobState
from portal.access.redacted_rows import expected_end
from portal.api.http.fields import (
    Amount,
    AmountField,
    JobStateField,
    Links,
    PlaceField,
    Reason,
    TaskStateField,
    amount,
    full_url,
    moment,
    one_of,
    priority_word,
    show_reasons,
)
from portal.wording.image_pulls import job_hint
from portal.wording.starts import BASES, describe_length, describe_start
from scheduler.preview.stored_forecasts import PredictedLength, StoredForecast


class Card(serializers.Serializer):
    """A task's share of a card. enforcement: what holds the memory limit. place: its index as NVIDIA writes it, `1:0`
    for a MIG instance.
    """

    index = serializers.IntegerField()
    place = PlaceField()
    uuid = serializers.CharField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    memory_text = serializers.SerializerMethodField()
    compute_percent = serializers.IntegerField()
    whole = serializers.BooleanField()
    simulated = serializers.BooleanField()
    enforcement = serializers.CharField()

    def get_memory_text(self, card: dict) -> str:
        return show_memory(card["memory_mib"])


class CardUse(serializers.Serializer):
    """A task's newest use of a shared card. refused: memory requests. watched: whether it is measured now. compute:
    turns if unlimited, mps if by NVIDIA's MPS.
    """

    uuid = serializers.CharField()
    limit_mib = serializers.IntegerField()
    used_mib = serializers.IntegerField()
    peak_mib = serializers.IntegerField()
    refused = serializers.IntegerField()
    watched = serializers.BooleanField(default=True)
    compute = serializers.ChoiceField(["turns", "mps"], default="turns")


class Resize(serializers.Serializer):
    """The newest resize request. state: asked, done or refused; detail: why refused."""

    gpu = serializers.CharField()
    by = serializers.CharField()
    state = serializers.SerializerMethodField()
    detail = serializers.SerializerMethodField()

    @extend_schema_field(one_of(("asked", "done", "refused")))
    def get_state(self, wish: dict) -> str:
        return "asked" if wish["open"] else "refused" if wish.get("refused") else "done"

    def get_detail(self, wish: dict) -> str:
        return describe_resize_refusal(wish.get("refused"))


class TaskShape(serializers.Serializer):
    """One container on one node, once. node: null until placed. gpu_use: of shared cards, where measured. resize: null
    if never requested.
    """

    uuid = serializers.CharField()
    role = serializers.CharField()
    rank = serializers.IntegerField()
    attempt = serializers.IntegerField()
    state = TaskStateField()
    reason = serializers.CharField(allow_blank=True)
    reason_text = serializers.SerializerMethodField()
    detail = serializers.CharField(allow_blank=True)
    node = serializers.SerializerMethodField()
    gpus = Card(many=True, source="cards")
    gpu_use = CardUse(many=True)
    resize = Resize(allow_null=True)
    cpu = AmountField(show_cpu, source="cpu_milli")
    memory = AmountField(show_memory, source="memory_mib")
    address = serializers.CharField(allow_blank=True)
    ports = serializers.DictField(child=serializers.IntegerField())
    exit_code = serializers.IntegerField(allow_null=True)
    exit_signal = serializers.IntegerField(allow_null=True)
    peak_memory_mib = serializers.IntegerField(allow_null=True)
    assigned_at = serializers.DateTimeField(allow_null=True)
    fetching_since = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    log = serializers.SerializerMethodField()

    def get_reason_text(self, task: Task) -> str:
        return describe_end(task.reason)

    def get_node(self, task: Task) -> str | None:
        return task.node.name if task.node else None

    def get_log(self, task: Task) -> str:
        return f"{full_url('api-job-logs', job_id=task.job.public_id)}?task={task.uuid}"


class QueuePlace(serializers.Serializer):
    pool = serializers.CharField()
    position = serializers.IntegerField()
    of = serializers.IntegerField()


class Wait(serializers.Serializer):
    """position: of `of` in `pool`, null before the scheduler's first cycle; as_of: its last. places: in each of its
    pools, if it waits in several.
    """

    pool = serializers.CharField()
    position = serializers.IntegerField(allow_null=True)
    of = serializers.IntegerField(allow_null=True)
    reasons = Reason(many=True)
    as_of = serializers.DateTimeField(allow_null=True)
    places = QueuePlace(many=True)


class StartRange(serializers.Serializer):
    """Forecast start: one of ten futures is earlier than p10, one later than p90.

    Null: beyond the forecast. told_at: when it was made.
    """

    p10 = serializers.DateTimeField(allow_null=True)
    p50 = serializers.DateTimeField(allow_null=True)
    p90 = serializers.DateTimeField(allow_null=True)
    told_at = serializers.DateTimeField()
    text = serializers.CharField()


class LengthShape(serializers.Serializer):
    """How long it will run in all: half of such jobs last no longer than expected_s, nine in ten than latest_s (null:
    unknown). basis: of which past jobs, and `past` how many.
    """

    expected_s = serializers.FloatField()
    latest_s = serializers.FloatField(allow_null=True)
    basis = serializers.ChoiceField(choices=sorted(BASES))
    past = serializers.IntegerField()
    text = serializers.CharField()


class DecidingLinkShape(serializers.Serializer):
    """job: which of the jobs that it waits for, directly or through others, decides when it starts. text: in words."""

    job = serializers.CharField()
    text = serializers.CharField()


class WaitAnswer(Wait):
    """start, length: null if unknown. length: also of a job that runs. decided_by: null unless it waits for others."""

    decided_by = DecidingLinkShape(allow_null=True)

    start = StartRange(allow_null=True)
    length = LengthShape(allow_null=True)


@extend_schema_field(one_of(("", *ENDS_JOB)))
class EndsJob(serializers.CharField):
    pass


class RoleShape(serializers.Serializer):
    """A role of a job. least: tasks that start with the job; most: where there is room."""

    name = serializers.CharField()
    least = serializers.IntegerField()
    most = serializers.IntegerField()
    gpu = serializers.CharField()
    cpu = Amount()
    memory = Amount()
    ends_job = EndsJob(allow_blank=True)


class UsedTemplate(serializers.Serializer):
    """A template as a job keeps it. values: of its parameters, by name."""

    id = serializers.CharField()
    name = serializers.CharField()
    version = serializers.IntegerField()
    values = serializers.DictField()


class JobShape(serializers.Serializer):
    """A job. gpu, cpu, memory: per task, of the first role with cards; nodes: tasks that start together. roles: each
    role's.

    pool: where it runs or ran; while it waits where it is to start first. pools: all where it waits, as preferred.
    reason: why it ended. wait: while it waits. spec: the canonical job file. tasks: of the newest attempt.
    preemptible: whether it may be stopped for other teams, where it runs or in the first of the pools; spec has null
    where the pool said so at the submit. waits_for: jobs and arrays of its `after` that have yet to end. template: of
    which it was made, with the values of its parameters. parent: the job that it is a copy of. array, index: of which
    array it is which element.
    """

    id = serializers.CharField(source="public_id")
    name = serializers.CharField(allow_blank=True)
    kind = serializers.CharField()
    team = serializers.CharField(source="team.name")
    owner = serializers.CharField(source="user.username")
    pool = serializers.CharField(source="told_pool_name")
    pools = serializers.ListField(source="pool_names", child=serializers.CharField())
    state = JobStateField()
    reason = serializers.CharField(allow_blank=True)
    reason_text = serializers.SerializerMethodField()
    hint = serializers.SerializerMethodField()
    priority = serializers.SerializerMethodField()
    gpu = serializers.SerializerMethodField()
    nodes = serializers.SerializerMethodField()
    cpu = serializers.SerializerMethodField()
    memory = serializers.SerializerMethodField()
    roles = serializers.SerializerMethodField()
    time = AmountField(show_duration, source="time_s")
    max_time = AmountField(show_duration, source="max_time_s")
    preemptible = serializers.SerializerMethodField()
    spec = serializers.DictField()
    template = UsedTemplate(allow_null=True)
    parent = serializers.SerializerMethodField()  # type: ignore[assignment]
    array = serializers.SerializerMethodField()
    index = serializers.IntegerField(source="array_index", allow_null=True)
    attempt = serializers.IntegerField()
    retries_left = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()
    eligible_at = serializers.DateTimeField()
    give_up_at = serializers.DateTimeField(allow_null=True)
    waits_for = serializers.SerializerMethodField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    expected_end_at = serializers.SerializerMethodField()
    exit_code = serializers.IntegerField(allow_null=True)
    held = serializers.SerializerMethodField()
    held_by = serializers.CharField(allow_blank=True)
    stop_requested_at = serializers.DateTimeField(allow_null=True)
    wait = serializers.SerializerMethodField()
    tasks = serializers.SerializerMethodField()
    links = serializers.SerializerMethodField()

    def get_reason_text(self, job: Job) -> str:
        return describe_end(job.reason)

    def get_hint(self, job: Job) -> str:
        return job_hint(job, [task for task in job.tasks.all() if task.attempt == job.attempt])

    @extend_schema_field(one_of(priority.name.lower() for priority in Priority))
    def get_priority(self, job: Job) -> str:
        return priority_word(job.priority)

    def get_gpu(self, job: Job) -> str:
        return job.request["gpu"]

    def get_nodes(self, job: Job) -> int:
        return job.size

    @extend_schema_field(Amount)
    def get_cpu(self, job: Job) -> dict[str, Any]:
        return amount(job.request["cpu_milli"], show_cpu)

    @extend_schema_field(Amount)
    def get_memory(self, job: Job) -> dict[str, Any]:
        return amount(job.request["memory_mib"], show_memory)

    @extend_schema_field(RoleShape(many=True))
    def get_roles(self, job: Job) -> list[dict]:
        return [show_role(role) for role in job.gang]

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_expected_end_at(self, job: Job) -> str | None:
        return moment(expected_end(job))

    def get_waits_for(self, job: Job) -> list[str]:
        return [show_dependency(number) for number in job.waits_for]

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_parent(self, job: Job) -> str | None:
        return show_job_id(job.parent_id) if job.parent_id else None

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_array(self, job: Job) -> str | None:
        return show_array_id(job.array_id) if job.array_id else None

    def get_preemptible(self, job: Job) -> bool:
        return may_be_stopped(job)

    def get_held(self, job: Job) -> bool:
        return job.held_at is not None

    @extend_schema_field(Wait(allow_null=True))
    def get_wait(self, job: Job) -> dict | None:
        return show_wait(job) if job.state == JobState.QUEUED else None

    @extend_schema_field(TaskShape(many=True))
    def get_tasks(self, job: Job) -> list[dict]:
        """Sort here, so that a list of jobs needs one prefetch."""
        newest = [task for task in job.tasks.all() if task.attempt == job.attempt]
        return list(TaskShape(job.in_order(newest), many=True).data)

    @extend_schema_field(Links)
    def get_links(self, job: Job) -> dict[str, str]:
        return {
            "self": full_url("api-job", job_id=job.public_id),
            "html": full_url("job", job_id=job.public_id),
        }


class JobDetailShape(JobShape):
    """waits_for_elements: the first elements that are open of the arrays that it waits for."""

    waits_for_elements = serializers.SerializerMethodField()

    def get_waits_for_elements(self, job: Job) -> list[str]:
        return list_open_elements(job.waits_for)


def show_role(role: dict) -> dict[str, Any]:
    request = role["request"]
    return {
        "name": role["role"],
        "least": role["min"],
        "most": role["max"],
        "gpu": request["gpu"],
        "cpu": amount(request["cpu_milli"], show_cpu),
        "memory": amount(request["memory_mib"], show_memory),
        "ends_job": role.get("ends_job", ""),
    }


class EventShape(serializers.Serializer):
    """A line in the history of a job or its tasks. kind: job or task; a task's params have role and rank.

    verb: "state" with from_state and to_state, or the action (submitted, held, stop_requested, ...).
    """

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    verb = serializers.CharField()
    from_state = serializers.SerializerMethodField()
    to_state = serializers.SerializerMethodField()
    reason = serializers.CharField(allow_blank=True)
    reason_text = serializers.SerializerMethodField()
    actor = serializers.CharField()
    params = serializers.DictField()

    def get_from_state(self, event: Event) -> str:
        return event.from_state.lower()

    def get_to_state(self, event: Event) -> str:
        return event.to_state.lower()

    def get_reason_text(self, event: Event) -> str:
        return describe_end(event.reason)


def show_start(told: StoredForecast | None) -> dict[str, Any] | None:
    if told is None:
        return None
    times = {name: moment(getattr(told, name)) for name in ("p10", "p50", "p90", "told_at")}
    return {**times, "text": describe_start(told)}


def show_length(told: PredictedLength | None, own: bool) -> dict[str, Any] | None:
    """own: for the job's owner."""
    if told is None:
        return None
    latest_s = told.latest_s if isfinite(told.latest_s) else None
    numbers = {"expected_s": told.expected_s, "latest_s": latest_s, "basis": told.basis, "past": told.count}
    return {**numbers, "text": describe_length(told, own)}


def show_wait(job: Job) -> dict[str, Any]:
    reasons = job.wait_reasons or [{"code": UNEXPLAINED, "params": {}}]
    return {
        "pool": job.told_pool_name,
        "places": [{"pool": p["name"], "position": p["position"], "of": p["of"]} for p in job.wait_places],
        "position": job.wait_position,
        "of": job.wait_of,
        "reasons": show_reasons(reasons),
        "as_of": moment(job.explained_at),
    }
