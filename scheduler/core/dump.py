"""A cycle's input and its plan as plain JSON, and back: what a wrong plan is reported, kept and tested with.

Values are written by the annotations of their classes: a dataclass as a mapping of its fields, an array as lists, a
score by its name. A file of an older form is read as long as the fields that came later have defaults.
"""

import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from scheduler.core.scores import SCORES, spread
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan, Policy

FORM = 1
CALLABLES = {score.__name__: score for score, _ in (*SCORES, *spread(SCORES))}
"""What a policy may name."""


class NotADump(ValueError):
    """The text is none that `dump` wrote."""


@dataclass(frozen=True)
class Dump:
    """What a cycle was given, when, and what it decided."""

    at: float
    snapshot: Snapshot
    policy: Policy
    plan: Plan


def dump(cycle: Dump, *, names: bool = False) -> dict[str, Any]:
    """As JSON writes it. names: of machines, pools and teams; else they are numbers, and the plan has none either."""
    snapshot = cycle.snapshot if names else without_names(cycle.snapshot)
    return {
        "form": FORM,
        "at": cycle.at,
        "policy": encode(cycle.policy),
        "snapshot": encode(snapshot),
        "plan": encode(cycle.plan),
    }


def load(data: Any) -> Dump:
    """Raises NotADump, saying where."""
    if not isinstance(data, dict) or data.get("form") != FORM:
        raise NotADump(f"this is no dump of form {FORM}")
    parts = {"snapshot": Snapshot, "policy": Policy, "plan": Plan}
    try:
        snapshot, policy, plan = (decode(kind, data[name], name) for name, kind in parts.items())
        return Dump(float(data["at"]), _sharing_layouts(snapshot), policy, plan)
    except KeyError as missing:
        raise NotADump(f"{missing.args[0]} is missing") from None


def without_names(snapshot: Snapshot) -> Snapshot:
    """The same cluster as it is for who must not know whose it is. Kinds of cards keep their names."""
    return replace(snapshot, node_names=(), team_names=(), pool_names=())


def encode(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): encode(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [encode(one) for one in value]
    return value.__name__ if callable(value) else value


def decode(kind: Any, value: Any, where: str = "") -> Any:
    """The value of this annotation. Raises NotADump."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return decode(next(one for one in inner if one is not type(None)), value, where)
    if kind is Callable or origin is Callable:
        if value not in CALLABLES:
            raise NotADump(f"{where}: {value} is none of {', '.join(sorted(CALLABLES))}")
        return CALLABLES[value]
    try:
        return _decode(kind, origin or kind, inner, value, where)
    except (TypeError, ValueError, AttributeError) as wrong:
        raise wrong if isinstance(wrong, NotADump) else NotADump(f"{where}: {wrong}") from None


def _decode(kind: Any, origin: Any, inner: tuple, value: Any, where: str) -> Any:
    if is_dataclass(origin):
        return _decode_fields(kind, value, where)
    if origin is np.ndarray:
        return np.array(value)
    if origin is dict:
        key, one = inner or (str, Any)
        return {key(name): decode(one, what, f"{where}.{name}") for name, what in value.items()}
    if origin in (tuple, list):
        if not inner:
            return origin(value)
        every = inner[0] if origin is list or inner[-1] is Ellipsis else None
        each = [every] * len(value) if every else inner
        pairs = enumerate(zip(each, value, strict=True))
        return origin(decode(one, what, f"{where}[{place}]") for place, (one, what) in pairs)
    return value if origin is Any else origin(value)


def _decode_fields(kind: type, value: dict, where: str) -> Any:
    hints, given = get_type_hints(kind), {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = decode(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise NotADump(f"{where}.{field.name} is missing")
    return kind(**given)


def _sharing_layouts(snapshot: Snapshot) -> Snapshot:
    """Nodes that look alike share one object, as they do where they are loaded: what is known of one is of all."""
    known: dict = {}
    shared = (layout and known.setdefault((layout.pair, layout.near), layout) for layout in snapshot.layouts)
    return replace(snapshot, layouts=tuple(shared))
