"""Read the lines in which tasks report numbers: {"step": 100, "loss": 0.31}. Pure, and safe whatever a task writes."""

import json
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

STEP = "step"
MOST_LINE = 4096
MOST_NAMES = 100
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}")
NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE)
MOST_SHOWN = 80


class Why(StrEnum):
    """Why something is not taken."""

    NOT_JSON = "not_json"
    LONG_LINE = "long_line"
    BAD_NAME = "bad_name"
    MANY_NAMES = "many_names"
    NOT_NUMBER = "not_number"
    NOT_FINITE = "not_finite"


@dataclass(frozen=True)
class Refusal:
    """what: the name, or the begin of the line."""

    why: Why
    what: str


@dataclass
class Numbers:
    """What lines say. values: {name: [(step, value)]}, with a step of None where the line has none.

    refused: how many numbers and lines are not taken. first: the first of them.
    """

    values: dict[str, list[tuple[float | None, float]]] = field(default_factory=dict)
    refused: int = 0
    first: Refusal | None = None

    def refuse(self, why: Why, what: str) -> None:
        self.refused += 1
        self.first = self.first or Refusal(why, _clean(what))


def read_lines(content: bytes, known: Collection[str] = ()) -> Numbers:
    """Read whole lines. known: the names that the task has already."""
    numbers = Numbers()
    names = set(known)
    for line in content.split(b"\n"):
        if line.strip():
            _read_line(line, names, numbers)
    return numbers


def _read_line(line: bytes, names: set[str], numbers: Numbers) -> None:
    shown = line[: 4 * MOST_SHOWN].decode(errors="replace")
    if len(line) > MOST_LINE:
        return numbers.refuse(Why.LONG_LINE, shown)
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return numbers.refuse(Why.NOT_JSON, shown)
    step = None
    if said.get(STEP) is not None:
        step = _read_number(said[STEP])
        if step is None or not math.isfinite(step):
            return numbers.refuse(Why.NOT_NUMBER if step is None else Why.NOT_FINITE, STEP)
    for name, value in _list_values(said, names, numbers):
        numbers.values.setdefault(name, []).append((step, value))


def _list_values(said: dict, names: set[str], numbers: Numbers) -> Iterator[tuple[str, float]]:
    for name, told in said.items():
        if name == STEP:
            continue
        value = _read_number(told)
        if not NAME.fullmatch(name):
            numbers.refuse(Why.BAD_NAME, name)
        elif value is None:
            numbers.refuse(Why.NOT_NUMBER, name)
        elif not math.isfinite(value):
            numbers.refuse(Why.NOT_FINITE, name)
        elif name not in names and len(names) >= MOST_NAMES:
            numbers.refuse(Why.MANY_NAMES, name)
        else:
            names.add(name)
            yield name, value


def _read_number(told: object) -> float | None:
    """Return a number, also one in quotes, as a shell writes it; None of anything else."""
    if isinstance(told, bool) or not isinstance(told, int | float | str):
        return None
    if isinstance(told, str) and not NUMBER.fullmatch(told):
        return None
    try:
        return float(told)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def _clean(text: str) -> str:
    """Return a short text without control characters, which may be shown and stored."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:MOST_SHOWN])
