"""A service as pages and the API show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.conf import settings

from common.steady_clock import steady_now
from jobs.jobfile.serving import span_text
from jobs.states import JobState, TaskState
from portal.services.canary_view import CanaryView, view_canary
from portal.services.wait_words import Wait, describe_waking
from services.in_flight import Loads, read_loads
from services.models import Replica, Service
from services.states import ServiceState, derive_state


@dataclass(frozen=True)
class ReplicaView:
    """job: its id. state: of the job. gpu: what it asks for. node: where it runs, if it does."""

    job: str
    revision: int
    state: str
    label: str
    ready: bool
    draining: bool
    gpu: str
    node: str | None
    in_flight: int | None


class ServiceView:
    """loads: what gateways say, if it was read already."""

    def __init__(self, service: Service, loads: Loads | None = None):
        self.service = service
        self._loads = loads

    @cached_property
    def loads(self) -> Loads | None:
        return self._loads or read_loads()

    @cached_property
    def rows(self) -> Sequence[Replica]:
        found = self.service.replicas.select_related("job", "revision").prefetch_related("job__tasks__node")
        return [one for one in found if not one.job.is_final]

    @cached_property
    def replicas(self) -> list[ReplicaView]:
        return [self._view(one) for one in self.rows]

    @property
    def ready(self) -> int:
        """How many take requests."""
        current = self.service.current.number if self.service.current else 0
        return sum(one.ready and not one.draining and one.revision == current for one in self.replicas)

    @cached_property
    def state(self) -> ServiceState:
        current = self.service.current
        return derive_state(
            stopped=self.service.stopped_at is not None,
            failed=current is not None and current.failed_at is not None,
            rollout=self.service.rollout_id is not None,
            ready=self.ready,
            replicas=sum(not one.draining for one in self.replicas),
        )

    @cached_property
    def wait(self) -> Wait | None:
        waits = self.state in (ServiceState.WAKING, ServiceState.UPDATING)
        return describe_waking(self.service) if waits else None

    @property
    def wait_words(self) -> str:
        return self.wait.words if self.wait else ""

    @property
    def in_flight(self) -> int | None:
        return None if self.loads is None else self.loads.services.get(self.service.pk, 0)

    @cached_property
    def canary(self) -> CanaryView | None:
        return view_canary(self.service, steady_now()) if self.service.canary else None

    @property
    def scale(self) -> str:
        """How many replicas there may be, as a job file says it."""
        return span_text(*self.service.serving.replicas)

    @property
    def address(self) -> str:
        """Where programs call it."""
        return f"{settings.TESSERA_PUBLIC_URL}/-/{self.service.team.name}/{self.service.name}"

    def _view(self, one: Replica) -> ReplicaView:
        tasks = [task for task in one.job.tasks.all() if task.attempt == one.job.attempt]
        running = [task for task in tasks if task.state == TaskState.RUNNING]
        return ReplicaView(
            job=one.job.public_id,
            revision=one.revision.number,
            state=one.job.state,
            label=JobState(one.job.state).label,
            ready=bool(running) and one.ready_task == running[0].uuid,
            draining=one.draining_at is not None,
            gpu=one.job.request["gpu"],
            node=next((task.node.name for task in tasks if task.node), None),
            in_flight=None if self.loads is None else self.loads.replicas.get(one.pk, 0),
        )
