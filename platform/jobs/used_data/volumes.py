"""The volumes that a job names in `data`: its team must have them, and they are kept while it has yet to end."""

import re
from collections.abc import Mapping

from django.db import transaction
from django.db.models import TextField
from django.db.models.functions import Cast

from accounts.models import Team, User
from common.errors import Conflict, FieldError, InvalidInput
from common.locks import lock_rows
from common.text import join_some
from files.models import Volume
from files.volumes import delete_volume, load_volumes
from jobs.jobfile.shapes import pointer_of
from jobs.jobfile.spec import from_json, list_data
from jobs.models import Job
from jobs.states import JOB_FINAL


def name_volume(text: str) -> str:
    """Return the name of the volume that a source of `data` is in, "" for another source."""
    kind, _, path = text.partition(":")
    return re.split("[/:]", path)[0] if kind == "volume" else ""


def check_volumes(team: Team, data: Mapping[str, str], pointer: str) -> dict[str, str]:
    """Return `data`, all of whose volumes the team has. pointer: where the file has it. Raises InvalidInput."""
    named = {target: name for target, text in data.items() if (name := name_volume(text))}
    known = load_volumes([team.pk])[team.pk] if named else {}
    code = "unknown_volume" if known else "unknown_volume.none"
    if errors := [
        FieldError(pointer + pointer_of([target]), code, {"name": name, "known": ", ".join(sorted(known))})
        for target, name in named.items()
        if name not in known
    ]:
        raise InvalidInput(errors)
    return dict(data)


def list_volume_users(volume: Volume) -> list[Job]:
    """Return the jobs that name a volume and have yet to end, oldest first."""
    written = Job.objects.exclude(state__in=JOB_FINAL).annotate(written=Cast("spec", TextField()))
    rows = written.filter(written__contains=f"volume:{volume.name}").order_by("pk")
    if volume.team_id is not None:
        rows = rows.filter(team=volume.team_id)
    return [job for job in rows if volume.name in map(name_volume, list_data(from_json(job.spec)).values())]


@transaction.atomic
def delete_unused_volume(*, actor: User, volume: Volume) -> None:
    """Forget a volume that no open job names. Raises NotPermitted, Conflict (volume_in_use)."""
    lock_rows(Volume.objects.filter(pk=volume.pk))
    if jobs := list_volume_users(volume):
        raise Conflict("volume_in_use", name=volume.name, jobs=join_some([job.public_id for job in jobs]))
    delete_volume(actor=actor, volume=volume)
