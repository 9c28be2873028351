"""How much each parameter of a sweep matters for what its trials reach. Pure."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from jobs.jobfile.search.space import Choices, Parameter
from jobs.jobfile.search.wish import SearchWish
from sweeps.trials import Trial

LEAST_TRIALS = 12
"""Below this, chance says more than the parameters."""
MOST_GROUPS = 5
EACH_GROUP = 4
"""The least trials of a group, on average, of those into which a parameter's range is cut."""


def rank_importance(wish: SearchWish, ranked: Sequence[Trial]) -> dict[str, float]:
    """Return the share of the differences between trials that each parameter explains by itself, the largest first.

    ranked: the trials that have a score, the best first. It is the ranks that are explained, so that one very bad trial
    does not hide all others; by epsilon squared, which is 0 for what matters no more than chance does (Kelley, 1935).
    Empty for few trials.
    """
    if len(ranked) < LEAST_TRIALS:
        return {}
    found = {
        name: _explain(parameter, [trial.values[name] for trial in ranked]) for name, parameter in wish.space.items()
    }
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def _explain(parameter: Parameter, texts: Sequence[str]) -> float:
    """Return the share of the variance of places, from 0 on, that lies between groups of alike values."""
    groups = _group(parameter, texts)
    count, mean = len(texts), (len(texts) - 1) / 2
    if not 1 < len(groups) < count:
        return 0.0
    total = sum((place - mean) ** 2 for place in range(count))
    between = sum(len(places) * (sum(places) / len(places) - mean) ** 2 for places in groups.values())
    within = (total - between) / (count - len(groups))
    return max((between - (len(groups) - 1) * within) / total, 0.0)


def _group(parameter: Parameter, texts: Sequence[str]) -> Mapping[object, list[int]]:
    """Return the places of trials by value, or by part of the parameter's range."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    parts = max(min(MOST_GROUPS, len(texts) // EACH_GROUP), 2)
    for place, text in enumerate(texts):
        up = text if isinstance(parameter, Choices) else math.floor(min(parameter.place(text), 0.999) * parts)
        groups[up].append(place)
    return groups
