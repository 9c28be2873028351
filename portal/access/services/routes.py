"""Where the requests of a service go: the ready replicas of the revision that answers."""

from dataclasses import dataclass

from django.db.models import F

from common.errors import NotFound, PlatformError, Unavailable
from jobs.jobfile.serving import Hold
from jobs.models import Task
from jobs.states import TaskState
from services.models import Service


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
    """refusal: why no request is passed on or held, if none is."""

    name: str
    hold: Hold
    replicas: tuple[ReplicaAddress, ...]
    refusal: PlatformError | None = None


def load_route(service_id: int) -> Route:
    """Return the route of a service. Raises NotFound where it was deleted."""
    service = Service.objects.live().select_related("team", "current").filter(pk=service_id).first()
    if service is None or service.current is None:
        raise NotFound(kind="service", id=f"svc-{service_id}")
    name, serving = f"{service.team.name}/{service.name}", service.current.serving
    replicas = tuple(
        ReplicaAddress(
            task.job.replica.pk,
            task.job.replica.revision_id,
            task.uuid.hex,
            int(task.ports.get(str(serving.port), serving.port)),
        )
        for task in _list_ready_tasks(service)
    )
    refusal = None
    if service.stopped_at is not None:
        refusal = Unavailable("service_stopped", name=name)
    elif service.current.failed_at is not None and not replicas:
        refusal = Unavailable("service_failing", name=name)
    return Route(name, serving.hold, replicas if refusal is None else (), refusal)


def _list_ready_tasks(service: Service) -> list[Task]:
    answers = {"uuid": F("job__replica__ready_task"), "state": TaskState.RUNNING, "attempt": F("job__attempt")}
    of_revision = {"job__replica__revision": service.current, "job__replica__draining_at": None}
    return list(Task.objects.filter(**answers, **of_revision).select_related("job__replica").order_by("pk"))
