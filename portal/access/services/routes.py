"""Where the requests of a service go: ready replicas of the revision that answers, a share of them to a canary."""

from dataclasses import dataclass

from django.db.models import F

from common.errors import NotFound, PlatformError, Unavailable
from jobs.jobfile.serving import Hold
from jobs.models import Task
from jobs.states import TaskState
from services.models import Revision, Service


@dataclass(frozen=True)
class ReplicaAddress:
    """A port in a task. replica, revision: their ids. authorization: the program gets none."""

    replica: int
    revision: int
    task: str
    port: int
    authorization: str = ""


@dataclass(frozen=True)
class Route:
    """refusal: why no request is passed on or held, if none is.

    canaries: replicas that get a share of the requests, 0 to 1, while they have fewer than canary_target.
    """

    name: str
    hold: Hold
    replicas: tuple[ReplicaAddress, ...]
    canaries: tuple[ReplicaAddress, ...] = ()
    share: float = 0.0
    canary_target: int = 0
    refusal: PlatformError | None = None


def load_route(service_id: int) -> Route:
    """Return the route of a service. Raises NotFound where it was deleted."""
    service = Service.objects.live().select_related("team", "current", "rollout").filter(pk=service_id).first()
    if service is None or service.current is None:
        raise NotFound(kind="service", id=f"svc-{service_id}")
    name, serving = f"{service.team.name}/{service.name}", service.current.serving
    replicas = _list_replicas(service.current)
    refusal = None
    if service.stopped_at is not None:
        refusal = Unavailable("service_stopped", name=name)
    elif service.current.failed_at is not None and not replicas:
        refusal = Unavailable("service_failing", name=name)
    if refusal is not None:
        return Route(name, serving.hold, (), refusal=refusal)
    canary = service.canary
    if canary is None or canary.serving.canary is None:
        return Route(name, serving.hold, replicas)
    share, target = canary.serving.canary.share / 100, canary.serving.target
    return Route(name, serving.hold, replicas, _list_replicas(canary), share, target)


def _list_replicas(revision: Revision) -> tuple[ReplicaAddress, ...]:
    """Return the replicas of a revision that answer."""
    answers = {"uuid": F("job__replica__ready_task"), "state": TaskState.RUNNING, "attempt": F("job__attempt")}
    of_revision = {"job__replica__revision": revision, "job__replica__draining_at": None}
    tasks = Task.objects.filter(**answers, **of_revision).select_related("job__replica").order_by("pk")
    port = revision.serving.port
    return tuple(
        ReplicaAddress(task.job.replica.pk, revision.pk, task.uuid.hex, int(task.ports.get(str(port), port)))
        for task in tasks
    )
