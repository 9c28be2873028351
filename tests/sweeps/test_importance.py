"""What matters in a sweep: the parameter that decides, by its own share, and none by chance."""

import math

from jobs.jobfile.search.space import Choices, Interval
from jobs.jobfile.search.wish import SearchWish
from sweeps.importance import LEAST_TRIALS, rank_importance
from sweeps.trials import Trial, rank_trials

SPACE = {"idle": Interval("0.0", "1.0"), "lr": Interval("1e-5", "1e-1", log=True), "kind": Choices(("a", "b", "c"))}


def try_all(count: int) -> dict[str, float]:
    wish = SearchWish("loss", SPACE, count, "random")
    drawn = [wish.values_at(index) for index in range(count)]
    scores = [abs(math.log10(float(one["lr"])) + 3) + (0.7 if one["kind"] == "b" else 0.0) for one in drawn]
    scores[0] = 1e9  # one that diverged hides nothing
    trials = [Trial(at, "", drawn[at], "SUCCEEDED", "", scores[at]) for at in range(count)]
    return rank_importance(wish, rank_trials(trials, wish))


def test_what_decides_comes_first_and_chance_is_nothing():
    found = try_all(200)
    assert list(found) == ["lr", "kind", "idle"]
    assert found["lr"] > 0.5 and 0.1 < found["kind"] < 0.4 and found["idle"] < 0.05


def test_of_few_trials_nothing_is_said():
    assert try_all(LEAST_TRIALS - 1) == {} and len(try_all(LEAST_TRIALS)) == 3


def test_values_that_are_all_unlike_explain_nothing():
    names = tuple(map(str, range(LEAST_TRIALS)))
    trials = [Trial(at, "", {"seed": name}, "SUCCEEDED", "", float(at)) for at, name in enumerate(names)]
    assert rank_importance(SearchWish("loss", {"seed": Choices(names)}, 12), trials) == {"seed": 0.0}
