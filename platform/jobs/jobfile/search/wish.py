"""The value of `search` in a job file: which parameters are tried, how they are chosen, and what is to become best."""

from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

from common.errors import FieldError
from jobs.jobfile.array_values import MOST_AT_ONCE, MOST_NAMES, ArrayWish, Values
from jobs.jobfile.search.space import Choices, Interval, Parameter, ParameterShape, parameter_json
from jobs.jobfile.shapes import (
    Choice,
    Field,
    Keys,
    Map,
    Plain,
    Shape,
    Whole,
    fail,
    pointer_of,
    read_map,
    read_text,
    refuse,
)
from jobs.jobfile.values import ENV

METHODS = ("grid", "random", "tpe", "asha")
MODES = ("min", "max")
MOST_TRIALS = 1_000
MOST_RUNGS = 10
MOST_STEP = 10**9
USUAL_AT_ONCE = 4
"""How many trials are open together if the file does not say: few enough that the later ones learn of the earlier."""


@dataclass(frozen=True)
class SearchWish:
    """What a sweep looks for: the smallest or largest `metric` of its trials, whose values come from `space`.

    count: of trials. rungs: steps of the metric at which asha keeps the best of each `reduction` trials, and stops the
    others. at_once: the most trials that are open together. seed: the same one draws the same random values.
    """

    metric: str
    space: dict[str, Parameter]
    count: int
    method: str = "tpe"
    mode: str = "min"
    rungs: tuple[int, ...] = ()
    reduction: int = 3
    at_once: int = USUAL_AT_ONCE
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.space)

    @property
    def sign(self) -> int:
        """What a metric is multiplied by, so that smaller is better."""
        return 1 if self.mode == "min" else -1

    def values_at(self, index: int) -> dict[str, str]:
        """Return a trial's values as they are without regard to others: of the grid, else random ones."""
        if self.method == "grid":
            return ArrayWish(self.count, list_grid(self.space)).values_at(index)
        return {
            name: parameter.pick(Random(f"{self.seed}:{index}:{name}"))  # noqa: S311 - values are no secret
            for name, parameter in self.space.items()  # whose order the database does not keep
        }


class Steps(Shape):
    """Rising whole numbers."""

    step = Whole(1, MOST_STEP)

    def read(self, value: Any, pointer: str) -> tuple[int, ...]:
        if not isinstance(value, list) or not value or len(value) > MOST_RUNGS:
            fail(pointer, "bad_rungs", max=MOST_RUNGS)
        steps = tuple(self.step.read(item, f"{pointer}/{at}") for at, item in enumerate(value))
        if list(steps) != sorted(set(steps)):
            fail(pointer, "bad_rungs", max=MOST_RUNGS)
        return steps

    def schema(self, yaml: bool) -> dict[str, Any]:
        items = self.step.schema(yaml)
        return {"type": "array", "minItems": 1, "maxItems": MOST_RUNGS, "uniqueItems": True, "items": items}


class Search(Keys):
    """A search whose keys fit together."""

    def read(self, value: Any, pointer: str) -> SearchWish:
        found, errors = self.collect(read_map(value, pointer), pointer)
        refuse(errors or _check_together(found, pointer))
        trials = found.pop("trials", MOST_TRIALS)
        is_grid = found.get("method") == "grid"
        count = min(trials, prod(map(len, list_grid(found["space"]).values()))) if is_grid else trials
        return SearchWish(**found, count=count)


def read_metric(value: Any, pointer: str) -> str:
    text = read_text(value, pointer)
    if not text.strip() or len(text) > 64:
        fail(pointer, "bad_metric")
    return text.strip()


def list_grid(space: dict[str, Parameter]) -> dict[str, Values]:
    """Return the values of each parameter, of which none is a range of other than whole numbers."""
    return {
        name: one.values if isinstance(one, Choices) else range(int(one.low), int(one.high) + 1)
        for name, one in space.items()
    }


def search_json(wish: SearchWish) -> dict[str, Any]:
    """Return what is stored and shown, which reads as in a file."""
    return {
        "method": wish.method,
        "metric": wish.metric,
        "mode": wish.mode,
        "trials": wish.count,
        **({"rungs": list(wish.rungs), "reduction": wish.reduction} if wish.rungs else {}),
        "at_once": wish.at_once,
        "seed": wish.seed,
        "space": {name: parameter_json(one) for name, one in wish.space.items()},
    }


def _check_together(found: dict[str, Any], pointer: str) -> list[FieldError]:
    method = found.get("method", "tpe")
    if not found["space"]:
        return [FieldError(f"{pointer}/space", "required")]
    wrong = []
    if method == "asha" and "rungs" not in found:
        wrong.append(FieldError(f"{pointer}/rungs", "required"))
    if method != "asha":
        wrong += [
            FieldError(f"{pointer}/{key}", "only_asha", {"key": key}) for key in ("rungs", "reduction") if key in found
        ]
    if method == "grid":
        return wrong + _check_grid(found, pointer)
    return wrong + ([] if "trials" in found else [FieldError(f"{pointer}/trials", "required")])


def _check_grid(found: dict[str, Any], pointer: str) -> list[FieldError]:
    wrong = [
        FieldError(pointer + pointer_of(["space", name]), "grid_interval", {"got": one.text})
        for name, one in found["space"].items()
        if isinstance(one, Interval) and (one.log or not one.is_whole)
    ]
    count = 0 if wrong else prod(map(len, list_grid(found["space"]).values()))
    if count > MOST_TRIALS and "trials" not in found:
        wrong.append(FieldError(f"{pointer}/space", "grid_too_large", {"max": MOST_TRIALS, "got": count}))
    return wrong


SEARCH = Search(
    (
        Field(
            "method",
            Choice(METHODS),
            "How values are chosen: all of a grid, by chance, learning from earlier trials (tpe), or by chance with "
            "bad trials stopped early (asha).",
            "tpe",
        ),
        Field(
            "metric",
            Plain(read_metric, {"type": "string", "minLength": 1, "maxLength": 64}),
            "The number that its trials report and that is compared; of each trial the best.",
            required=True,
            examples=("loss",),
        ),
        Field("mode", Choice(MODES), "Whether the smallest or the largest is best.", "min"),
        Field("trials", Whole(1, MOST_TRIALS), "How many trials.", "all of a grid, else required", examples=(40,)),
        Field(
            "rungs",
            Steps(),
            "Of asha: the steps of the metric at which a trial is stopped unless it is among the best.",
            "required with asha",
            examples=([3, 9, 27],),
        ),
        Field("reduction", Whole(2, 10), "Of asha: one of so many goes on at each rung.", "3"),
        Field("at_once", Whole(1, MOST_AT_ONCE), "The most trials that are open together.", str(USUAL_AT_ONCE)),
        Field("seed", Whole(0, 2**31 - 1), "The same one draws the same random values.", "0"),
        Field(
            "space",
            Map(ENV.name, ParameterShape(), most=MOST_NAMES),
            "The parameters, by variable: a list of values, or a range; 1..4 has whole numbers, 0.0..1.0 all; log: by "
            "orders of magnitude.",
            required=True,
            examples=({"lr": "1e-5..1e-1 log", "layers": "1..4", "optimizer": ["sgd", "adam"]},),
        ),
    )
)
