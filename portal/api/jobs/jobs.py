"""API of jobs."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from django.db.models import Prefetch, Q, prefetch_related_objects
from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import NotFound, PlatformError
from events.models import Event
from jobs.arrays.models import read_array_id
from jobs.arrays.services import submit_array
from jobs.changing import change_job, label_job, merge_labels
from jobs.control import MOST_WHY, hold_job, release_job, retry_job, retry_jobs, settle_job, stop_job, stop_jobs
from jobs.finding.filters import JobFilter, filter_jobs
from jobs.jobfile.array_values import MOST_ELEMENTS
from jobs.jobfile.load import load_jobfile, load_json
from jobs.jobfile.parse import parse_spec
from jobs.models import Job, JobKind, JobQuerySet, Task, read_job_id
from jobs.running_slices import resize_job
from jobs.states import JobState
from jobs.submit import submit_job
from portal.api.http.bodies import JSON, MAX_JSON, MAX_YAML, YAML, media_type, read_body, read_json
from portal.api.http.headers import KEY, read_key
from portal.api.http.lists import (
    FieldsQuery,
    PageQuery,
    SortField,
    StatesField,
    all_of,
    list_of,
    page,
    read_moment,
    read_name,
    read_small_number,
)
from portal.api.http.problems import problem
from portal.api.jobs.array_shapes import ArrayDetailShape, show_array
from portal.api.jobs.shapes import (
    EventShape,
    JobDetailShape,
    JobShape,
    TaskShape,
    WaitAnswer,
    show_length,
    show_start,
    show_wait,
)
from portal.api.schema import JOB_CHANGE, JOB_FILE, Problem
from portal.api.view import ApiView, read_query
from portal.chains.deciding_link import find_deciding_link
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers, runtime_resizes
from scheduler.preview.stored_forecasts import load_forecasts, load_told_lengths

MAX_BULK = 200
SUBMITTED = PolymorphicProxySerializer("JobOrArray", [JobDetailShape, ArrayDetailShape], resource_type_field_name=None)
BODY = dict.fromkeys((JSON, *YAML), JOB_FILE)
SORTS = {"submitted_at": read_moment, "priority": read_small_number, "name": read_name}
TASKS = Prefetch("tasks", Task.objects.select_related("job", "node"))


def visible_jobs(request: Request) -> JobQuerySet:
    return Job.objects.visible_to(request.user).with_names().prefetch_related(TASKS)


def answer_new_job(job: Job) -> Response:
    """Answer with a job that was just submitted, and its address in Location."""
    prefetch_related_objects([job], "tasks")  # none has a node yet
    shown = JobDetailShape(job).data
    return Response(shown, status=201, headers={"Location": shown["links"]["self"]})


def find_job(request: Request, job_id: str) -> Job:
    """Return a job. Raises NotFound also for other teams'."""
    job = visible_jobs(request).filter(pk=int(job_id.removeprefix("job-"))).first()
    if job is None:
        raise NotFound(kind="job", id=job_id)
    return job


class JobsQuery(PageQuery):
    """state: one or more, with commas. user (or owner): a name, or "me". q: part of the name, an id, owner, team or
    label. label: "name" or "name:value". kind: left out, all but interactive. since, until: when it was submitted.
    array: its elements, index: that one of them; left out, jobs that are no elements.
    """

    state = StatesField(JobState)
    team = serializers.CharField(max_length=64, required=False)
    pool = serializers.CharField(max_length=64, required=False)
    owner = serializers.CharField(max_length=64, required=False)
    user = serializers.CharField(max_length=64, required=False)
    kind = serializers.ChoiceField(choices=JobKind.choices, required=False)
    label = serializers.CharField(max_length=200, required=False)  # type: ignore[assignment]
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)
    array = serializers.CharField(max_length=40, required=False)
    index = serializers.IntegerField(min_value=0, max_value=MOST_ELEMENTS, required=False)
    sort = SortField(SORTS)
    q = serializers.CharField(max_length=100, required=False)


class JobList(ApiView):
    scopes = {"GET": ("jobs:read",), "POST": ("jobs:write",)}
    operations = {"GET": "list_jobs", "POST": "submit_job"}
    refusals = {"POST": ("409", "422", "507")}
    rates = {"POST": ("submits",)}

    @extend_schema(parameters=[JobsQuery], responses=list_of(JobShape, "JobPage"))
    def get(self, request: Request) -> Response:
        """List the jobs of one's teams, newest first."""
        query = read_query(request, JobsQuery)
        jobs = filter_jobs(visible_jobs(request), read_filter(query, request))
        return page(jobs, query, JobShape)

    @extend_schema(
        parameters=[KEY],
        request=BODY,
        responses={201: OpenApiResponse(SUBMITTED, "The job or the array, and its address in Location.")},
    )
    def post(self, request: Request) -> Response:
        """Submit a job file, as JSON or YAML. It is refused only if it could never run. A file with `array` or
        `search` is answered with the array, whose id begins with arr-.
        """
        kind = media_type(request, JSON, *YAML)
        body = read_body(request, MAX_JSON if kind == JSON else MAX_YAML)
        spec = parse_spec(load_json(body) if kind == JSON else load_jobfile(body))
        can = {"check": check_possible, "containers": runtime_has_containers()}
        once = {"key": read_key(request), "body": body}
        if spec.elements is not None:
            shown = show_array(submit_array(user=request.user, spec=spec, **can, **once))
            return Response(shown, status=201, headers={"Location": shown["links"]["self"]})
        return answer_new_job(submit_job(user=request.user, spec=spec, **can, **once))


