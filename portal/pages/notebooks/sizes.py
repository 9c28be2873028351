"""Notebook sizes, and whether each could start now."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from accounts.models import User
from accounts.permissions import teams_where
from common.resources import parse_gpu
from jobs.jobfile.spec import JobSpec
from jobs.reason_messages import describe_wait
from notebooks.presets import Preset, list_presets
from portal.wording.resources import describe_gpu
from scheduler.preview.preview import StartPreview, preview_starts

SIZES = ("0", "1/8", "1/4", "1/2", "1", "2")
"""What the picker offers, the smallest first. Any other is typed."""


@dataclass(frozen=True)
class Size:
    gpu: str
    promise: StartPreview

    @property
    def words(self) -> str:
        return describe_gpu(parse_gpu(self.gpu))

    @property
    def availability(self) -> str:
        """Say whether it starts now, waits, or cannot be had."""
        if self.promise.starts:
            return _("starts now")
        return _("waiting") if self.promise.possible else _("not available here")

    @property
    def why(self) -> str:
        """Say why it would wait, or ""."""
        return describe_wait(self.promise.reasons[0]) if self.promise.reasons else ""

    @property
    def tone(self) -> str:
        return "work" if self.promise.starts else "wait" if self.promise.possible else "stale"


def sizes_for(user: User, gpus: Sequence[str] = SIZES, team: str = "", pool: str | None = None) -> list[Size]:
    """Return sizes with start previews; `team` defaults to the user's first."""
    team = team or next((team.name for team in teams_where(user, "job.submit")), "")
    specs = [
        JobSpec(
            run="jupyter lab", name="notebook", kind="interactive", team=team or None, pool=pool, gpu=parse_gpu(gpu)
        )
        for gpu in gpus
    ]
    return [Size(gpu, promise) for gpu, promise in zip(gpus, preview_starts(user, specs), strict=True)]


def offered_presets(user: User) -> list[tuple[Preset, Size]]:
    """Return presets that could ever start."""
    presets = list_presets(user)
    sizes = sizes_for(user, [preset.gpu for preset in presets], presets[0].team) if presets else []
    return [(preset, size) for preset, size in zip(presets, sizes, strict=True) if size.promise.possible]
