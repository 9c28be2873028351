"""Parameters of a template: what each may be, and the values that people give for them."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from common.errors import FieldError, InvalidInput
from common.resources import parse_cpu, parse_duration, parse_gpu, parse_memory
from common.text import did_you_mean, kind_of, shorten_text
from jobs.jobfile.shapes import Field, Keys, Map, Plain, Shape, fail, pointer_of, read_text, refuse

MAX_PARAMETERS, MAX_CHOICES = 40, 50
MAX_TEXT, MAX_HELP = 4_096, 200
MAX_WHOLE = 10**18

Value = str | int | bool

TYPES = ("text", "integer", "number", "boolean", "choice", "gpu", "cpu", "memory", "duration")
AMOUNTS: dict[str, Callable[[object, str], object]] = {
    "gpu": parse_gpu,
    "cpu": parse_cpu,
    "memory": parse_memory,
    "duration": parse_duration,
}
WITH_LIMITS = ("integer", "number")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_BOOL = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}


@dataclass(frozen=True)
class Parameter:
    """kind: one of TYPES. default: None where a value is required. least, most: of a number."""

    kind: str = "text"
    default: Value | None = None
    choices: tuple[str, ...] = ()
    least: int | float | None = None
    most: int | float | None = None
    help: str = ""

    @property
    def is_required(self) -> bool:
        return self.default is None


def read_values(parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Value]:
    """Return a value for each parameter. Raises InvalidInput with all errors, at /values/NAME."""
    errors = [_build_unknown(name, parameters) for name in given if name not in parameters]
    values: dict[str, Value] = {}
    for name, parameter in parameters.items():
        try:
            values[name] = read_value(parameter, given.get(name), f"/values/{name}")
        except InvalidInput as error:
            errors += error.errors
    refuse(errors)
    return values


def read_value(parameter: Parameter, given: Any, pointer: str) -> Value:
    """Read what a form, the command line or JSON gives; nothing means the default."""
    if given is None or (given == "" and parameter.default != ""):
        if parameter.default is None:
            fail(pointer, "required")
        return parameter.default
    return _READERS[parameter.kind](parameter, given, pointer)


def as_text(value: Value) -> str:
    """Write a value as a job file has it in text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_text(parameter: Parameter, given: Any, pointer: str) -> str:
    text = str(given) if isinstance(given, int | float) and not isinstance(given, bool) else given
    text = read_text(text, pointer).replace("\r\n", "\n")
    if len(text) > MAX_TEXT:
        fail(pointer, "too_long", max=MAX_TEXT, got=len(text))
    if bad := next((c for c in text if (c < " " and c not in "\n\t") or "\ud800" <= c <= "\udfff"), ""):
        fail(pointer, "bad_characters", character=f"U+{ord(bad):04X}")
    return text


def _read_whole(parameter: Parameter, given: Any, pointer: str) -> int:
    if isinstance(given, str) and _WHOLE.fullmatch(given.strip()):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int):
        _refuse_type(given, "whole_number", pointer)
    if abs(given) > MAX_WHOLE:
        fail(pointer, "number_out_of_range")
    return _check_limits(parameter, given, pointer)


def _read_number(parameter: Parameter, given: Any, pointer: str) -> str:
    """Return a number as it was written: 3e-4 stays 3e-4."""
    written = given.strip() if isinstance(given, str) else repr(given)
    if isinstance(given, bool) or not isinstance(given, str | int | float) or not _NUMBER.fullmatch(written):
        _refuse_type(given, "number", pointer)
    if math.isinf(float(written)):
        fail(pointer, "number_out_of_range")
    _check_limits(parameter, float(written), pointer)
    return written


def _read_flag(parameter: Parameter, given: Any, pointer: str) -> bool:
    if isinstance(given, str) and given.strip().lower() in _BOOL:
        return _BOOL[given.strip().lower()]
    if not isinstance(given, bool):
        _refuse_type(given, "true_or_false", pointer)
    return given


def _read_choice(parameter: Parameter, given: Any, pointer: str) -> str:
    word = _as_choice(given, pointer)
    if word not in parameter.choices:
        near = did_you_mean(word, parameter.choices)
        more = {"did_you_mean": near} if near else {}
        fail(pointer, "unknown_value", got=shorten_text(word), allowed=list(parameter.choices), **more)
    return word


def _read_amount(parameter: Parameter, given: Any, pointer: str) -> str:
    """Return an amount as it was written, checked by the job file's own reader."""
    AMOUNTS[parameter.kind](given, pointer)
    return str(given).strip()


