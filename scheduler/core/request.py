"""A request class: tasks that are alike for every filter and score, so that they are computed once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.core.lending import OWN, windows_in
from scheduler.core.types import Ask


@dataclass(frozen=True)
class Request:
    """One task's ask in a pool, on the kinds of cards in `kinds` (a bit mask over kinds).

    reach: on which cards, see `lending`.
    """

    ask: Ask
    pool: int
    kinds: int
    reach: int = OWN

    @cached_property
    def accepts(self) -> np.ndarray:
        """[K] bool: may the task go to cards of this kind?"""
        return np.array([bool(self.kinds >> kind & 1) for kind in range(len(self.ask.preference))], dtype=bool)

    @cached_property
    def windows(self) -> list[int]:
        return windows_in(self.reach)

    @cached_property
    def need_mib(self) -> np.ndarray:
        return np.array(self.ask.need_mib, dtype=np.int64)

    @cached_property
    def need_percent(self) -> np.ndarray:
        return np.array(self.ask.need_percent, dtype=np.int64)

    @cached_property
    def rank(self) -> np.ndarray:
        """[K] int: preference, for the kinds that `accepts` allows."""
        return np.array(self.ask.preference, dtype=np.int64)

    @cached_property
    def one_rank(self) -> bool:
        """Are all allowed kinds equally good?"""
        return len(np.unique(self.rank[self.accepts])) <= 1


def kinds_in(mask: int) -> list[int]:
    """The kinds of a bit mask, ascending."""
    return [kind for kind in range(mask.bit_length()) if mask >> kind & 1]


def acceptable_kinds(ask: Ask) -> int:
    """Bit mask of the kinds that an ask does not refuse."""
    return sum(1 << kind for kind, rank in enumerate(ask.preference) if rank >= 0) if ask.gpus else 0
