"""What admins and auditors list: people, teams, who uses machines and images, the audit log."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Prefetch, Q, QuerySet

from accounts.models import Membership, Team, User
from cluster.models import Node
from events.models import Event
from images.models import Image
from jobs.models import Job, Task, may_be_stopped
from jobs.states import JOB_ACTIVE
from portal.access.redacted_rows import expected_end
from quotas.models import Holding
from runtimes.images.names import read_image

AUDITED = (
    "user",
    "team",
    "quota",
    "user_limit",
    "pool",
    "window",
    "node",
    "agent",
    "enrolment",
    "image",
    "volume",
    "login",
    "announcement",
    "idle_rule",
    "alert_rule",
    "alert",
    "silence",
    "price",
    "secret",
    "webhook",
)
"""Kinds of objects whose changes are settings; the rest is people's work."""


def filter_people(words: str = "", team: str = "", suspended: bool | None = None) -> QuerySet[User]:
    """Return people with their memberships, by part of a name or address, team, and whether they are suspended."""
    people = User.objects.prefetch_related(
        Prefetch("memberships", Membership.objects.select_related("team").order_by("team__name"))
    )
    if words:
        people = people.filter(Q(username__icontains=words) | Q(full_name__icontains=words) | Q(email__icontains=words))
    if team:
        people = people.filter(pk__in=Membership.objects.filter(team__name=team).values("user"))
    if suspended is not None:
        people = people.filter(suspended_at__isnull=not suspended)
    return people


def count_running(people: list[User]) -> dict[int, int]:
    """Return {person: how many of their jobs and notebooks run}; nothing for those with none."""
    running = Job.objects.filter(user__in=people, state__in=sorted(JOB_ACTIVE)).order_by()
    return dict(running.values_list("user").annotate(count=Count("pk")))


def list_teams() -> QuerySet[Team]:
    """Return teams with `people`, how many are in each."""
    return Team.objects.select_related("parent").annotate(people=Count("memberships"))


@dataclass(frozen=True)
class JobThere:
    """A job that holds something on some machines. gpu_milli: there. stops: a drain stops it and queues it again.

    ends_at: when it should end by itself; None if that is not known.
    """

    job: Job
    machines: list[str]
    gpu_milli: int
    stops: bool
    ends_at: datetime | None


def list_jobs_on(nodes: list[Node]) -> list[JobThere]:
    """Return the jobs that hold something on machines: those that a drain stops first, then by their end."""
    held: dict[int, list[tuple[str, int]]] = defaultdict(list)
    live = Holding.objects.live().filter(node__in=nodes).order_by("node__name")
    rows = list(live.values_list("task", "node__name", "gpu_milli"))
    job_of = dict(Task.objects.filter(uuid__in={task for task, *_ in rows}).values_list("uuid", "job"))
    for task, node, gpu_milli in rows:
        held[job_of[task]].append((node, gpu_milli))
    found = [_job_there(job, held[job.pk]) for job in Job.objects.with_names().filter(pk__in=held)]
    return sorted(found, key=lambda one: (not one.stops, one.ends_at is None, one.ends_at or one.job.pk, one.job.pk))


def _job_there(job: Job, held: list[tuple[str, int]]) -> JobThere:
    machines, gpu_milli = list(dict.fromkeys(node for node, _ in held)), sum(milli for _, milli in held)
    return JobThere(job, machines, gpu_milli, may_be_stopped(job), expected_end(job))


def list_image_users(images: list[Image]) -> dict[int, dict[str, int]]:
    """Return {image: {its name in jobs: how many wait or run with it}}, whatever digest they have."""
    named = Job.objects.open().order_by().filter(spec__image__isnull=False).exclude(spec__image=None)
    counts = {text: count for text, count in named.values_list("spec__image").annotate(Count("pk")) if text}
    keys = {image.pk: _image_keys(image.reference) for image in images}
    return {
        pk: {text: count for text, count in counts.items() if wanted & _image_keys(text)} for pk, wanted in keys.items()
    }


def _image_keys(text: str) -> set[str]:
    """Return the name by tag and by digest, as far as it has them."""
    image = read_image(text)
    tagged = {image.at("")} if image.tag else set()
    return tagged | ({f"{image.registry}/{image.repository}@{image.digest}"} if image.digest else set())


def filter_audit(
    actor: str = "",
    kind: str = "",
    words: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    work: bool = False,
) -> QuerySet[Event]:
    """Return what people did, newest first. words: part of an object's name. work: their jobs and notebooks, too."""
    rows = Event.objects.filter(actor_id__isnull=False).order_by("-id")
    if kind:
        rows = rows.filter(kind=kind)
    elif not work:
        rows = rows.filter(kind__in=AUDITED)
    if actor:
        rows = rows.filter(actor=actor)
    if words:
        rows = rows.filter(label__icontains=words)
    if since:
        rows = rows.filter(at__gte=since)
    if until:
        rows = rows.filter(at__lt=until)
    return rows
