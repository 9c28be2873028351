"""Which amounts of GPU a person could ever get: what forms, tiles and examples offer."""

from collections.abc import Iterable, Iterator

from accounts.models import User
from accounts.permissions import teams_where
from cluster.models import Gpu
from common.errors import PlatformError
from common.resources import parse_gpu
from jobs.jobfile.spec import JobSpec
from jobs.submit import PoolChooser
from scheduler.loading.snapshots import load_present_world
from scheduler.preview.draft_checks import build_chooser
from scheduler.preview.present_queue import PresentQueue

USUAL = ("1/4", "1/2", "1", "0")
"""What a first job asks: the first of these that is possible."""


def list_possible_asks(user: User, asks: Iterable[str]) -> list[str]:
    """Return those of `asks` with which a job could run in a pool of one of the person's teams."""
    return list(_iterate_possible_asks(user, asks, _build_chooser(user)))


def find_possible(user: User, specs: Iterable[JobSpec]) -> list[bool]:
    """Return for each spec whether it could run in a pool of its team."""
    chooser = _build_chooser(user)
    return [_is_possible(spec, chooser) for spec in specs]


def find_usual_ask(user: User, queue: PresentQueue | None = None) -> str:
    """Return the amount of GPU of a first job: a slice where cards are split, else a card, else none.

    queue: that of the request, if it has other questions.
    """
    return next(_iterate_possible_asks(user, USUAL, queue.chooser if queue else _build_chooser(user)), "0")


def find_named_ask(user: User) -> str:
    """Return an amount that names a card of the person's pools, such as V100-32GB:1."""
    cards = Gpu.objects.present().filter(pool__quotas__team__memberships__user=user)
    model = cards.order_by("pool__name", "pk").values_list("model", flat=True).first()
    return f"{model}:1" if model else "1"


def _build_chooser(user: User) -> PoolChooser:
    return build_chooser(user, load_present_world(work=False, user_id=user.pk))


def _iterate_possible_asks(user: User, asks: Iterable[str], chooser: PoolChooser) -> Iterator[str]:
    teams = [team.name for team in teams_where(user, "job.submit")]
    specs = {ask: [JobSpec(run="true", name="", team=team, gpu=parse_gpu(ask)) for team in teams] for ask in asks}
    return (ask for ask, of_teams in specs.items() if any(_is_possible(spec, chooser) for spec in of_teams))


def _is_possible(spec: JobSpec, chooser: PoolChooser) -> bool:
    try:
        chooser.choose(spec)
    except PlatformError:  # of no quota, too large, in no pool that is split
        return False
    return True
