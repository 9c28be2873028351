"""Notebook sizes, and whether each could start now."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from django.utils.translation import gettext as _

from accounts.models import User
from accounts.permissions import teams_where
from common.errors import QuotaExceeded
from common.resources import parse_gpu
from jobs.jobfile.spec import JobSpec
from jobs.reason_messages import describe_wait
from notebooks.models import Notebook
from notebooks.presets import Preset, list_presets
from notebooks.services import build_start_spec, find_start_refusal
from portal.wording.errors import describe_error
from portal.wording.resources import describe_gpu
from quotas.services import get_notebook_hours
from scheduler.preview.possible_asks import PossibleAsks, find_named_ask
from scheduler.preview.present_queue import PresentQueue
from scheduler.preview.preview import StartPreview, preview_starts

SIZES = ("0", "1/8", "1/4", "1/2", "1", "2")
"""What the picker offers, the smallest first. Any other is typed."""
HOUR = 3600


@dataclass(frozen=True)
class Offer:
    """A size that a form offers, whatever it promises now."""

    gpu: str

    @property
    def words(self) -> str:
        return describe_gpu(parse_gpu(self.gpu))

    @property
    def key(self) -> str:
        """What names it in a page."""
        return re.sub(r"\W", "-", self.gpu)


@dataclass(frozen=True)
class Size(Offer):
    """limit: what refuses any start now, since a limit of the person is reached."""

    promise: StartPreview
    limit: QuotaExceeded | None = None

    @property
    def starts(self) -> bool:
        """Whether a click starts it in the next cycle."""
        return self.promise.starts and self.limit is None

    @property
    def availability(self) -> str:
        """Say whether it starts now, waits, is refused, or cannot be had."""
        if not self.promise.possible:
            return _("not available here")
        if self.limit is not None:
            return _("at your limit")
        return _("starts now") if self.promise.starts else _("waiting")

    @property
    def why(self) -> str:
        """Say why it would be refused or wait, or ""."""
        if self.limit is not None:
            return describe_error(self.limit)
        return describe_wait(self.promise.reasons[0]) if self.promise.reasons else ""


def sizes_for(user: User, gpus: Sequence[str], team: str = "", notebook: Notebook | None = None) -> list[Size]:
    """Return sizes with start previews; `team` defaults to the user's first. notebook: which is to start."""
    promises = preview_starts(user, _build_specs(user, [(gpu, notebook) for gpu in gpus], team))
    limit = find_start_refusal(user, notebook)
    return [Size(gpu, promise, limit) for gpu, promise in zip(gpus, promises, strict=True)]


class SizePicker:
    """The sizes of a form, of which `gpu` is chosen. Which could ever start is known at once; what each promises now is
    asked of trial cycles, which take a while: a page loads that behind itself.

    team: the user's first by default. notebook: which is to start; what it has is offered in any case. possible: that
    of the request, if it has other questions.
    """

    def __init__(
        self,
        user: User,
        gpu: str,
        *,
        team: str = "",
        notebook: Notebook | None = None,
        possible: PossibleAsks | None = None,
    ):
        self._possible = possible or PossibleAsks(user)
        self._user, self.gpu, self._team, self._notebook = user, gpu, team, notebook
        self._kept = gpu if notebook else ""
        self._gpus = tuple(dict.fromkeys((*SIZES, self._kept) if notebook else SIZES))

    @cached_property
    def offers(self) -> list[Offer]:
        specs = _build_specs(self._user, [(gpu, self._notebook) for gpu in self._gpus], self._team)
        possible = zip(self._gpus, self._possible.check(specs), strict=True)
        return [Offer(gpu) for gpu, can in possible if can or gpu == self._kept]

    @cached_property
    def promises(self) -> list[Size]:
        """Return what each of the offers promises."""
        sizes = sizes_for(self._user, self._gpus, self._team, self._notebook)
        return [size for size in sizes if size.promise.possible or size.gpu == self._kept]

    @property
    def typed(self) -> str:
        """Return what is chosen if it is none of the sizes."""
        return "" if self.gpu in [offer.gpu for offer in self.offers] else self.gpu

    @property
    def named_ask(self) -> str:
        return find_named_ask(self._user)

    @property
    def why_waits(self) -> Size | None:
        """Return what is chosen if it would wait, and why is known."""
        chosen = next((size for size in self.promises if size.gpu == self.gpu), None)
        return chosen if chosen and chosen.why and chosen.limit is None and not chosen.starts else None


def offered_presets(user: User) -> list[tuple[Preset, Size]]:
    """Return presets that could ever start."""
    return PresetOffers(user).possible


class PresetOffers:
    """A person's presets. queue: which a page with further questions asks, too."""

    def __init__(self, user: User):
        self._user = user

    @cached_property
    def possible(self) -> list[tuple[Preset, Size]]:
        """Return presets that could ever start."""
        if not self._presets:
            return []
        promises = preview_starts(self._user, self._specs, self.queue)
        sizes = [
            (preset, Size(preset.gpu, promise, self.limit))
            for preset, promise in zip(self._presets, promises, strict=True)
        ]
        return [(preset, size) for preset, size in sizes if size.promise.possible]

    @cached_property
    def limit(self) -> QuotaExceeded | None:
        """What refuses any start now."""
        return find_start_refusal(self._user)

    @cached_property
    def queue(self) -> PresentQueue:
        return PresentQueue(self._user, self._specs)

    @cached_property
    def _presets(self) -> list[Preset]:
        return list_presets(self._user)

    @cached_property
    def _specs(self) -> list[JobSpec]:
        wanted = [(preset.gpu, preset.notebook) for preset in self._presets]
        return _build_specs(self._user, wanted, self._presets[0].team) if wanted else []


def _build_specs(user: User, wanted: Sequence[tuple[str, Notebook | None]], team: str) -> list[JobSpec]:
    """Build just what a click submits: a notebook's own settings, or those of a new one."""
    team = team or next((team.name for team in teams_where(user, "job.submit")), "")
    hours = get_notebook_hours(user)
    new = JobSpec(run="jupyter lab", name="notebook", team=team or None, time_s=hours * HOUR if hours else None)
    return [
        replace(build_start_spec(notebook, gpu) if notebook else replace(new, gpu=parse_gpu(gpu)), kind="interactive")
        for gpu, notebook in wanted
    ]
