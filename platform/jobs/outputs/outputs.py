"""What a job leaves as versions of datasets and models (`outputs` in the job file), once it has succeeded.

Its tasks write into a folder of the owner's home that belongs to the attempt. The success notes what is to become a
version in its own transaction, and a task of the worker begins each of them once; the folder goes when it is taken.
"""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction

from accounts.models import Team, User
from accounts.permissions import may
from common.errors import Conflict, FieldError, InvalidInput, NotFound, PlatformError, Unavailable, describe_as_json
from datasets.models import DatasetOutput, DatasetVersion, VersionState
from datasets.naming import DatasetName, is_environment_name, read_dataset_name
from datasets.services import add_version
from files.file_areas import HOME, find_file_area
from jobs.jobfile.shapes import pointer_of
from jobs.models import Job
from runtimes.contract.task import Mount
from runtimes.storage.areas import AreaId

log = logging.getLogger("tessera.jobs")

FOLDER = ".tessera-outputs"
AT_ONCE = 50
"""Versions that one call begins; the next one goes on."""


def check_outputs(user: User, team: Team, outputs: Mapping[str, str]) -> None:
    """Refuse outputs of whoever may add no dataset to the team. Raises InvalidInput."""
    if outputs and not may(user, "dataset.add", team):
        where = [pointer_of(["outputs", target]) for target in outputs]
        raise InvalidInput([FieldError(each, "outputs_not_permitted", {"team": team.name}) for each in where])


def build_output_mounts(job: Job, outputs: Mapping[str, str], attempt: int) -> list[Mount]:
    """Return the folders into which an attempt writes what it leaves, but that of an environment."""
    return [
        _build_mount(job, name, target, attempt) for target, name in outputs.items() if not is_environment_name(name)
    ]


def build_environment_output(job: Job, outputs: Mapping[str, str], attempt: int) -> Mount | None:
    """Return the folder in which an attempt makes the environment that it leaves, None if it leaves none."""
    made = (_build_mount(job, name, target, attempt) for target, name in outputs.items() if is_environment_name(name))
    return next(made, None)


def note_outputs(jobs: Iterable[Job]) -> None:
    """Note what is to become of what these jobs left, in the transaction in which they succeed."""
    rows = [
        DatasetOutput(job=job.pk, attempt=job.attempt, name=name)
        for job in jobs
        for name in (job.spec.get("outputs") or {}).values()
    ]
    if rows:
        DatasetOutput.objects.bulk_create(rows)


def take_outputs() -> int:
    """Begin the versions that are noted, each once, and remove the folders of those that are ready; return how many."""
    waiting = DatasetOutput.objects.filter(version=None, error__isnull=True).order_by("pk")
    begun = sum(_begin(pk) for pk in waiting.values_list("pk", flat=True)[:AT_ONCE])
    ready = DatasetOutput.objects.filter(version__state=VersionState.READY, removed=False)
    for row in ready[:AT_ONCE]:
        _remove_folder(row)
    return begun


def load_outputs(job: Job) -> Sequence[DatasetOutput]:
    """Return what became of what a job left, the newest last: an attempt that succeeded may be retried."""
    return list(DatasetOutput.objects.filter(job=job.pk).select_related("version__dataset__team").order_by("pk"))


def _build_mount(job: Job, name: str, target: str, attempt: int) -> Mount:
    return Mount(AreaId("home", job.user.uid), _place(job.pk, attempt, name), target, read_only=False)


@transaction.atomic
def _begin(pk: int) -> bool:
    waiting = DatasetOutput.objects.filter(pk=pk, version=None, error__isnull=True)
    row = waiting.select_for_update(skip_locked=True).first()
    if row is None:  # another worker has it
        return False
    job = Job.objects.with_names().get(pk=row.job)
    name = read_dataset_name(row.name)
    assert name is not None
    try:
        row.version = _add(job, name, _place(job.pk, row.attempt, row.name))
    except Unavailable as failed:
        log.warning("the output %s of %s waits: %s", row.name, job.public_id, failed)
        return False
    except PlatformError as refused:
        row.error = describe_as_json(refused)
    row.save()
    return row.version is not None


def _add(job: Job, name: DatasetName, path: str) -> DatasetVersion:
    """Begin the next version from the folder. Raises PlatformError."""
    try:
        is_empty = not find_file_area(job.user, HOME).store.list_folder(path).entries
    except NotFound:
        is_empty = True
    if is_empty:
        raise Conflict("output_is_empty", name=name.name)
    base = (job.spec.get("image") or "") if is_environment_name(str(name)) else ""
    said = {"kind": name.kind, "note": job.public_id, "base": base}
    return add_version(actor=job.user, team=job.team, name=name.name, place=HOME, path=path, **said)


def _remove_folder(row: DatasetOutput) -> None:
    """Remove the folder of an output, and with the last of them that of the attempt."""
    job = Job.objects.with_names().get(pk=row.job)
    others = DatasetOutput.objects.filter(job=row.job, attempt=row.attempt, removed=False).exclude(pk=row.pk)
    is_last = not others.exists()
    place = _place(job.pk, row.attempt, row.name)
    try:
        find_file_area(job.user, HOME).store.remove(os.path.dirname(place) if is_last else place)
    except NotFound:
        pass
    except PlatformError as failed:  # the next call tries again
        log.warning("the folder of the output %s of %s stays: %s", row.name, job.public_id, failed)
        return
    DatasetOutput.objects.filter(pk=row.pk).update(removed=True)


def _place(job: int, attempt: int, name: str) -> str:
    return f"{FOLDER}/job-{job}.{attempt}/{name.replace(':', '-')}"
