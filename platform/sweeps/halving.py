"""Which trials of a sweep by asha are stopped early: asynchronous successive halving (Li et al., 2020). Pure."""

from collections.abc import Collection, Mapping

from jobs.jobfile.search.wish import SearchWish


def choose_losers(wish: SearchWish, reached: Mapping[int, Mapping[int, float]], running: Collection[int]) -> list[int]:
    """Return the running trials that are not among the best of the highest rung that they have reached.

    reached: by trial, its metric at each rung that it has reached. One in `reduction` of a rung goes on, and at least
    the best; of equals the earlier. Who has been let past a rung is not judged by it again.
    """
    losers = []
    for trial in sorted(set(running) & reached.keys()):
        if rung := max(reached[trial], default=0):
            ranked = sorted((wish.sign * values[rung], index) for index, values in reached.items() if rung in values)
            kept = ranked[: max(len(ranked) // wish.reduction, 1)]
            if (wish.sign * reached[trial][rung], trial) not in kept:
                losers.append(trial)
    return losers
