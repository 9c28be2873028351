"""The parameters of a search: lists of values and ranges of numbers, as a job file has them. Pure."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from common.text import shorten_text
from jobs.jobfile.array_values import read_scalar
from jobs.jobfile.shapes import Path, Shape, fail

MOST_CHOICES = 100
_NUMBER = r"-?[0-9]{1,9}(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?"
_INTERVAL = re.compile(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})(\s+log)?\s*")
_WHOLE = re.compile(r"-?[0-9]+")


@dataclass(frozen=True)
class Choices:
    """One of these values, which have no order."""

    values: tuple[str, ...]

    def pick(self, random: Random) -> str:
        return random.choice(self.values)


@dataclass(frozen=True)
class Interval:
    """A number from first to last, both as they were written. log: equally likely at each order of magnitude."""

    first: str
    last: str
    log: bool = False

    @property
    def low(self) -> float:
        return float(self.first)

    @property
    def high(self) -> float:
        return float(self.last)

    @property
    def is_whole(self) -> bool:
        return bool(_WHOLE.fullmatch(self.first) and _WHOLE.fullmatch(self.last))

    @property
    def text(self) -> str:
        return f"{self.first}..{self.last}{' log' if self.log else ''}"

    def place(self, text: str) -> float:
        """Return where a value lies, from 0 at the first to 1 at the last."""
        low, high, value = self.low, self.high, float(text)
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)

    def pick(self, random: Random) -> str:
        widened = 0.5 if self.is_whole else 0.0  # so that the ends are as likely as all others
        low, high = self.low - widened, self.high + widened
        return self.show(
            math.exp(random.uniform(math.log(low), math.log(high))) if self.log else random.uniform(low, high)
        )

    def show(self, number: float) -> str:
        """Return a number of the interval as a variable has it: whole, or with six digits."""
        shown = str(round(number)) if self.is_whole else f"{number:.6g}"
        if float(shown) <= self.low:
            return self.first
        return self.last if float(shown) >= self.high else shown


Parameter = Choices | Interval


class ParameterShape(Shape):
    """A list of values, or a range of numbers."""

    def read(self, value: Any, pointer: str) -> Parameter:
        if isinstance(value, list) and value:
            if len(value) > MOST_CHOICES:
                fail(pointer, "too_many", max=MOST_CHOICES, got=len(value))
            return Choices(tuple(dict.fromkeys(read_scalar(item, f"{pointer}/{at}") for at, item in enumerate(value))))
        found = _INTERVAL.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            fail(pointer, "bad_parameter", got=shorten_text(str(value)))
        interval = Interval(found[1], found[2], bool(found[3]))
        if interval.low >= interval.high:
            fail(pointer, "empty_interval", got=shorten_text(value))
        if interval.log and interval.low <= 0:
            fail(pointer, "log_of_zero", got=shorten_text(value))
        return interval

    def schema(self, yaml: bool) -> dict[str, Any]:
        scalars = {"type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]}}
        return {"anyOf": [{"type": "string", "pattern": f"^{_INTERVAL.pattern}$"}, scalars]}

    def written_paths(self) -> Iterable[Path]:
        return [(), ("*",)]


def parameter_json(parameter: Parameter) -> str | list[str]:
    """Return what is stored and shown, which reads as in a file."""
    return parameter.text if isinstance(parameter, Interval) else list(parameter.values)
