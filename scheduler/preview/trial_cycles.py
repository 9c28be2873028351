"""Cycles over the present queue with one more job: what the next one would decide."""

from copy import copy
from dataclasses import replace

from common.steady_clock import steady_time
from jobs.models import Job
from scheduler.core.cycle import find_starts, run_cycle
from scheduler.core.forecast.start_suggestions import Records, replace_waiting
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, Plan
from scheduler.core.queueing.cycle_context import CycleMemo
from scheduler.core.queueing.reservations import KnownReservations
from scheduler.loading.snapshots import World
from scheduler.preview.forecast_recorder import FIRST


class TrialCycles:
    """Cycles at one moment over one world, and what each may reuse of those before it."""

    def __init__(self, world: World):
        self.world, self.now = world, steady_time()
        self._explaining = CycleMemo(known_reservations=KnownReservations())
        self._deciding = replace(self._explaining, explains=False)

    def run(self, job: Records = ()) -> Plan:
        """Run the next cycle, with the job."""
        return run_cycle(self._add(job), self.world.policy, self.now, self._explaining)

    def find_start(self, job: Records) -> Placement | None:
        """Return where the job starts in the next cycle, without finding out why others wait: most of its work."""
        starts = find_starts(self._add(job), self.world.policy, self.now, self._deciding)
        return next((start for start in starts if start.job == job[0].job), None)

    def _add(self, job: Records) -> Snapshot:
        snapshot = self.world.snapshot
        return replace_waiting(snapshot, (*snapshot.waiting, *job))

    def keep_front(self) -> "TrialCycles":
        """Return cycles without those far back in a long queue, whom no job that starts now meets.

        By their places in the last cycle: to find them anew is a cycle that explains each of them.
        """
        snapshot = self.world.snapshot
        if len(snapshot.waiting) <= FIRST:
            return self
        far = set(Job.objects.waiting().filter(wait_position__gt=FIRST).values_list("pk", flat=True))
        near = tuple(job for job in snapshot.waiting if job.job not in far)
        front = copy(self)
        front.world = replace(self.world, snapshot=replace_waiting(snapshot, near))
        return front
