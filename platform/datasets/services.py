"""Find, add, change and delete datasets and their versions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Now

from accounts.models import Team, User
from accounts.permissions import may, require
from common.disk import check_disk
from common.errors import Conflict, FieldError, InvalidInput, NameTaken, NotFound
from common.locks import lock_rows
from common.text import shorten_text
from datasets.models import (
    PREFIX,
    Dataset,
    DatasetKind,
    DatasetQuerySet,
    DatasetStage,
    DatasetVersion,
    Share,
    VersionState,
)
from datasets.naming import MOST_NAME, NAME
from datasets.stages import change_stages, list_stages
from events.record_and_publish import record
from events.transitions import Move, advance
from files.file_areas import find_file_area
from runtimes.dataset_store.layout import StoreLayout
from runtimes.dataset_store.manifest import Difference, compare_manifests, read_manifest
from runtimes.storage.areas import AreaId
from runtimes.storage.file_store import FileStore, check_path


def find_store() -> StoreLayout:
    """Return where versions lie: beside people's files, whose blocks they may share."""
    return StoreLayout(settings.TESSERA_FILES)


def list_datasets(user: User, kind: str = "") -> DatasetQuerySet:
    """Return the datasets that the user may read and that have a version, by name. kind: "" for all."""
    shown = DatasetVersion.objects.exclude(state=VersionState.DELETED).values("dataset")
    found = Dataset.objects.readable_by(user).with_names().filter(pk__in=shown)
    return found.filter(kind=kind) if kind else found


def find_dataset(user: User, public_id: str) -> Dataset:
    """Return a dataset that the user may read. Raises NotFound."""
    number = public_id.removeprefix(PREFIX)
    if number != public_id and number.isascii() and number.isdecimal() and len(number) < 19:
        found = Dataset.objects.readable_by(user).with_names().filter(pk=int(number)).first()
        if found is not None:
            return found
    raise NotFound(kind="dataset", id=public_id)


def find_version(dataset: Dataset, number: int) -> DatasetVersion:
    """Return a version, also a deleted one. Raises NotFound."""
    found = dataset.versions.select_related("user", "dataset__team", "dataset__user").filter(number=number).first()
    if found is None:
        raise NotFound(kind="dataset", id=f"{dataset.public_id}@v{number}")
    return found


def require_ready(version: DatasetVersion) -> DatasetVersion:
    """Return a version whose files may be read. Raises Conflict."""
    if version.state != VersionState.READY:
        raise Conflict("dataset_version_not_ready", version=version.number)
    return version


def open_files(user: User, version: DatasetVersion) -> FileStore:
    """Return access to a version's files with the user's rights. Raises Conflict unless it is ready."""
    require_ready(version)
    team = version.dataset.team
    return FileStore(find_store().root, AreaId("dataset", version.dataset.key), uid=user.uid, gid=team.gid)


def place_in_store(version: DatasetVersion, path: str) -> str:
    """Return where a path of a version is in `open_files`. Raises InvalidInput."""
    return f"{version.number}/{check_path(path)}".rstrip("/")


def compare_versions(before: DatasetVersion, after: DatasetVersion) -> Iterator[Difference]:
    """Yield what differs between two versions. Raises Conflict unless both are ready."""
    store = find_store()
    manifests = [store.manifest(row.dataset.key, row.number) for row in map(require_ready, (before, after))]
    return compare_manifests(*map(read_manifest, manifests))


def add_version(
    *,
    actor: User,
    team: Team,
    name: str,
    place: str,
    path: str,
    kind: str = DatasetKind.DATASET,
    share: str | None = None,
    description: str | None = None,
    note: str = "",
    base: str = "",
) -> DatasetVersion:
    """Begin the next version of a dataset, which is made if it is new, from a folder. It is taken by a process.

    base: the image of an environment.

    Raises InvalidInput, NotFound, NotPermitted, Conflict, NameTaken, DiskFull.
    """
    require(actor, "dataset.add", team)
    if not NAME.fullmatch(name):
        raise InvalidInput([FieldError("/name", "bad_dataset_name", {"got": shorten_text(name), "max": MOST_NAME})])
    if share == Share.TEAMS:
        raise InvalidInput([FieldError("/share", "share_needs_teams")])
    area = find_file_area(actor, place)
    if area.store.stat(check_path(path)).kind != "folder":
        raise Conflict("dataset_not_a_folder", path=path)
    check_disk()
    with transaction.atomic():
        dataset = _find_or_make(actor, team, name, kind, share, description)
        dataset.newest += 1
        dataset.save(update_fields=["newest"])
        version = DatasetVersion.objects.create(
            dataset=dataset, number=dataset.newest, user=actor, place=area.name, path=path, note=note, base=base
        )
        said = {"name": dataset.name, "version": version.number, "from": version.source}
        record(dataset, "version_added", actor=actor.as_actor, params=said)
    return version


