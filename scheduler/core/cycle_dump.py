"""JSON dump of a cycle's input and plan, to report and replay wrong plans.

Values follow their type annotations. Older dumps load if newer fields have defaults.
"""

import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Plan, Policy
from scheduler.core.placement.scores import SCORES, spread_scores

FORMAT_VERSION = 1
NAMED_SCORES = {score.__name__: score for score, _ in (*SCORES, *spread_scores(SCORES))}
"""Callables that a policy may refer to by name."""


class InvalidDump(ValueError):
    """Invalid dump."""


@dataclass(frozen=True)
class CycleDump:
    """Input and plan of one cycle."""

    at: float
    snapshot: Snapshot
    policy: Policy
    plan: Plan


def encode_dump(cycle: CycleDump, *, names: bool = False) -> dict[str, Any]:
    """Encode a cycle as JSON data. names: keep the names of nodes, pools and teams."""
    snapshot = cycle.snapshot if names else strip_names(cycle.snapshot)
    return {
        "form": FORMAT_VERSION,
        "at": cycle.at,
        "policy": encode_value(cycle.policy),
        "snapshot": encode_value(snapshot),
        "plan": encode_value(cycle.plan),
    }


def decode_dump(data: Any) -> CycleDump:
    """Decode a cycle. Raises InvalidDump with the place of the error."""
    if not isinstance(data, dict) or data.get("form") != FORMAT_VERSION:
        raise InvalidDump(f"this is no dump of form {FORMAT_VERSION}")
    parts = {"snapshot": Snapshot, "policy": Policy, "plan": Plan}
    try:
        snapshot, policy, plan = (decode_value(kind, data[name], name) for name, kind in parts.items())
        return CycleDump(float(data["at"]), _share_layouts(snapshot), policy, plan)
    except KeyError as missing:
        raise InvalidDump(f"{missing.args[0]} is missing") from None


def strip_names(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without names of nodes, pools and teams."""
    return replace(snapshot, node_names=(), team_names=(), pool_names=())


def encode_value(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): encode_value(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [encode_value(one) for one in value]
    return value.__name__ if callable(value) else value


def decode_value(kind: Any, value: Any, where: str = "") -> Any:
    """Decode a value of this annotation. Raises InvalidDump."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return decode_value(next(one for one in inner if one is not type(None)), value, where)
    if kind is Callable or origin is Callable:
        if value not in NAMED_SCORES:
            raise InvalidDump(f"{where}: {value} is none of {', '.join(sorted(NAMED_SCORES))}")
        return NAMED_SCORES[value]
    try:
        return _decode_container(kind, origin or kind, inner, value, where)
    except (TypeError, ValueError, AttributeError) as wrong:
        raise wrong if isinstance(wrong, InvalidDump) else InvalidDump(f"{where}: {wrong}") from None


def _decode_container(kind: Any, origin: Any, inner: tuple, value: Any, where: str) -> Any:
    if is_dataclass(origin):
        return _decode_fields(kind, value, where)
    if origin is np.ndarray:
        return np.array(value)
    if origin is dict:
        key, one = inner or (str, Any)
        return {key(name): decode_value(one, what, f"{where}.{name}") for name, what in value.items()}
    if origin in (tuple, list):
        if not inner:
            return origin(value)
        every = inner[0] if origin is list or inner[-1] is Ellipsis else None
        each = [every] * len(value) if every else inner
        pairs = enumerate(zip(each, value, strict=True))
        return origin(decode_value(one, what, f"{where}[{place}]") for place, (one, what) in pairs)
    return value if origin is Any else origin(value)


def _decode_fields(kind: type, value: dict, where: str) -> Any:
    hints, given = get_type_hints(kind), {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = decode_value(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise InvalidDump(f"{where}.{field.name} is missing")
    return kind(**given)


def _share_layouts(snapshot: Snapshot) -> Snapshot:
    """Let nodes with equal links share one layout object, so that caches work as in production."""
    known: dict = {}
    shared = (layout and known.setdefault((layout.pair, layout.near), layout) for layout in snapshot.layouts)
    return replace(snapshot, layouts=tuple(shared))