_READERS: dict[str, Callable[[Parameter, Any, str], Value]] = {
    "text": _read_text,
    "integer": _read_whole,
    "number": _read_number,
    "boolean": _read_flag,
    "choice": _read_choice,
    **dict.fromkeys(AMOUNTS, _read_amount),
}


def _check_limits(parameter: Parameter, value: Any, pointer: str) -> Any:
    if parameter.most is not None and value > parameter.most:
        fail(pointer, "too_large", max=parameter.most, got=value)
    if parameter.least is not None and value < parameter.least:
        fail(pointer, "too_small", min=parameter.least, got=value)
    return value


def _refuse_type(given: Any, expected: str, pointer: str) -> NoReturn:
    if isinstance(given, str):
        fail(pointer, f"not_{expected}", got=shorten_text(given))
    fail(pointer, "wrong_type", expected=expected, got=kind_of(given))


def _as_choice(given: Any, pointer: str) -> str:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return repr(given)
    return read_text(given, pointer)


def _build_unknown(name: str, parameters: Mapping[str, Parameter]) -> FieldError:
    near = did_you_mean(name, parameters)
    about = {"name": shorten_text(name), "known": ", ".join(parameters)}
    near_one = {"did_you_mean": near} if near else {}
    return FieldError("/values" + pointer_of([name]), "unknown_parameter", about | near_one)


# ---- the parameters of a template's head ----


class _Parameters(Map):
    """Parameters by name, each with a default that it would accept itself."""

    def read(self, value: Any, pointer: str) -> dict[str, Parameter]:
        found: dict[str, dict] = super().read(value, pointer)
        errors: list[FieldError] = []
        made: dict[str, Parameter] = {}
        for name, said in found.items():
            try:
                made[name] = _build(said, pointer + pointer_of([name]))
            except InvalidInput as error:
                errors += error.errors
        refuse(errors)
        return made


def _build(said: dict, pointer: str) -> Parameter:
    default = said.pop("default", None)
    kind = said.setdefault("kind", "choice" if said.get("choices") else "text")
    parameter = Parameter(**said)
    if (kind == "choice") != bool(parameter.choices):
        fail(f"{pointer}/choices", "choices_and_type")
    if kind not in WITH_LIMITS and (parameter.least is not None or parameter.most is not None):
        fail(f"{pointer}/{'most' if parameter.least is None else 'least'}", "limits_and_type")
    if default is None:
        return parameter
    if default == "" and kind == "text":
        return Parameter(**said, default="")
    return Parameter(**said, default=read_value(parameter, default, f"{pointer}/default"))


def _read_parameter_name(name: str, pointer: str) -> str:
    if not _NAME.fullmatch(name):
        fail(pointer, "bad_parameter_name", got=shorten_text(name))
    return name


def _read_kind(value: object, pointer: str) -> str:
    word = read_text(value, pointer)
    if word not in TYPES:
        near = did_you_mean(word, TYPES)
        more = {"did_you_mean": near} if near else {}
        fail(pointer, "unknown_value", got=shorten_text(word), allowed=list(TYPES), **more)
    return word


def _read_choices(value: object, pointer: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        fail(pointer, "wrong_type", expected="list", got=kind_of(value))
    if not 1 <= len(value) <= MAX_CHOICES:
        fail(pointer, "too_many", max=MAX_CHOICES, got=len(value))
    words = [_as_choice(word, f"{pointer}/{i}") for i, word in enumerate(value)]
    if empty := [i for i, word in enumerate(words) if not word]:
        fail(f"{pointer}/{empty[0]}", "required")
    return tuple(dict.fromkeys(words))


def _read_limit(value: object, pointer: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        fail(pointer, "wrong_type", expected="number", got=kind_of(value))
    return value


def _read_help(value: object, pointer: str) -> str:
    text = read_text(value, pointer)
    if len(text) > MAX_HELP:
        fail(pointer, "too_long", max=MAX_HELP, got=len(text))
    return " ".join(text.split())


def _take(reader: Callable[[Any, str], Any]) -> Shape:
    return Plain(reader, {})


PARAMETERS = _Parameters(
    name=_take(_read_parameter_name),
    value=Keys(
        (
            Field("type", _take(_read_kind), into="kind"),
            Field("default", _take(lambda value, pointer: value)),
            Field("choices", _take(_read_choices)),
            Field("least", _take(_read_limit)),
            Field("most", _take(_read_limit)),
            Field("help", _take(_read_help)),
        )
    ),
    most=MAX_PARAMETERS,
)
