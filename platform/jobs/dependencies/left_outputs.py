"""What the jobs that a job starts after have left (`outputs` in their files): where its tasks find it.

Each of them that leaves something is a folder beside the task's code, with its outputs as it wrote them, and a variable
that names the folder. These are the versions that were made of its outputs, so nobody changes or removes them.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Q

from accounts.models import User
from common.errors import FieldError, InvalidInput
from datasets.models import Dataset, DatasetOutput, DatasetUse, VersionState
from datasets.naming import is_environment_name
from jobs.dependencies.conditions import number_conditions
from jobs.models import Job
from runtimes.contract.task import Mount
from runtimes.storage.areas import AreaId

FOLDER = ".after"
"""Below the directory of a task's code."""
MAY_LEAVE = ("success", "any")


@dataclass(frozen=True)
class LeftOutputs:
    """What a job finds of those before it. variables: {name: folder below the code's top}."""

    variables: dict[str, str]
    mounts: tuple[Mount, ...]


NOTHING_LEFT = LeftOutputs({}, ())


def check_names(jobs: Iterable[Job], after: Mapping[str, str]) -> None:
    """Refuse two jobs that leave something and whose variables would be the same. Raises InvalidInput.

    after: resolved conditions.
    """
    seen: dict[str, Job] = {}
    for job in jobs:
        if after[job.public_id] in MAY_LEAVE and _list_targets(job):
            other = seen.setdefault(_name_part(job), job)
            if other != job:
                said = {"job": other.public_id, "other": job.public_id, "variable": _name_variable(job)}
                raise InvalidInput([FieldError("/after", "dependency_outputs_alike", said)])


def find_unkept(jobs: Collection[int]) -> set[int]:
    """Return those of the jobs that have succeeded whose outputs are still being made into versions."""
    leaving = _find_leaving(jobs)
    if not leaving:
        return set()
    unmade = Q(version=None) | Q(version__state=VersionState.TAKING)
    rows = DatasetOutput.objects.filter(unmade, job__in=leaving, error__isnull=True)
    return set(rows.values_list("job", flat=True))


def keep_left(job: Job) -> None:
    """Note that a job uses what those before it left, so that no version of it is deleted before it has ended."""
    if rows := _load_versions([job]):
        uses = [DatasetUse(version=row.version, job=job.pk) for row in rows]
        DatasetUse.objects.bulk_create(uses, ignore_conflicts=True)


def load_left(jobs: Iterable[Job]) -> dict[int, LeftOutputs]:
    """Return by job what it finds of those before it, of what its owner may read."""
    jobs = [job for job in jobs if job.spec.get("after")]
    rows = _load_versions(jobs)
    if not rows:
        return {}
    before = {job.pk: job for job in Job.objects.filter(pk__in={row.job for row in rows})}
    readable = {user.pk: _list_readable(user, rows) for user in {job.user for job in jobs}}
    return {job.pk: _build(job, before, [row for row in rows if _is_read(row, readable[job.user_id])]) for job in jobs}


def _build(job: Job, before: Mapping[int, Job], rows: Iterable[DatasetOutput]) -> LeftOutputs:
    conditions = number_conditions(job.spec.get("after") or {})
    variables: dict[str, str] = {}
    mounts: list[Mount] = []
    for row in rows:
        other = before.get(row.job)
        if other is None or conditions.get(row.job) not in MAY_LEAVE or row.attempt != other.attempt:
            continue
        assert row.version is not None
        folder = f"{FOLDER}/{_name_part(other).lower()}"
        variables[_name_variable(other)] = folder
        place = AreaId("dataset", row.version.dataset.key)
        mounts += [
            Mount(place, str(row.version.number), f"{folder}/{target}", read_only=True)
            for target, name in _list_targets(other).items()
            if name == row.name
        ]
    return LeftOutputs(variables, tuple(mounts))


def _load_versions(jobs: Iterable[Job]) -> list[DatasetOutput]:
    """Return what was made of the outputs of all jobs before these, and is still there."""
    named = {pk for job in jobs for pk in number_conditions(job.spec.get("after") or {})}
    leaving = _find_leaving(named) if named else []
    if not leaving:
        return []
    rows = DatasetOutput.objects.filter(job__in=leaving, version__state=VersionState.READY)
    return list(rows.select_related("version__dataset").order_by("pk"))


def _find_leaving(jobs: Collection[int]) -> list[int]:
    return [pk for pk, spec in Job.objects.filter(pk__in=jobs).values_list("pk", "spec") if spec.get("outputs")]


def _list_readable(user: User, rows: Iterable[DatasetOutput]) -> set[int]:
    datasets = {row.version.dataset_id for row in rows if row.version}
    return set(Dataset.objects.readable_by(user).filter(pk__in=datasets).values_list("pk", flat=True))


def _is_read(row: DatasetOutput, readable: Collection[int]) -> bool:
    return row.version is not None and row.version.dataset_id in readable


def _list_targets(job: Job) -> dict[str, str]:
    """Return the folders that a job leaves, {folder: name}; an environment stands where it was made alone."""
    outputs = job.spec.get("outputs") or {}
    return {target: name for target, name in outputs.items() if not is_environment_name(name)}


def _name_variable(job: Job) -> str:
    return f"AFTER_{_name_part(job)}_OUTPUTS"


def _name_part(job: Job) -> str:
    """Return a job's name as a part of a variable: "prepare data" is PREPARE_DATA. Without a letter or digit of ASCII
    it is the job's id.
    """
    return re.sub(r"[^A-Z0-9]+", "_", job.name.upper()).strip("_") or job.public_id.upper().replace("-", "_")
