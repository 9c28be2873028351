"""Drawing of trials: tpe beats chance on Branin's function, and draws the same of the same trials."""

from math import cos, pi
from statistics import median

from jobs.jobfile.search.space import Choices, Interval
from jobs.jobfile.search.wish import SearchWish
from jobs.states import JobState
from sweeps.drawing import draw
from sweeps.trials import Trial

SPACE = {"x": Interval("-5.0", "10.0"), "y": Interval("0.0", "15.0")}
SMALLEST = 0.397887
TRIALS, AT_ONCE, SEEDS = 40, 4, 20


def branin(values: dict[str, str]) -> float:
    x, y = float(values["x"]), float(values["y"])
    return (y - 5.1 / (4 * pi**2) * x * x + 5 / pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * pi)) * cos(x) + 10


def tried(index: int, values: dict[str, str], score: float | None, state: str = JobState.SUCCEEDED) -> Trial:
    return Trial(index, f"job-{index + 1}", values, state, "", score)


def measure_regret(method: str, seed: int) -> float:
    """Of a whole sweep, in which the newest trials have yet to end when the next is drawn."""
    wish = SearchWish("z", SPACE, TRIALS, method, seed=seed)
    drawn: list[dict[str, str]] = []
    for number in range(TRIALS):
        done = number - AT_ONCE + 1
        seen = [
            tried(at, values, branin(values)) if at < done else tried(at, values, None, JobState.RUNNING)
            for at, values in enumerate(drawn)
        ]
        drawn.append(draw(wish, seen, number))
    return min(map(branin, drawn)) - SMALLEST


def test_tpe_has_at_most_half_of_the_regret_of_chance():
    by_chance, by_tpe = (median(measure_regret(method, seed) for seed in range(SEEDS)) for method in ("random", "tpe"))
    assert by_tpe <= by_chance / 2, (by_tpe, by_chance)


def test_of_the_same_trials_the_same_is_drawn_and_open_ones_are_kept_away_from():
    space = {**SPACE, "n": Interval("1", "64", log=True), "kind": Choices(("a", "b"))}
    wish = SearchWish("z", space, 100, mode="max", seed=3)
    seen = [tried(at, values := wish.values_at(at), -branin(values)) for at in range(20)]
    seen += [
        tried(20, wish.values_at(20), None, JobState.FAILED),
        tried(21, wish.values_at(21), 5.0, JobState.CANCELLED),
    ]
    first = draw(wish, seen, 22)
    assert first == draw(wish, seen, 22) and list(first) == ["x", "y", "n", "kind"]
    assert first["kind"] in "ab" and 1 <= int(first["n"]) <= 64 and -5 <= float(first["x"]) <= 10
    drawn = [first]
    for number in range(23, 33):
        opened = [tried(22 + at, values, None, JobState.QUEUED) for at, values in enumerate(drawn)]
        drawn.append(draw(wish, seen + opened, number))
    assert len({tuple(one.items()) for one in drawn}) == len(drawn)
