"""Submit, stop and retry arrays, and find them."""

from dataclasses import replace

from django.db import transaction

from accounts.models import User
from accounts.permissions import require
from common.disk import check_disk
from common.errors import Conflict, KeyReused, NotFound
from common.locks import database_now
from common.text import shorten_text
from events.record_and_publish import hint, record
from jobs.arrays.making import lock_array, make_element, store_counts
from jobs.arrays.models import USUAL_AT_ONCE, JobArray, read_array_id
from jobs.control import end_jobs
from jobs.idempotency import find_answer, keep_answer
from jobs.job_tokens.tokens import check_scopes
from jobs.jobfile.spec import JobSpec, to_json
from jobs.models import Job
from jobs.submit import Check, choose_pool, pin_digest


def find_array(user: User, array_id: str) -> JobArray:
    """Return an array ("arr-9") that the user may see. Raises NotFound."""
    number = read_array_id(array_id)
    found = JobArray.objects.visible_to(user).with_names().filter(pk=number).first() if number else None
    if found is None:
        raise NotFound(kind="array", id=shorten_text(array_id))
    return found


def submit_array(
    *, user: User, spec: JobSpec, check: Check, containers: bool, key: str = "", body: bytes = b""
) -> JobArray:
    """Store an array with its first element, unless that could never run or is refused. The others follow.

    Arguments and refusals are those of jobs.submit.submit_job.
    """
    if (done := find_answer(user=user, key=key, body=body)) is not None:
        return _find_again(done)
    check_disk()
    check_scopes(user, spec.token)
    assert spec.elements is not None
    alone = replace(spec, array=None, search=None)
    draft = pin_digest(choose_pool(user=user, spec=alone, check=check, containers=containers))
    named = replace(draft.spec, pool=spec.pool, array=spec.array, search=spec.search)
    try:
        with transaction.atomic():
            array = JobArray.objects.create(
                name=spec.name,
                team=draft.team,
                user=user,
                made_by=user.acting_token if spec.token else None,
                spec=to_json(named),
                total=spec.elements.count,
                at_once=spec.elements.at_once or USUAL_AT_ONCE,
            )
            record(array, "submitted", actor=user.as_actor, params={"total": array.total}, new=True)
            make_element(array, check, containers)
            store_counts(array)
            keep_answer(user=user, key=key, body=body, made=array)
            hint("make_elements")
    except KeyReused:  # the same request arrived twice at once
        if (done := find_answer(user=user, key=key, body=body)) is None:
            raise
        return _find_again(done)
    return _find_again(array.pk)


@transaction.atomic
def stop_array(*, actor: User, array: JobArray) -> JobArray:
    """Request a stop of all open elements, and make no more. Does nothing to an array that has ended."""
    require(actor, "job.stop", array.team, array.user_id)
    array = lock_array(array.pk)
    if array.has_ended:
        return array
    array.stop_requested_at, array.stop_requested_by = database_now(), actor.username
    array.retry_asked_at = array.try_at = array.why = None
    record(array, "stop_requested", actor=actor.as_actor)
    end_jobs(by=actor.as_actor, jobs=list(Job.objects.open().filter(array=array.pk)), reason="stopped_by_user")
    store_counts(array)
    hint("make_elements")
    return array


@transaction.atomic
def retry_array(*, actor: User, array: JobArray, only_failed: bool = True) -> JobArray:
    """Queue elements again as there is room: those that failed, else all that did not succeed, also what a stop kept
    from being made. An array that was halted goes on. Raises Conflict where nothing is left.
    """
    require(actor, "job.retry", array.team, array.user_id)
    array = lock_array(array.pk)
    left = array.total - array.made
    unmade = left if not only_failed or array.halted_at is not None else 0
    store_counts(array)
    if not array.failed + unmade + (0 if only_failed else array.cancelled):
        raise Conflict("array_nothing_to_retry", array=array.public_id)
    if not only_failed:
        array.stop_requested_at, array.stop_requested_by = None, ""
    array.retry_asked_at, array.retry_by, array.retry_all = database_now(), actor, not only_failed
    array.ended_at = array.halted_at = array.try_at = array.why = None
    array.save()
    record(array, "retry_asked", actor=actor.as_actor, params={"only_failed": only_failed})
    hint("make_elements")
    return _find_again(array.pk)


def _find_again(pk: int) -> JobArray:
    return JobArray.objects.with_names().get(pk=pk)
