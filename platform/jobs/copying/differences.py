"""What differs between two job files, by field: pure functions of what is stored of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """field: such as env.LR or roles.worker.gpu. before, after: None where one of them does not say."""

    field: str
    before: Any
    after: Any


def compare_files(one: dict, other: dict) -> list[Difference]:
    """Return the fields in which two files (jobfile.spec.to_json) differ, in the order of the first."""
    before, after = dict(_flatten(one)), dict(_flatten(other))
    fields = dict.fromkeys([*before, *after])
    found = [Difference(".".join(path), before.get(path), after.get(path)) for path in fields]
    return [difference for difference in found if difference.before != difference.after]


def _flatten(value: dict, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _flatten(item, (*path, key))
        else:
            yield (*path, key), item
