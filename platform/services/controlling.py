"""The controller's round: see each service, decide, and carry it out in a transaction of its own."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from common.errors import PlatformError, describe_as_json
from common.locks import database_now
from events.record_and_publish import SYSTEM, publish_row, record
from jobs.control import end_jobs
from jobs.models import JobKind, Task
from jobs.probing.http_status import get_status, is_listening
from jobs.states import JobState, TaskState
from jobs.submit import Check, submit_job
from jobs.task_access import get_access
from services.canaries.trials import begin_trial, end_trial, go_back, see_trial, tell_owner
from services.cold_starts import record_cold_start
from services.decide import Plan, ReplicaSeen, ServiceSeen, count_crash, decide
from services.in_flight import Loads, read_loads
from services.job_spec import build_replica_spec
from services.models import Replica, Revision, Service

log = logging.getLogger("tessera.services")

REFUSED_AGAIN = timedelta(seconds=30)
"""When a replica that was refused, such as by a limit, is submitted again."""


def control_services(check: Check, containers: bool) -> bool:
    """Bring each service closer to what it needs. Returns whether some replicas run and do not answer yet."""
    waiting = mark_ready_replicas()
    loads = read_loads()
    for pk in list_awake(loads):
        try:
            control_service(pk, loads, check, containers)
        except PlatformError as error:  # such as a job that ended meanwhile; the next round sees it
            log.warning("svc-%s waits for the next round: %s", pk, error)
    return waiting


def list_awake(loads: Loads | None) -> list[int]:
    """Return the services that have something to do: those that sleep cost nothing."""
    called = [pk for pk, requests in (loads.services if loads else {}).items() if requests]
    awake = Q(woken_at__isnull=False) | Q(busy_at__isnull=False) | Q(rollout__isnull=False) | Q(pk__in=called)
    return list(
        Service.objects.live().filter(awake | Q(replicas__isnull=False)).distinct().values_list("pk", flat=True)
    )


@transaction.atomic
def control_service(pk: int, loads: Loads | None, check: Check, containers: bool) -> Plan | None:
    """Decide about a service and carry it out; None where another process is at it."""
    locked = Service.objects.live().filter(pk=pk).select_for_update(skip_locked=True, no_key=True, of=("self",))
    service = locked.select_related("user", "team", "current", "rollout").first()
    if service is None:
        return None
    replicas = list(service.replicas.select_related("job", "revision"))
    now = database_now()
    for replica in replicas:
        if replica.job.is_final:
            _settle(service, replica, now)
    kept = [one for one in replicas if not one.job.is_final]
    plan = decide(see_service(service, kept, loads, now), now)
    scaled, canary = find_scaled(service), service.canary
    _carry_out(service, kept, plan, now)
    for preemptible in plan.start:
        if not _start(service, scaled, preemptible, check, containers, now):
            break
    if plan.start_canary and canary is not None:
        _start(service, canary, True, check, containers, now)
    return plan


def find_scaled(service: Service) -> Revision:
    """Return the revision that has as many replicas as the requests need."""
    canary, current = service.canary, service.current
    return current if canary is not None and current is not None else service.newest


def see_service(service: Service, replicas: Sequence[Replica], loads: Loads | None, now: datetime) -> ServiceSeen:
    """Return what is decided by. replicas: those whose jobs have not ended."""
    scaled, tasks = find_scaled(service), find_running_tasks(replicas)
    passed = loads.replicas if loads else {}
    return ServiceSeen(
        serving=service.scale(scaled.serving),
        current=service.current_id or scaled.pk,
        rollout=service.rollout_id,
        stopped=service.stopped_at is not None,
        woken_at=service.woken_at,
        busy_at=service.busy_at,
        low_since=service.low_since,
        in_flight=None if loads is None else loads.services.get(service.pk, 0),
        replicas=tuple(
            ReplicaSeen(
                pk=one.pk,
                revision=one.revision_id,
                ready=one.ready_task is not None and tasks.get(one.job_id) == one.ready_task,
                in_flight=passed.get(one.pk, 0),
                draining_at=one.draining_at,
            )
            for one in replicas
        ),
        retry_at=scaled.retry_at,
        failed=scaled.failed_at is not None,
        trial=see_trial(service, now),
    )


def find_running_tasks(replicas: Iterable[Replica]) -> dict[int, UUID]:
    """Return the running tasks of the newest attempts, by job."""
    jobs = [one.job_id for one in replicas]
    running = Task.objects.filter(job__in=jobs, state=TaskState.RUNNING, attempt=F("job__attempt"))
    return dict(running.values_list("job_id", "uuid"))


def mark_ready_replicas() -> bool:
    """Mark the replicas that answer. Returns whether some that run do not yet."""
    tasks = list(_list_unready_tasks())
    if not tasks:
        return False
    answers = async_to_sync(_ask_all)(tasks)
    for task, ready in zip(tasks, answers, strict=True):
        if ready:
            replica = task.job.replica
            Replica.objects.filter(pk=replica.pk).update(ready_task=task.uuid, ready_at=Now())
            record_cold_start(replica, task, database_now())
            publish_row(replica.service)
    return not all(answers)


def _list_unready_tasks() -> QuerySet[Task]:
    of_service = {"job__kind": JobKind.SERVICE, "job__replica__service__deleted_at": None}
    waits = Q(job__replica__ready_task=None) | ~Q(uuid=F("job__replica__ready_task"))
    running = Task.objects.filter(waits, state=TaskState.RUNNING, attempt=F("job__attempt"), **of_service)
    return running.select_related("job__replica__revision", "job__replica__service")


async def _ask_all(tasks: Sequence[Task]) -> list[bool]:
    return await asyncio.gather(*(_is_ready(task) for task in tasks))


async def _is_ready(task: Task) -> bool:
    serving = task.job.replica.revision.serving
    port = task.ports.get(str(serving.port))
    if port is None:
        return False
    if not serving.ready:
        return await is_listening(get_access(), task, port)
    return await get_status(get_access(), task, port, serving.ready) == 200


def _settle(service: Service, replica: Replica, now: datetime) -> None:
    """Forget a replica whose job has ended, and count it if it ended by itself."""
    job, revision = replica.job, replica.revision
    replica.delete()
    publish_row(service)
    if job.state == JobState.CANCELLED or replica.draining_at is not None:
        return
    crashes, wait = count_crash(revision.crashes, replica.count_ready_s(now))
    why = {"code": "crashed", "job": job.public_id, "reason": job.reason, "exit_code": job.exit_code}
    retry_at, failed_at = (now + wait, None) if wait is not None else (None, now)
    Revision.objects.filter(pk=revision.pk).update(crashes=crashes, retry_at=retry_at, failed_at=failed_at, why=why)
    if failed_at is not None and revision.failed_at is None:
        _give_up(service, revision, why)
    _read_revisions_again(service)


def _give_up(service: Service, revision: Revision, why: dict) -> None:
    """Let a service whose newest revision has failed go on with the good one, if there is one."""
    record(service, "failed", actor=SYSTEM, params={"revision": revision.number, "job": why["job"]})
    tell_owner(service, revision, why)
    if service.rollout_id == revision.pk:
        Service.objects.filter(pk=service.pk).update(rollout=None)
        service.rollout = None


def _read_revisions_again(service: Service) -> None:
    for revision in (service.current, service.rollout):
        if revision is not None:
            revision.refresh_from_db()


def _carry_out(service: Service, replicas: Sequence[Replica], plan: Plan, now: datetime) -> None:
    if plan.begin_trial:
        begin_trial(service, now)
    if plan.end_trial:
        end_trial(service)
    if plan.back is not None:
        go_back(service, replicas, plan.back, now)
    if plan.promote:
        record(service, "promoted", actor=SYSTEM, params={"revision": service.newest.number})
        Service.objects.filter(pk=service.pk).update(current=service.newest, rollout=None)
        service.current, service.rollout = service.newest, None
    remembered = {"busy_at": plan.busy_at, "low_since": plan.low_since}
    if not plan.awake:
        remembered["woken_at"] = None
    if any(getattr(service, name) != value for name, value in remembered.items()):
        Service.objects.filter(pk=service.pk).update(**remembered)
    if plan.drain:
        Replica.objects.filter(pk__in=plan.drain).update(draining_at=now)
        publish_row(service)
    if ended := [one.job for one in replicas if one.pk in plan.end]:
        end_jobs(by=SYSTEM, jobs=ended, reason="not_needed")


def _start(
    service: Service, revision: Revision, preemptible: bool, check: Check, containers: bool, now: datetime
) -> bool:
    """Submit one replica of a revision; False if that is refused, which is tried again in a while."""
    spec = build_replica_spec(service, revision, preemptible=preemptible)
    try:
        with transaction.atomic():
            job = submit_job(user=service.user, spec=spec, check=check, containers=containers, kind=JobKind.SERVICE)
            Replica.objects.create(service=service, revision=revision, job=job)
    except PlatformError as error:
        why = describe_as_json(error)
        Revision.objects.filter(pk=revision.pk).update(retry_at=now + REFUSED_AGAIN, why=why)
        return False
    publish_row(service)
    return True
