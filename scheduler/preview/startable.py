"""How much a person could start in a pool now: found by asking the cycle, as a submit of just that would."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from accounts.models import Team
from cluster.models import Pool
from common.resources import GpuAsk, gb_to_mib, mib_to_gb, parse_gpu
from jobs.jobfile.spec import JobSpec
from jobs.submit import Draft
from scheduler.preview.draft_checks import build_waiting_job
from scheduler.preview.present_queue import PresentQueue

MOST_TRIES = 4
"""Cycles that the search for whole cards may take beyond the first."""
PARTS = (2, 4, 8)
"""Parts of the largest slice that are tried where it does not start."""


@dataclass(frozen=True)
class StartableSearch:
    """Asks for one person in one pool. teams: of which a job could be."""

    queue: PresentQueue
    teams: Sequence[Team]
    pool: Pool

    def find_cards(self, most: int) -> int:
        """Return how many whole cards a job of as many tasks would start with now, up to `most`."""
        return _search(most, lambda count: self._starts(parse_gpu("1"), count))

    def find_slice(self, most_mib: int) -> int:
        """Return the MiB of the largest slice that would start now, in tenths of a GB as people ask; 0 if none."""
        largest = mib_to_gb(most_mib)
        for amount in dict.fromkeys((largest, *((largest / part).quantize(Decimal("0.1")) for part in PARTS))):
            if amount and self._starts(parse_gpu(f"{amount}GB"), 1):
                return gb_to_mib(amount)
        return 0

    def _starts(self, gpu: GpuAsk, count: int) -> bool:
        user, trials = self.queue.user, self.queue.trials
        for team in self.teams:
            spec = JobSpec(run="true", name="", team=team.name, pool=self.pool.name, gpu=gpu, nodes=count)
            draft = Draft(spec, user, team, self.pool, self.queue.chooser.build_gang(spec, self.pool))
            if trials.find_start((build_waiting_job(draft, trials.world, trials.now),)):
                return True
        return False


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
