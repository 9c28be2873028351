"""The value of `array` in a job file: how many elements there are, and which values each of them has."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from common.errors import FieldError, InvalidInput
from common.text import check_env_name, kind_of, shorten_text
from jobs.jobfile.shapes import Path, Shape, fail, pointer_of, refuse
from jobs.jobfile.values import ENV, read_env_value

MOST_ELEMENTS = 10_000
MOST_NAMES = 20
MOST_AT_ONCE = 1_000
AT_ONCE = "at_once"
_RANGE = re.compile(r"\s*(-?[0-9]{1,9})\s*\.\.\s*(-?[0-9]{1,9})\s*")
_AT_ONCE_TEXT = rf"^\s*0*({MOST_AT_ONCE}|[1-9][0-9]{{0,2}})\s*$"

Values = range | tuple[str, ...]


@dataclass(frozen=True)
class ArrayWish:
    """count: of elements. values: by variable, whose product the elements are; empty where they differ in their index
    alone. at_once: the most elements that are open together; None for the usual.
    """

    count: int
    values: dict[str, Values] = field(default_factory=dict)
    at_once: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    def values_at(self, index: int) -> dict[str, str]:
        """Return an element's values; those of the last name change with each index."""
        found: dict[str, str] = {}
        for name in reversed(self.values):
            index, place = divmod(index, len(self.values[name]))
            found[name] = str(self.values[name][place])
        return {name: found[name] for name in self.values}


class Array(Shape):
    """A number of elements, or values by name and how many elements at once."""

    def read(self, value: Any, pointer: str) -> ArrayWish:
        if not isinstance(value, dict):
            return ArrayWish(_check_count(_read_count(value, pointer), pointer))
        names = [name for name in value if name != AT_ONCE]
        if not names:
            fail(pointer, "array_without_values")
        if len(names) > MOST_NAMES:
            fail(pointer, "too_many", max=MOST_NAMES, got=len(names))
        values, at_once, errors = _read_parts(value, pointer)
        refuse(errors)
        return ArrayWish(_check_count(prod(map(len, values.values())), pointer), values, at_once)

    def schema(self, yaml: bool) -> dict[str, Any]:
        count = {"type": "integer", "minimum": 1, "maximum": MOST_ELEMENTS}
        scalars = {"type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]}}
        most = {"type": ["integer", "string"], "minimum": 1, "maximum": MOST_AT_ONCE, "pattern": _AT_ONCE_TEXT}
        named = {
            "type": "object",
            "propertyNames": {"anyOf": [{"const": AT_ONCE}, ENV.name.schema(yaml=False)]},
            "properties": {AT_ONCE: most},
            "additionalProperties": {"anyOf": [{"type": "string", "pattern": f"^{_RANGE.pattern}$"}, scalars]},
            "minProperties": 1,
            "if": {"required": [AT_ONCE]},
            "then": {"minProperties": 2},
        }
        return {"anyOf": [count, {"type": "string", "pattern": r"^\s*-?0+\s*\.\.\s*[0-9]{1,9}\s*$"}, named]}

    def written_paths(self) -> Iterable[Path]:
        return [("*",), ("*", "*")]


def array_json(wish: ArrayWish) -> dict | int:
    """Return what is stored and shown, which reads as in a file."""
    if not wish.values:
        return wish.count
    at_once = {} if wish.at_once is None else {AT_ONCE: wish.at_once}
    return {**{name: _values_json(values) for name, values in wish.values.items()}, **at_once}


def _values_json(values: Values) -> str | list[str]:
    return f"{values[0]}..{values[-1]}" if isinstance(values, range) else list(values)


def _read_count(value: Any, pointer: str) -> int:
    """Read 100, or 0..99, which is the same."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        fail(pointer, "bad_array", got=shorten_text(str(value)))
    if int(found[1]) != 0:
        fail(pointer, "array_from_zero", got=shorten_text(str(value)))
    return int(found[2]) + 1


def _check_count(count: int, pointer: str) -> int:
    if count < 1:
        fail(pointer, "too_small", min=1, got=count)
    if count > MOST_ELEMENTS:
        fail(pointer, "array_too_large", max=MOST_ELEMENTS, got=count)
    return count


def _read_parts(value: dict, pointer: str) -> tuple[dict[str, Values], int | None, list[FieldError]]:
    values: dict[str, Values] = {}
    at_once, errors = None, []
    for name, item in value.items():
        where = pointer + pointer_of([name])
        try:
            if name == AT_ONCE:
                at_once = _read_at_once(item, where)
            else:
                values[check_env_name(name, where)] = _read_values(item, where)
        except InvalidInput as error:
            errors += error.errors
    return values, at_once, errors


def _read_at_once(value: Any, pointer: str) -> int:
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        fail(pointer, "wrong_type", expected="whole_number", got=kind_of(value))
    if int(text) < 1:
        fail(pointer, "too_small", min=1, got=int(text))
    if int(text) > MOST_AT_ONCE:
        fail(pointer, "too_large", max=MOST_AT_ONCE, got=int(text))
    return int(text)


def _read_values(value: Any, pointer: str) -> Values:
    if isinstance(value, str) and (found := _RANGE.fullmatch(value)):
        first, last = int(found[1]), int(found[2])
        if first > last:
            fail(pointer, "bad_array_values", got=shorten_text(value))
        return range(first, last + 1)
    if not isinstance(value, list) or not value:
        fail(pointer, "bad_array_values", got=shorten_text(str(value)))
    return tuple(read_scalar(item, f"{pointer}/{place}") for place, item in enumerate(value))


def read_scalar(value: Any, pointer: str) -> str:
    """Read a value as a variable has it. YAML keeps numbers as they are written; JSON has one way to write them."""
    if value is None:
        fail(pointer, "required")
    if isinstance(value, bool):
        return "true" if value else "false"
    return read_env_value(repr(value) if isinstance(value, float) else value, pointer)
