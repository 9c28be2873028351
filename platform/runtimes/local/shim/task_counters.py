"""Count what a task uses, as totals since it began, from its control groups or else from /proc. Few imports.

    cpu_ms, read_kib, write_kib             totals, which never decrease
    memory_mib, peak_mib, processes         now; memory without file cache that the kernel can drop

What cannot be known is absent, never 0. Network is: tasks share the machine's network, where the kernel counts for all.
"""

import time
from collections.abc import Callable, Iterable

from agent.usage.group_counters import Counters, keep_totals, read_counters

COUNT_EVERY_S = 5.0
"""The kernel integrates meanwhile, and holds the peak: counting more often would only cost more."""


class TaskCounters:
    """Counts a task at intervals and writes the newest counters. reaped_ms: CPU time of ended children of the shim."""

    def __init__(self, memory_kind: str, groups: Iterable[str], reaped_ms: Callable[[], int]):
        self.kind, self.groups = memory_kind, list(groups)
        self.reaped_ms = reaped_ms
        self.before = reaped_ms()
        self.next_at = 0.0
        self.totals: Counters = {}

    def count(self, pids: Iterable[int], helper: int | None, resident_mib: int | None) -> dict | None:
        """Return what is to be told, None before the next time.

        pids, resident_mib: of the tree, where no group tells. helper: our process that reaps the task's.
        """
        if (now := time.monotonic()) < self.next_at:
            return None
        self.next_at = now + COUNT_EVERY_S
        counters = read_counters(self.kind, self.groups, pids, helper, self.reaped_ms() - self.before)
        if "memory_mib" not in counters and resident_mib is not None:
            counters |= {"memory_mib": resident_mib, "peak_mib": resident_mib}
        keep_totals(self.totals, counters)
        return {"at_s": time.clock_gettime(time.CLOCK_BOOTTIME), "counters": counters}
