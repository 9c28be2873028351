"""Whether a gang fits at all: every way to put each task on cards of a node is tried. Shares no code with `place`."""

from itertools import combinations

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import TaskResources, WaitingJob


def fits_somehow(snapshot: Snapshot, job: WaitingJob) -> bool:
    """For clusters of a few nodes: the work grows with the product of all choices."""
    tasks = [role.ask for role in job.gang for _ in range(role.min)]
    return _fits(_Room(snapshot), tasks, job.pool)


class _Room:
    """What is free, in plain lists that a search changes and restores."""

    def __init__(self, snapshot: Snapshot):
        self.snapshot = snapshot
        self.mib, self.percent = snapshot.gpu_free_mib.tolist(), snapshot.gpu_free_percent.tolist()
        self.slices = snapshot.gpu_slices.tolist()
        self.cpu, self.memory = snapshot.node_cpu_free.tolist(), snapshot.node_memory_free.tolist()

    def take(self, ask: TaskResources, node: int, cards: tuple[int, ...], sign: int = 1) -> None:
        self.cpu[node] -= sign * ask.cpu_milli
        self.memory[node] -= sign * ask.memory_mib
        for card in cards:
            mib, percent = self.share(ask, card)
            self.mib[card] -= sign * mib
            self.percent[card] -= sign * percent
            self.slices[card] += sign

    def share(self, ask: TaskResources, card: int) -> tuple[int, int]:
        kind = int(self.snapshot.gpu_kind[card])
        if ask.whole:
            return int(self.snapshot.gpu_total_mib[card]), 100
        return ask.need_mib[kind], ask.need_percent[kind]

    def suits(self, ask: TaskResources, card: int, pool: int) -> bool:
        snapshot = self.snapshot
        if snapshot.gpu_pool[card] != pool or not snapshot.gpu_open[card]:
            return False
        if ask.preference[int(snapshot.gpu_kind[card])] < 0:
            return False
        if ask.whole and self.slices[card]:
            return False
        if not ask.whole and snapshot.gpu_max_slices[card] < 2:
            return False
        mib, percent = self.share(ask, card)
        return (
            self.slices[card] < snapshot.gpu_max_slices[card]
            and mib <= self.mib[card]
            and percent <= self.percent[card]
        )

    def choices(self, ask: TaskResources, pool: int) -> list[tuple[int, tuple[int, ...]]]:
        """(node, cards) that one task may take now."""
        found: list[tuple[int, tuple[int, ...]]] = []
        for node in range(len(self.cpu)):
            if not self.snapshot.node_open[node] or self.cpu[node] < ask.cpu_milli:
                continue
            if self.memory[node] < ask.memory_mib:
                continue
            if not ask.gpus:
                if self.snapshot.node_pool[node] == pool:
                    found.append((node, ()))
                continue
            here = [
                c for c, on in enumerate(self.snapshot.gpu_node.tolist()) if on == node and self.suits(ask, c, pool)
            ]
            alike = (cards for cards in combinations(here, ask.gpus) if self._one_kind(cards))
            found += [(node, cards) for cards in alike]
        return found

    def _one_kind(self, cards: tuple[int, ...]) -> bool:
        return len({int(self.snapshot.gpu_kind[card]) for card in cards}) == 1


def _fits(room: _Room, tasks: list[TaskResources], pool: int) -> bool:
    if not tasks:
        return True
    for node, cards in room.choices(tasks[0], pool):
        room.take(tasks[0], node, cards)
        try:
            if _fits(room, tasks[1:], pool):
                return True
        finally:
            room.take(tasks[0], node, cards, sign=-1)
    return False
