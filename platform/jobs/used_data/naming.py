"""The datasets that a job names in `data`: pinned to a version when it is submitted, kept from being deleted."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from django.db import transaction
from django.db.models import Q

from accounts.models import Team, User
from common.errors import Conflict, FieldError, InvalidInput
from common.locks import lock_rows
from common.text import join_some
from datasets.models import Dataset, DatasetUse, DatasetVersion, VersionState
from datasets.naming import ENVIRONMENT_KIND, DatasetName, read_dataset_name
from datasets.services import delete_version
from jobs.jobfile.shapes import pointer_of
from jobs.jobfile.spec import JobSpec, list_data
from jobs.models import Job
from jobs.states import JOB_FINAL


def list_names(data: Mapping[str, str]) -> dict[str, DatasetName]:
    """Return the datasets among what a job file says of its data, by the same keys."""
    names = {key: read_dataset_name(source) for key, source in data.items()}
    return {key: name for key, name in names.items() if name is not None}


def pin_data(user: User, team: Team, data: Mapping[str, str], pointer: str) -> dict[str, str]:
    """Return `data` with each dataset as team, name and version: that of the stage, or the newest, where none is named.

    pointer: where the file has it. Raises InvalidInput for what the user may not read as for what is not there.
    """
    names = list_names(data)
    chosen = choose_versions(user, team, {pointer + pointer_of([target]): name for target, name in names.items()})
    return {**data} | {target: str(DatasetName(*_identify(chosen[pointer + pointer_of([target])]))) for target in names}


def choose_versions(user: User, team: Team, names: Mapping[str, DatasetName]) -> dict[str, DatasetVersion]:
    """Return the version that each name means, the newest where it has no number, by where the file has it.

    Raises InvalidInput for what the user may not read as for what is not there.
    """
    chosen, errors = {}, []
    versions = _load_versions([_of_team(name, team) for name in names.values()], user)
    for pointer, name in names.items():
        found = versions.get(_key(_of_team(name, team)), [])
        version = _choose_version(name, found)
        if version is not None:
            chosen[pointer] = version
        else:
            errors.append(_refuse_unknown(pointer, name, found))
    if errors:
        raise InvalidInput(errors)
    return chosen


def record_uses(job: Job, spec: JobSpec) -> None:
    """Note which versions a job names, in the transaction that stores it; none of them is deleted meanwhile.

    Raises InvalidInput where one was just deleted.
    """
    names = list_names(list_data(spec))
    if not names:
        return
    wanted = DatasetVersion.objects.filter(_any_version(names.values()))
    locked = lock_rows(DatasetVersion.objects.filter(pk__in=[row.pk for row in wanted]), share=True)
    there = {row.pk for row in locked if row.state == VersionState.READY}
    ready = {_identify(row) for row in wanted.select_related("dataset__team") if row.pk in there}
    for pointer, name in names.items():
        if (*_key(name), name.number) not in ready:
            raise InvalidInput([_refuse_unknown(pointer, name)])
    DatasetUse.objects.bulk_create(DatasetUse(version_id=pk, job=job.pk) for pk in sorted(there))


def load_dataset_keys(texts: Collection[str]) -> dict[str, str]:
    """Return where each dataset lies that jobs were accepted with, by how their specs name it."""
    names = {text: name for text in texts if (name := read_dataset_name(text)) is not None}
    if not names:
        return {}
    rows = Dataset.objects.filter(_any_dataset(names.values())).select_related("team")
    keys = {(row.kind, row.team.name, row.name): row.key for row in rows}
    return {text: keys[_key(name)] for text, name in names.items() if _key(name) in keys}


def list_users(version: DatasetVersion) -> list[Job]:
    """Return the jobs that name a version, newest first."""
    numbers = DatasetUse.objects.filter(version=version).values("job")
    return list(Job.objects.with_names().filter(pk__in=numbers).order_by("-pk"))


@transaction.atomic
def delete_unused_version(*, actor: User, version: DatasetVersion) -> None:
    """Delete a version that no open job names. Raises NotPermitted, Conflict (dataset_in_use)."""
    lock_rows(DatasetVersion.objects.filter(pk=version.pk))
    if jobs := [job for job in list_users(version) if job.state not in JOB_FINAL]:
        raise Conflict("dataset_in_use", version=version.number, jobs=join_some([job.public_id for job in jobs]))
    delete_version(actor=actor, version=version)


def _choose_version(name: DatasetName, versions: Sequence[DatasetVersion]) -> DatasetVersion | None:
    """Return the version that is meant, of those of a dataset, newest first."""
    if name.stage:
        return next((one for one in versions if name.stage in _list_stages(one)), None)
    return next((one for one in versions if name.number in (None, one.number)), None)


def _refuse_unknown(pointer: str, name: DatasetName, versions: Sequence[DatasetVersion] = ()) -> FieldError:
    is_environment = name.kind == ENVIRONMENT_KIND
    said = {"name": name.in_kind if is_environment else str(name)}
    if not versions:
        return FieldError(pointer, "unknown_environment" if is_environment else "unknown_dataset", said)
    said["newest"] = f"v{versions[0].number}"
    if not name.stage:
        return FieldError(pointer, "unknown_dataset_version", said)
    known = ", ".join(sorted(stage for one in versions for stage in _list_stages(one)))
    code = "unknown_dataset_stage" if known else "unknown_dataset_stage.none"
    return FieldError(pointer, code, said | {"known": known})


def _list_stages(version: DatasetVersion) -> list[str]:
    return [stage.name for stage in version.stages.all()]


def _of_team(name: DatasetName, team: Team) -> DatasetName:
    return replace(name, team=name.team or team.name)


def _key(name: DatasetName) -> tuple[str, str, str]:
    return name.kind, name.team, name.name


def _identify(version: DatasetVersion) -> tuple[str, str, str, int]:
    return version.dataset.kind, version.dataset.team.name, version.dataset.name, version.number


def _load_versions(names: Iterable[DatasetName], user: User) -> dict[tuple[str, str, str], list[DatasetVersion]]:
    """Return the versions that are ready of datasets that the user may read, newest first."""
    names = list(names)
    if not names:
        return {}
    readable = Dataset.objects.readable_by(user).filter(_any_dataset(names)).values("pk")
    rows = DatasetVersion.objects.filter(dataset__in=readable, state=VersionState.READY).order_by("-number")
    found: dict[tuple[str, str, str], list[DatasetVersion]] = {}
    for row in rows.select_related("dataset__team").prefetch_related("stages"):
        found.setdefault(_identify(row)[:3], []).append(row)
    return found


def _any_dataset(names: Iterable[DatasetName], prefix: str = "") -> Q:
    found = Q(pk__in=[])
    for name in names:
        fields = {"kind": name.kind, "team__name": name.team, "name": name.name}
        found |= Q(**{f"{prefix}{field}": value for field, value in fields.items()})
    return found


def _any_version(names: Iterable[DatasetName]) -> Q:
    found = Q(pk__in=[])
    for name in names:
        found |= _any_dataset([name], "dataset__") & Q(number=name.number)
    return found
