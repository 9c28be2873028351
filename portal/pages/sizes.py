"""Sizes of a notebook and what each promises at this moment: it starts now, it waits and why, it can never run here."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from accounts.models import User
from accounts.permissions import teams_where
from common.resources import parse_gpu
from jobs.jobfile.spec import JobSpec
from jobs.words import wait_words
from notebooks.presets import Preset, presets_for
from portal.pages.job_view import gpu_words
from scheduler.preview import Promise, promise_starts

SIZES = ("0", "1/8", "1/4", "1/2", "1", "2")
"""What the picker offers, the smallest first. Any other is typed."""


@dataclass(frozen=True)
class Size:
    """One size for one person. gpu: in the job file's words."""

    gpu: str
    promise: Promise

    @property
    def words(self) -> str:
        return size_words(self.gpu)

    @property
    def note(self) -> str:
        if self.promise.starts:
            return _("starts now")
        return _("waits") if self.promise.possible else _("not here")

    @property
    def why(self) -> str:
        """Why it would wait, "" where it would not."""
        return wait_words(self.promise.reasons[0]) if self.promise.reasons else ""

    @property
    def tone(self) -> str:
        return "work" if self.promise.starts else "wait" if self.promise.possible else "stale"


def sizes_for(user: User, gpus: Sequence[str] = SIZES, team: str = "", pool: str | None = None) -> list[Size]:
    """team: "" = the first of the person's teams where they may submit."""
    team = team or next(iter(teams_of(user)), "")
    specs = [
        JobSpec(
            run="jupyter lab", name="notebook", kind="interactive", team=team or None, pool=pool, gpu=parse_gpu(gpu)
        )
        for gpu in gpus
    ]
    return [Size(gpu, promise) for gpu, promise in zip(gpus, promise_starts(user, specs), strict=True)]


def offered_presets(user: User) -> list[tuple[Preset, Size]]:
    """Those that could ever start here."""
    presets = presets_for(user)
    sizes = sizes_for(user, [preset.gpu for preset in presets], presets[0].team) if presets else []
    return [(preset, size) for preset, size in zip(presets, sizes, strict=True) if size.promise.possible]


def teams_of(user: User) -> list[str]:
    """The names of the teams in which the person may start something."""
    return [team.name for team in teams_where(user, "job.submit")]


def size_words(gpu: str) -> str:
    """ "¼ GPU", "CPU only", "2 GPUs"."""
    return gpu_words(parse_gpu(gpu))