def may_change(user: User, dataset: Dataset) -> bool:
    return may(user, "dataset.change", dataset.team, dataset.user_id)


@transaction.atomic
def change_dataset(
    *,
    actor: User,
    dataset: Dataset,
    share: str | None = None,
    teams: Iterable[str] | None = None,
    description: str | None = None,
    stages: Mapping[str, int | None] | None = None,
) -> Dataset:
    """Change who may read it, what is said of it, and its stages. teams: names, where it is shared with named ones.

    stages: the number of the version that each is at from now on; None removes it, and others stay. Jobs that were
    accepted keep what they name. Raises NotPermitted, InvalidInput.
    """
    require(actor, "dataset.change", dataset.team, dataset.user_id)
    (row,) = lock_rows(Dataset.objects.filter(pk=dataset.pk))
    before = _describe(row)
    if share is not None or teams is not None:
        row.share = share or row.share
        row.shared_with.set(_find_teams(row.share, before["teams"] if teams is None else teams))
    row.description = row.description if description is None else description
    row.save(update_fields=["share", "description"])
    if stages:
        change_stages(row, stages)
    after = _describe(row)
    if changed := [name for name in after if after[name] != before[name]]:
        said = {"name": row.name, "from": {n: before[n] for n in changed}, "to": {n: after[n] for n in changed}}
        record(row, "changed", actor=actor.as_actor, params=said)
    return Dataset.objects.with_names().get(pk=row.pk)


@transaction.atomic
def delete_version(*, actor: User, version: DatasetVersion) -> None:
    """Delete a version, whoever names it: jobs ask `jobs.used_data` first. Its files are kept for a week.

    Raises NotPermitted, Conflict.
    """
    require(actor, "dataset.change", version.dataset.team, version.dataset.user_id)
    lock_rows(DatasetVersion.objects.filter(pk=version.pk))
    version.refresh_from_db()
    require_ready(version)
    if stages := list(DatasetStage.objects.filter(version=version).values_list("name", flat=True)):
        raise Conflict("dataset_at_stage", version=version.number, stages=", ".join(stages))
    _move(version, VersionState.DELETED, actor, {"deleted_at": Now()})


@transaction.atomic
def restore_version(*, actor: User, version: DatasetVersion) -> None:
    """Take a deletion back while the files are there. Raises NotPermitted, Conflict."""
    require(actor, "dataset.change", version.dataset.team, version.dataset.user_id)
    lock_rows(DatasetVersion.objects.filter(pk=version.pk))
    version.refresh_from_db()
    if version.state != VersionState.DELETED or version.purged_at is not None:
        raise Conflict("dataset_version_not_deleted", version=version.number)
    _move(version, VersionState.READY, actor, {"deleted_at": None})


def sum_new_bytes(team: Team) -> int:
    """Return what the team's versions hold on disk."""
    rows = DatasetVersion.objects.on_disk().filter(dataset__team=team)
    return rows.aggregate(total=Sum("new_bytes"))["total"] or 0


def _find_or_make(actor: User, team: Team, name: str, kind: str, share: str | None, description: str | None) -> Dataset:
    """Return the dataset, locked. Raises NameTaken where somebody's private one has the name."""
    fresh = {"user": actor, "share": share or Share.TEAM, "description": description or ""}
    made = Dataset.objects.get_or_create(team=team, kind=kind, name=name, defaults=fresh)[1]
    (row,) = lock_rows(Dataset.objects.filter(team=team, kind=kind, name=name))
    if not made and row.share == Share.PRIVATE and row.user_id != actor.pk:
        raise NameTaken(name=name)
    return row


def _find_teams(share: str, names: Iterable[str]) -> list[Team]:
    wanted = sorted({name.lower() for name in names}) if share == Share.TEAMS else []
    if share == Share.TEAMS and not wanted:
        raise InvalidInput([FieldError("/teams", "share_needs_teams")])
    found = {team.name: team for team in Team.objects.filter(name__in=wanted)}
    if unknown := [name for name in wanted if name not in found]:
        raise InvalidInput([FieldError("/teams", "unknown_share_team", {"team": shorten_text(unknown[0])})])
    return list(found.values())


def _describe(dataset: Dataset) -> dict[str, Any]:
    return {
        "share": dataset.share,
        "description": dataset.description,
        "teams": sorted(dataset.shared_with.values_list("name", flat=True)),
        "stages": list_stages(dataset),
    }


def _move(version: DatasetVersion, to: str, actor: User, also: dict) -> None:
    said = {"name": version.dataset.name, "version": version.number}
    advance([Move(version, params=said, also=also)], to, actor=actor.as_actor)
