"""Load live holdings as rows and as one matrix."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scheduler.loading.row_cache import cached_rows, match_rows, memo_for

NONE = -1
"""Card id of holdings of CPU and memory, and NUMA node where it is not known."""
WHOSE = ("team", "user", "pool", "node", "gpu", "numa")
COLUMNS = len(WHOSE) + 5
"""Of the matrix."""


class HoldingRow(NamedTuple):
    """A holding; its row never changes except to end."""

    task: str
    team_id: int
    user_id: int
    pool_id: int
    node_id: int
    gpu_id: int | None
    numa: int | None
    gpu_milli: int
    cpu_milli: int
    memory_mib: int
    gpu_memory_mib: int
    gpu_compute_percent: int


@dataclass(frozen=True, eq=False)
class Holdings:
    """columns: int [H, COLUMNS]: ids of WHOSE, card/1000, core/1000, node MiB, card MiB, card percent."""

    rows: list[HoldingRow] = field(default_factory=list)
    columns: np.ndarray = field(default_factory=lambda: np.zeros((0, COLUMNS), dtype=np.int64))

    def of(self, whose: str) -> np.ndarray:
        """Return one id column, [H]."""
        return self.columns[:, WHOSE.index(whose)]

    def places_of(self, whose: str, places: Mapping[int, int], nowhere: int) -> np.ndarray:
        """Return each id's index, [H], `nowhere` if it has none."""
        if not places:
            return np.full(len(self.rows), nowhere)
        keys, values = (np.fromiter(each, np.int64, len(places)) for each in (places.keys(), places.values()))
        order, wanted = keys.argsort(), self.of(whose)
        found = order[np.minimum(keys.searchsorted(wanted, sorter=order), len(keys) - 1)]
        return np.where(keys[found] == wanted, values[found], nowhere)

    def sums(self, size: int, at: np.ndarray) -> np.ndarray:
        """Return amounts per index, [size, 5]. at: [H], `size` to skip."""
        amounts = self.columns[:, len(WHOSE) :]
        columns = [np.bincount(at, column, minlength=size + 1)[:size] for column in amounts.T]
        return np.stack(columns, axis=1).astype(np.int64)


def load_holdings() -> Holdings:
    rows = cached_rows("holdings", HoldingRow, *HoldingRow._fields)
    last = memo_for("holdings")
    if "known" not in last or last["known"].rows is not rows:
        last["known"] = build_holdings(rows, last.get("known", Holdings()))
    return last["known"]


def build_holdings(rows: list[HoldingRow], before: Holdings) -> Holdings:
    at = match_rows(rows, before.rows)
    columns, new = np.empty((len(rows), COLUMNS), dtype=np.int64), at < 0
    columns[~new] = before.columns[at[~new]]
    columns[new] = _as_numbers(rows[place] for place in new.nonzero()[0].tolist())
    return Holdings(rows, columns)


def _as_numbers(rows: Iterable[HoldingRow]) -> np.ndarray:
    lines = [
        (*row[1:5], *(NONE if value is None else value for value in (row.gpu_id, row.numa)), *row[7:]) for row in rows
    ]
    return np.array(lines, dtype=np.int64).reshape(-1, COLUMNS)