class JobDetail(ApiView):
    scopes = {"GET": ("jobs:read",), "PATCH": ("jobs:write",)}
    operations = {"GET": "get_job", "PATCH": "change_job"}
    refusals = {"PATCH": ("409", "422")}
    rates = {"PATCH": ("submits",)}

    @extend_schema(responses=JobDetailShape)
    def get(self, request: Request, job_id: str) -> Response:
        """Show a job with the tasks of its newest attempt."""
        return Response(JobDetailShape(find_job(request, job_id)).data)

    @extend_schema(request={JSON: JOB_CHANGE}, responses=JobDetailShape)
    def patch(self, request: Request, job_id: str) -> Response:
        """Change what a waiting job of one's own asks for: these keys of its file. It keeps its place in the queue, and
        is left as it is if the changed job could never run. A lead of its team changes its priority alone, too, and so
        consents to it.

        labels: of any job, also an ended one, by its owner, a lead or an admin. Names that are left out stay; null
        removes one.
        """
        media_type(request, JSON)
        job, changes = find_job(request, job_id), load_json(read_body(request, MAX_JSON))
        others = {key: value for key, value in changes.items() if key != "labels"}
        if "labels" in changes:
            merge_labels(job.labels, changes["labels"])  # so that nothing is written if they are refused
        if others or not changes:
            can = {"check": check_possible, "containers": runtime_has_containers()}
            change_job(actor=request.user, job=job, changes=others, **can)
        if "labels" in changes:
            label_job(actor=request.user, job=job, changes=changes["labels"])
        return Response(JobDetailShape(find_job(request, job_id)).data)


class JobAction(ApiView):
    """Base of actions on one job; all but retry are idempotent."""

    scopes = {"POST": ("jobs:write",)}
    refusals = {"POST": ("409",)}
    service: Callable[..., Job]

    @extend_schema(request=None, responses=JobDetailShape)
    def post(self, request: Request, job_id: str) -> Response:
        job = find_job(request, job_id)
        type(self).service(actor=request.user, job=job)
        return Response(JobDetailShape(find_job(request, job_id)).data)


class JobStop(JobAction):
    """Cancels a waiting job; a running one gets SIGTERM, later SIGKILL."""

    operations = {"POST": "stop_job"}
    service = staticmethod(stop_job)


class JobRetry(JobAction):
    operations = {"POST": "retry_job"}
    service = staticmethod(retry_job)


class JobHold(JobAction):
    """A held job keeps its place."""

    operations = {"POST": "hold_job"}
    service = staticmethod(hold_job)


class JobRelease(JobAction):
    operations = {"POST": "release_job"}
    service = staticmethod(release_job)


class ResizeAsk(serializers.Serializer):
    """gpu: a slice, as in a job file: 1/2, 12GB. task: such as worker.1; left out, all that run."""

    gpu = serializers.CharField(max_length=40)
    task = serializers.CharField(max_length=80, required=False, allow_blank=True)


class JobResize(ApiView):
    scopes = {"POST": ("jobs:write",)}
    operations = {"POST": "resize_job"}
    refusals = {"POST": ("409",)}

    @extend_schema(request={JSON: ResizeAsk}, responses=JobDetailShape)
    def post(self, request: Request, job_id: str) -> Response:
        """Resize the slices of a running job: up where the card has room, down to what is in use. Each task's
        `resize` shows the result within moments.
        """
        job, asked = find_job(request, job_id), read_json(request, ResizeAsk)
        resize_job(actor=request.user, job=job, able=runtime_resizes(), **asked)
        return Response(JobDetailShape(find_job(request, job_id)).data)


class SettleAsk(serializers.Serializer):
    """why: kept in the job's history. task: such as worker.1; left out, all that are lost."""

    why = serializers.CharField(max_length=MOST_WHY)
    task = serializers.CharField(max_length=80, required=False, allow_blank=True)


class JobSettle(ApiView):
    scopes = {"POST": ("cluster:write",)}
    operations = {"POST": "settle_job"}
    refusals = {"POST": ("409",)}

    @extend_schema(request={JSON: SettleAsk}, responses=JobDetailShape)
    def post(self, request: Request, job_id: str) -> Response:
        """End lost tasks that their machine does not know any more. They end as soon as the machine has found nothing
        of them, or has ended what it found. For admins.
        """
        job, asked = find_job(request, job_id), read_json(request, SettleAsk)
        settle_job(actor=request.user, job=job, **asked)
        return Response(JobDetailShape(find_job(request, job_id)).data)


class BulkAsk(serializers.Serializer):
    """ids: such as job-412; duplicates count once."""

    ids = serializers.ListField(child=serializers.CharField(max_length=40), min_length=1, max_length=MAX_BULK)


