"""What a whole gang asks of quota and of the queue, worked out once for all jobs that ask alike."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduler.core.lending import OWN, lent_kinds
from scheduler.core.request import acceptable_kinds, kinds_in
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import GPU_MILLI, Ask, Role


@dataclass(frozen=True)
class Demand:
    """kinds: per role, bit mask of the kinds it accepts that its pool has or is lent at times (0 for CPU-only roles).

    least, most: [R] what the gang counts in quota on the cheapest and on the dearest of those kinds. reach: which cards
    it may use now, see `lending`.
    """

    gang: tuple[Role, ...]
    pool: int
    kinds: tuple[int, ...]
    least: np.ndarray
    most: np.ndarray
    reach: int = OWN

    def affordable(self, spare_milli: int) -> tuple[int, ...]:
        """`kinds` less those of which not even one task may cost `spare_milli` more than on the cheapest."""
        if spare_milli >= self.most[GPU_MILLI] - self.least[GPU_MILLI]:
            return self.kinds
        return tuple(
            sum(1 << kind for kind in kinds_in(kinds) if surcharge(role.ask, kinds, kind) <= spare_milli)
            for role, kinds in zip(self.gang, self.kinds, strict=True)
        )


def build_demand(
    snapshot: Snapshot, gang: tuple[Role, ...], pool: int, reach: int = OWN, at_times: int = OWN
) -> Demand:
    """reach: now. at_times: with the windows in which such a job could run."""
    has = snapshot.pool_kinds[pool] | lent_kinds(snapshot, reach | at_times)
    kinds = tuple(acceptable_kinds(role.ask) & has for role in gang)
    return Demand(gang, pool, kinds, _amounts(gang, kinds, min), _amounts(gang, kinds, max), reach)


def surcharge(ask: Ask, kinds: int, kind: int) -> int:
    """Thousandths of a card that one task costs more on this kind than on the cheapest of the mask."""
    return ask.gpus * (ask.need_milli[kind] - _card_milli(ask, kinds, min))


def _amounts(gang: tuple[Role, ...], kinds: tuple[int, ...], pick: Callable) -> np.ndarray:
    each = [
        (role.ask.gpus * _card_milli(role.ask, mask, pick), role.ask.cpu_milli, role.ask.memory_mib)
        for role, mask in zip(gang, kinds, strict=True)
    ]
    tasks = np.array([role.min for role in gang], dtype=np.int64)
    return tasks @ np.array(each, dtype=np.int64).reshape(-1, 3)


def _card_milli(ask: Ask, kinds: int, pick: Callable) -> int:
    return pick((ask.need_milli[kind] for kind in kinds_in(kinds)), default=0)
