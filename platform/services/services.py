"""Create, change, scale, wake, put to sleep, stop and delete services, and go back to an earlier revision.

Lock the service, then the person's limit, then the job.
"""

import re
from dataclasses import replace

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from accounts.models import User
from accounts.permissions import require
from common.errors import Conflict, FieldError, InvalidInput, NameTaken, NotFound, StaleState
from common.locks import lock_rows
from common.text import shorten_text
from events.record_and_publish import hint, record
from jobs.control import end_jobs
from jobs.idempotency import find_answer, keep_answer
from jobs.jobfile.description import REPLICAS
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.serving import span_text
from jobs.jobfile.spec import JobSpec, to_json
from jobs.models import Job, JobKind
from jobs.submit import Check, choose_pool, pin_digest
from services.models import Revision, Service

SERVICE_ID = re.compile(r"svc-([1-9][0-9]{0,17})")
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
LOOP = "serve"
"""The loop that is hinted (scheduler.tasks.serve)."""


def find_service(user: User, service_id: str) -> Service:
    """Return a service ("svc-7") that the user may see. Raises NotFound."""
    named = SERVICE_ID.fullmatch(service_id)
    found = Service.objects.visible_to(user).with_names().filter(pk=int(named[1])).first() if named else None
    if found is None:
        raise NotFound(kind="service", id=shorten_text(service_id))
    return found


def create_service(
    *, user: User, job_file: str, check: Check, containers: bool, key: str = "", body: bytes = b""
) -> Service:
    """Create a service by its file, unless a replica could never run, and start its first replica to try it.

    check, containers: see jobs.submit. key, body: see jobs.idempotency.
    Raises InvalidInput, Impossible, NameTaken, NotPermitted.
    """
    if (done := find_answer(user=user, key=key, body=body)) is not None:
        return find_again(done)
    made, spec = _read_file(Service(user=user), job_file, check, containers)
    try:
        with transaction.atomic():
            made.save(force_insert=True)
            _add_revision(made, job_file, spec, user)
            Service.objects.filter(pk=made.pk).update(current=made.revisions.get(), woken_at=Now())
            record(made, "created", actor=user.as_actor, params={"name": made.name})
            keep_answer(user=user, key=key, body=body, made=made)
            hint(LOOP)
    except IntegrityError:
        if (done := find_answer(user=user, key=key, body=body)) is None:  # else sent twice at once
            raise NameTaken(name=made.name) from None
        return find_again(done)
    return find_again(made.pk)


def revise_service(*, actor: User, service: Service, job_file: str, check: Check, containers: bool) -> Service:
    """Roll out a new file. It answers once a replica of it is ready; until then, and if none ever is, the old one does.

    Only its owner may: its replicas act for the owner. Raises InvalidInput, Impossible, NotPermitted.
    """
    require(actor, "service.change", service.team, service.user_id)
    wanted, spec = _read_file(find_again(service.pk), job_file, check, containers)
    if (wanted.team_id, wanted.name) != (service.team_id, service.name):
        raise InvalidInput([FieldError("/job_file/name", "service_keeps_name", {"name": service.name})])
    with transaction.atomic():
        row = _lock(service.pk)
        if row.newest.job_file != job_file:
            Service.objects.filter(pk=row.pk).update(least=None, most=None)
            _roll_out(row, _add_revision(row, job_file, spec, actor), actor, "revised")
    return find_again(service.pk)


@transaction.atomic
def roll_back(*, actor: User, service: Service, number: int | None = None) -> Service:
    """Roll out an earlier revision once more, which is not tried as a canary.

    number: which; None: the one that answers while another is rolled out, else the last before it that did not fail.

    Raises InvalidInput, NotPermitted.
    """
    require(actor, "service.change", service.team, service.user_id)
    row = _lock(service.pk)
    revision = row.revisions.filter(number=number).first() if number else _find_earlier(row)
    if revision is None:
        known = ", ".join(map(str, row.revisions.values_list("number", flat=True)[:20]))
        raise InvalidInput([FieldError("/revision", "no_such_revision", {"known": known})])
    if revision.pk == row.current_id:  # what is rolled out now is given up
        Service.objects.filter(pk=row.pk).update(rollout=None, woken_at=Now())
        record(row, "rolled_back", actor=actor.as_actor, params={"revision": revision.number})
        hint(LOOP)
    else:
        _roll_out(row, revision, actor, "rolled_back", canary=False)
    return find_again(row.pk)


@transaction.atomic
def promote_canary(*, actor: User, service: Service) -> Service:
    """Let a canary take over before the end of its time, once it has the replicas that are needed.

    Raises Conflict where there is none, NotPermitted.
    """
    require(actor, "service.change", service.team, service.user_id)
    row = _lock(service.pk)
    if row.canary is None:
        raise Conflict("no_canary", name=row.name)
    Service.objects.filter(pk=row.pk).update(canary_passed=True, woken_at=Now())
    record(row, "promoted_early", actor=actor.as_actor, params={"revision": row.canary.number})
    hint(LOOP)
    return find_again(row.pk)


@transaction.atomic
def scale_service(*, actor: User, service: Service, replicas: str | None) -> Service:
    """Set how many replicas there may be, as a job file says it (2, 0..4), until a new file is rolled out.

    replicas: None = as its file says. Raises InvalidInput, NotPermitted.
    """
    require(actor, "service.change", service.team, service.user_id)
    least, most = (None, None) if replicas is None else _read_replicas(replicas)
    row = _lock(service.pk)
    if (row.least, row.most) != (least, most):
        Service.objects.filter(pk=row.pk).update(least=least, most=most)
        said = span_text(*row.newest.serving.replicas if least is None or most is None else (least, most))
        record(row, "scaled", actor=actor.as_actor, params={"replicas": said})
        hint(LOOP)
    return find_again(row.pk)


