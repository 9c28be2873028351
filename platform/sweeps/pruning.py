"""Stop the trials of sweeps by asha that have fallen behind, by the ordinary stop, in which they save a checkpoint."""

import logging
from collections.abc import Iterable

from events.record_and_publish import SYSTEM
from jobs.arrays.models import PRUNED, JobArray
from jobs.control import end_jobs
from jobs.jobfile.search.wish import SearchWish
from jobs.jobfile.spec import read_search
from jobs.models import Job
from jobs.states import JobState
from reported_numbers.curves import Curve, load_curves
from reported_numbers.thinning import MOST_POINTS, STEP, VALUE
from sweeps.halving import choose_losers

log = logging.getLogger("tessera.sweeps")


def prune_open_sweeps() -> int:
    """Ask the trials that have fallen behind to stop; return how many."""
    open_sweeps = JobArray.objects.open().filter(spec__search__method="asha", running__gt=0).order_by("pk")
    return sum(_prune(array, read_search(array.spec["search"])) for array in open_sweeps)


def read_rungs(curve: Curve, rungs: Iterable[int]) -> dict[int, float]:
    """Return the newest value at each rung that a curve has reached. Pure."""
    assert curve.points is not None
    steps = curve.points[:, STEP]
    reached = [rung for rung in rungs if steps.min() <= rung <= steps.max()]
    return {rung: float(curve.points[steps <= rung][-1, VALUE]) for rung in reached}


def _prune(array: JobArray, wish: SearchWish) -> int:
    trials = {job.public_id: job for job in Job.objects.filter(array=array.pk).defer("spec")}
    running = {
        job.array_index or 0: job
        for job in trials.values()
        if job.state == JobState.RUNNING and job.stop_requested_at is None
    }
    if not running or not _has_reached(running.values(), wish):
        return 0
    reached: dict[int, dict[int, float]] = {}
    for curve in load_curves(trials.values(), [wish.metric], most=MOST_POINTS):
        reached.setdefault(trials[curve.job].array_index or 0, read_rungs(curve, wish.rungs))  # that of the first task
    losers = [running[index] for index in choose_losers(wish, reached, running)]
    if losers:
        end_jobs(by=SYSTEM, jobs=losers, reason=PRUNED)
        log.info("%s: %s trials are stopped early", array, len(losers))
    return len(losers)


def _has_reached(running: Iterable[Job], wish: SearchWish) -> bool:
    """Whether one of these has come to the first rung: else no points need be read."""
    return any(curve.last.step >= wish.rungs[0] for curve in load_curves(running, [wish.metric]))
