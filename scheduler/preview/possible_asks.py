"""Which amounts of GPU a person could ever get: what forms, tiles and examples offer."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from accounts.models import User
from accounts.permissions import teams_where
from cluster.models import Gpu
from common.errors import PlatformError
from common.resources import parse_gpu
from jobs.jobfile.spec import JobSpec
from jobs.submit import PoolChooser
from scheduler.loading.snapshots import load_present_world
from scheduler.preview.draft_checks import build_chooser

USUAL = ("1/4", "1/2", "1", "0")
"""What a first job asks: the first of these that is possible."""


class PossibleAsks:
    """What jobs of one person could ever get, by the cluster at the first question."""

    def __init__(self, user: User):
        self._user = user

    def among(self, asks: Iterable[str]) -> list[str]:
        """Return those of `asks` with which a job could run in a pool of one of the person's teams."""
        return list(self._iterate(asks))

    def check(self, specs: Iterable[JobSpec]) -> list[bool]:
        """Return for each spec whether it could run in a pool of its team."""
        return [self._is_possible(spec) for spec in specs]

    @cached_property
    def usual(self) -> str:
        """The amount of GPU of a first job: a slice where cards are split, else a card, else none."""
        return next(self._iterate(USUAL), "0")

    @cached_property
    def _chooser(self) -> PoolChooser:
        return build_chooser(self._user, load_present_world(work=False, user_id=self._user.pk))

    @cached_property
    def _teams(self) -> list[str]:
        return [team.name for team in teams_where(self._user, "job.submit")]

    def _iterate(self, asks: Iterable[str]) -> Iterator[str]:
        for ask in asks:
            gpu = parse_gpu(ask)
            if any(self._is_possible(JobSpec(run="true", name="", team=team, gpu=gpu)) for team in self._teams):
                yield ask

    def _is_possible(self, spec: JobSpec) -> bool:
        try:
            self._chooser.choose(spec)
        except PlatformError:  # of no quota, too large, in no pool that is split
            return False
        return True


def find_named_ask(user: User) -> str:
    """Return an amount that names a card of the person's pools, such as V100-32GB:1."""
    cards = Gpu.objects.present().filter(pool__quotas__team__memberships__user=user)
    model = cards.order_by("pool__name", "pk").values_list("model", flat=True).first()
    return f"{model}:1" if model else "1"
