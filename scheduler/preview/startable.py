"""How much a person could start in a pool now: found by asking the cycle, as a submit of just that would."""

from collections.abc import Callable, Iterable
from decimal import Decimal

from accounts.models import Team, User
from cluster.models import Pool
from common.errors import Impossible
from common.resources import GpuAsk, gb_to_mib, mib_to_gb, parse_gpu
from common.steady_clock import steady_time
from jobs.jobfile.spec import JobSpec
from jobs.submit import Draft, build_gang
from scheduler.loading.snapshots import World
from scheduler.preview.draft_checks import build_waiting_job, check_draft
from scheduler.preview.trial_cycles import run_with

MOST_TRIES = 4
"""Cycles that the search for whole cards may take beyond the first."""
PARTS = (2, 4, 8)
"""Parts of the largest slice that are tried where it does not start."""


def find_startable_cards(user: User, teams: Iterable[Team], pool: Pool, world: World, most: int) -> int:
    """Return how many whole cards a job of as many tasks would start with now, up to `most`."""
    teams = list(teams)
    return _search(most, lambda count: _starts(user, teams, pool, world, parse_gpu("1"), count))


def find_startable_slice(user: User, teams: Iterable[Team], pool: Pool, world: World, most_mib: int) -> int:
    """Return the MiB of the largest slice that would start now, in tenths of a GB as people ask; 0 if none."""
    teams, largest = list(teams), mib_to_gb(most_mib)
    for amount in dict.fromkeys((largest, *((largest / part).quantize(Decimal("0.1")) for part in PARTS))):
        if amount and _starts(user, teams, pool, world, parse_gpu(f"{amount}GB"), 1):
            return gb_to_mib(amount)
    return 0


def _search(most: int, starts: Callable[[int], bool]) -> int:
    """Return `most`, else the largest found that starts, as far as MOST_TRIES tells: more might."""
    if most < 1 or starts(most):
        return max(most, 0)
    low, high, middle = 0, most, 1
    for _ in range(MOST_TRIES):
        if high - low < 2:
            break
        low, high = (middle, high) if starts(middle) else (low, middle)
        middle = (low + high) // 2
    return low


def _starts(user: User, teams: list[Team], pool: Pool, world: World, gpu: GpuAsk, count: int) -> bool:
    for team in teams:
        spec = JobSpec(run="true", name="", team=team.name, pool=pool.name, gpu=gpu, nodes=count)
        draft = Draft(spec, user, team, pool, build_gang(spec, pool))
        try:
            check_draft(draft, world)
        except Impossible:
            continue
        now = steady_time()
        job = build_waiting_job(draft, world, now)
        if any(start.job == job.job for start in run_with((job,), world, now).starts):
            return True
    return False
