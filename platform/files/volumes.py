"""Volumes: storage that the site has already, named by an administrator for jobs of a team or of all."""

from collections.abc import Collection
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models import Q

from accounts.models import User
from accounts.permissions import require
from common.errors import FieldError, InvalidInput, NameTaken, NotFound
from common.locks import lock_rows
from common.text import shorten_text
from events.record_and_publish import record, record_change
from files.models import Volume
from runtimes.storage.areas import CLAIM

CLOSED = ("/", "/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/usr", "/var/lib")
"""Folders of the system, which no job is given, nor one that they lie in."""


def filter_visible_volumes(user: User) -> models.QuerySet[Volume]:
    return Volume.objects.visible_to(user).select_related("team").distinct()


def find_volume(user: User, pk: int) -> Volume:
    """Raises NotFound."""
    found = filter_visible_volumes(user).filter(pk=pk).first()
    if found is None:
        raise NotFound(kind="volume", id=pk)
    return found


def load_volumes(team_ids: Collection[int]) -> dict[int, dict[str, Volume]]:
    """Return what each team's jobs may name, by name; its own before everybody's of the same name."""
    if not team_ids:
        return {}
    rows = Volume.objects.filter(Q(team=None) | Q(team__in=team_ids))
    shared = {row.name: row for row in rows if row.team_id is None}
    return {team: shared | {row.name: row for row in rows if row.team_id == team} for team in team_ids}


@transaction.atomic
def save_volume(*, actor: User, volume: Volume) -> Volume:
    """Save a volume whose fields were checked. Jobs that were accepted have it as it is when they start.

    Raises NotPermitted, InvalidInput, NameTaken.
    """
    require(actor, "volume.change")
    check_source(volume.source)
    before = next(iter(lock_rows(Volume.objects.filter(pk=volume.pk))), None)
    try:
        with transaction.atomic():
            volume.save()
    except IntegrityError:
        raise NameTaken(name=volume.name) from None
    record_change(volume, before, Volume.FIELDS, "changed" if before else "made", actor=actor.as_actor)
    return volume


@transaction.atomic
def delete_volume(*, actor: User, volume: Volume) -> None:
    """Forget a volume, whoever names it: jobs ask `jobs.used_data` first. Its files stay. Raises NotPermitted."""
    require(actor, "volume.change")
    record(volume, "deleted", actor=actor.as_actor, params={"source": volume.source})
    volume.delete()


def check_source(source: str) -> None:
    """Raise InvalidInput for what cannot be one, or would give jobs what is the system's or the platform's own."""
    if settings.IN_CONTAINERS:
        if not CLAIM.fullmatch(source):
            raise InvalidInput([FieldError("/source", "bad_volume_claim", {"got": shorten_text(source)})])
        return
    path = PurePosixPath(source)
    if not path.is_absolute() or ".." in path.parts or "\0" in source:
        raise InvalidInput([FieldError("/source", "bad_volume_folder", {"got": shorten_text(source)})])
    own = (settings.TESSERA_DATA, settings.TESSERA_FILES, settings.TESSERA_CODE)
    for closed in (*map(PurePosixPath, CLOSED), *(PurePosixPath(Path(one).absolute()) for one in own)):
        if closed.is_relative_to(path) or (closed != PurePosixPath("/") and path.is_relative_to(closed)):
            raise InvalidInput([FieldError("/source", "closed_volume_folder", {"folder": str(closed)})])