class BulkResult(serializers.Serializer):
    """state: the job's, afterwards. error: why it was refused, alone."""

    id = serializers.CharField()
    ok = serializers.BooleanField()
    state = serializers.CharField(allow_null=True)
    error = Problem(allow_null=True)


class BulkResults(serializers.Serializer):
    results = BulkResult(many=True)


class JobsAction(ApiView):
    """Base of actions on many jobs. One job's refusal is not the request's."""

    scopes = {"POST": ("jobs:write",)}

    @extend_schema(request={JSON: BulkAsk}, responses=BulkResults)
    def post(self, request: Request) -> Response:
        ids = dict.fromkeys(read_json(request, BulkAsk)["ids"])
        jobs = _find_many(request, ids)
        done = self.act(request, [*jobs.values()])
        answers = {job_id: done[job.pk] for job_id, job in jobs.items()}
        results = [
            _show_result(job_id, answers.get(job_id) or NotFound(kind="job", id=job_id), request) for job_id in ids
        ]
        return Response({"results": results})

    @abstractmethod
    def act(self, request: Request, jobs: Sequence[Job]) -> Mapping[int, Job | PlatformError]:
        """Return by id each job as it is then, or why it was refused."""


class JobsStop(JobsAction):
    """All in one transaction, with as many statements for a hundred as for one."""

    operations = {"POST": "stop_jobs"}

    def act(self, request: Request, jobs: Sequence[Job]) -> Mapping[int, Job | PlatformError]:
        return stop_jobs(actor=request.user, jobs=jobs)


class JobsRetry(JobsAction):
    """Each in its own transaction: whether a person may have one more job depends on those before."""

    operations = {"POST": "retry_jobs"}

    def act(self, request: Request, jobs: Sequence[Job]) -> Mapping[int, Job | PlatformError]:
        return retry_jobs(actor=request.user, jobs=jobs)


class JobWait(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "get_wait"}

    @extend_schema(responses=WaitAnswer)
    def get(self, request: Request, job_id: str) -> Response:
        """Show its queue position, why it waits, when it will start and how long it will run.

        A job that does not wait has no reasons.
        """
        job = find_job(request, job_id)
        length = show_length(load_told_lengths([job]).get(job.pk), own=job.user_id == request.user.pk)
        if job.state != JobState.QUEUED:
            nowhere = dict.fromkeys(("position", "of", "as_of", "start", "decided_by")) | {"reasons": [], "places": []}
            return Response(show_wait(job) | nowhere | {"length": length})
        start = show_start(load_forecasts([job]).get(job.pk))
        link = find_deciding_link(request.user, job)
        decided_by = {"job": link.job.public_id, "text": link.words} if link else None
        return Response({**show_wait(job), "start": start, "length": length, "decided_by": decided_by})


class JobTasks(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "list_tasks"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(TaskShape, "TaskList"))
    def get(self, request: Request, job_id: str) -> Response:
        """List the tasks of all attempts, newest attempt first."""
        query, tasks = read_query(request, FieldsQuery), find_job(request, job_id).tasks.select_related("job", "node")
        return all_of(tasks.order_by("-attempt", "role", "rank"), TaskShape, **query)


class JobEventsQuery(PageQuery):
    sort = SortField(default="id")


class JobEvents(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "list_events"}

    @extend_schema(parameters=[JobEventsQuery], responses=list_of(EventShape, "EventPage"))
    def get(self, request: Request, job_id: str) -> Response:
        """List the history of a job and its tasks, oldest first."""
        query, job = read_query(request, JobEventsQuery), find_job(request, job_id)
        of_tasks = Q(kind=Task.KIND, object_id__in=job.tasks.values("pk"))
        events = Event.objects.filter(Q(kind=Job.KIND, object_id=job.pk) | of_tasks)
        return page(events, query, EventShape)


def read_filter(query: dict, request: Request) -> JobFilter:
    owner = query.get("user") or query.get("owner", "")
    return JobFilter(
        states=tuple(query.get("state", ())),
        owner=request.user.username if owner == "me" else owner,
        team=query.get("team", ""),
        pool=query.get("pool", ""),
        label=query.get("label", ""),
        kind=query.get("kind", ""),
        since=query.get("since"),
        until=query.get("until"),
        text=query.get("q", ""),
        array=read_array_id(query["array"]) or 0 if "array" in query else None,  # 0 finds nothing
        index=query.get("index"),
    )


def _find_many(request: Request, ids: Iterable[str]) -> dict[str, Job]:
    """Return those of the jobs that the person sees."""
    keys = {job_id: number for job_id in ids if (number := read_job_id(job_id))}
    found = Job.objects.visible_to(request.user).with_names().in_bulk(keys.values())
    return {job_id: found[pk] for job_id, pk in keys.items() if pk in found}


def _show_result(job_id: str, answer: Job | PlatformError, request: Request) -> dict:
    if isinstance(answer, Job):
        return {"id": job_id, "ok": True, "state": answer.state.lower(), "error": None}
    return {"id": job_id, "ok": False, "state": None, "error": problem(answer, request)}