@transaction.atomic
def wake_service(*, actor: User, service: Service) -> Service:
    """Start a replica as if a request came, also of a service that is stopped or failing."""
    require(actor, "service.wake", service.team, service.user_id)
    row = _lock(service.pk)
    Service.objects.filter(pk=row.pk).update(woken_at=Now(), stopped_at=None)
    Revision.objects.filter(pk=row.newest.pk).update(crashes=0, failed_at=None, retry_at=None, why=None)
    record(row, "woken", actor=actor.as_actor)
    hint(LOOP)
    return find_again(row.pk)


@transaction.atomic
def put_to_sleep(*, actor: User, service: Service) -> Service:
    """End its replicas once they have answered, down to the least that its file asks for. A request wakes it."""
    require(actor, "service.stop", service.team, service.user_id)
    row = _lock(service.pk)
    Service.objects.filter(pk=row.pk).update(woken_at=None, busy_at=None)
    record(row, "slept", actor=actor.as_actor)
    hint(LOOP)
    return find_again(row.pk)


@transaction.atomic
def stop_service(*, actor: User, service: Service) -> Service:
    """End its replicas once they have answered, and refuse requests until somebody wakes it."""
    require(actor, "service.stop", service.team, service.user_id)
    row = _lock(service.pk)
    if row.stopped_at is None:
        Service.objects.filter(pk=row.pk).update(stopped_at=Now(), woken_at=None, busy_at=None)
        record(row, "stopped", actor=actor.as_actor)
        hint(LOOP)
    return find_again(row.pk)


@transaction.atomic
def delete_service(*, actor: User, service: Service) -> None:
    """Delete a service with its keys, and stop its replicas at once. Their jobs and logs stay."""
    require(actor, "service.stop", service.team, service.user_id)
    row = _lock(service.pk)
    Service.objects.filter(pk=row.pk).update(deleted_at=Now())
    record(row, "deleted", actor=actor.as_actor, params={"name": row.name})
    end_jobs(by=actor.as_actor, jobs=list(Job.objects.open().filter(replica__service=row)), reason="stopped_by_user")
    row.keys.all().delete()


def find_again(pk: int) -> Service:
    """Raises StaleState where it was deleted."""
    found = Service.objects.live().with_names().filter(pk=pk).first()
    if found is None:
        raise StaleState(kind="service", was="deleted")
    return found


def _lock(pk: int) -> Service:
    """Lock a service, before any limit or job. Raises StaleState where it was deleted."""
    rows = lock_rows(Service.objects.live().filter(pk=pk))
    if not rows:
        raise StaleState(kind="service", was="deleted")
    return rows[0]


def _add_revision(service: Service, job_file: str, spec: JobSpec, by: User) -> Revision:
    last = service.revisions.values_list("number", flat=True).first() or 0
    made = {"job_file": job_file, "spec": to_json(spec), "created_by": by.username}
    return Revision.objects.create(service=service, number=last + 1, **made)


def _read_replicas(text: str) -> tuple[int, int]:
    least, most = REPLICAS.read(int(text) if text.isdecimal() else text, "/replicas")
    if most == 0:
        raise InvalidInput([FieldError("/replicas", "no_replicas")])
    return least, most


def _find_earlier(row: Service) -> Revision | None:
    if row.rollout is not None:
        return row.current
    return row.revisions.filter(number__lt=row.newest.number, failed_at=None).first()


def _roll_out(row: Service, revision: Revision, actor: User, verb: str, *, canary: bool = True) -> None:
    """Let a revision take the current one's place, and try it even if nobody calls the service now.

    canary: on a share of the requests first, if its file says so.
    """
    rolled = {"rollout": revision, "canary_since": None, "canary_passed": not canary}
    Service.objects.filter(pk=row.pk).update(woken_at=Now(), **rolled)
    Revision.objects.filter(pk=revision.pk).update(crashes=0, failed_at=None, retry_at=None, why=None)
    record(row, verb, actor=actor.as_actor, params={"revision": revision.number})
    hint(LOOP)


def _read_file(row: Service, job_file: str, check: Check, containers: bool) -> tuple[Service, JobSpec]:
    """Set team and name of a row that is not stored, and return the spec with pinned images.

    Raises InvalidInput with the errors of the file, Impossible and what a submit raises.
    """
    try:
        spec = parse_spec(load_jobfile(job_file.encode("utf-8", "surrogatepass")))
        if spec.kind != JobKind.SERVICE or spec.serve is None:
            raise InvalidInput([FieldError("/kind", "not_a_service")])
        if not NAME.fullmatch(spec.name):
            raise InvalidInput([FieldError("/name", "bad_service_name", {"got": shorten_text(spec.name)})])
        draft = choose_pool(user=row.user, spec=_as_replica(spec), check=check, containers=containers)
    except InvalidInput as error:
        raise InvalidInput([replace(one, pointer=f"/job_file{one.pointer}") for one in error.errors]) from None
    row.team, row.name = draft.team, spec.name
    pinned = pin_digest(draft).spec
    return row, replace(spec, team=draft.team.name, image=pinned.image, code=pinned.code)


def _as_replica(spec: JobSpec) -> JobSpec:
    return replace(spec, serve=None)
