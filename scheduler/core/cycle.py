"""One pass of the scheduler's mind. Read this first.

`allocate` goes through the waiting jobs in order and starts what fits and delays nobody before it; those that wait for
capacity stand in line, and the first keep a place in time. `take_back`, `reclaim` and `preempt` make room for these by
stopping others.
"""

from collections import Counter
from itertools import count, repeat

from scheduler.core.allocate import allocate
from scheduler.core.context import Cycle, Memory
from scheduler.core.grow import grow
from scheduler.core.maintenance import clear_machines
from scheduler.core.overtake import overtake
from scheduler.core.preempt import preempt, reclaim, take_back
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan, Policy, Waiting


def run_cycle(snapshot: Snapshot, policy: Policy, now: float, memory: Memory | None = None) -> Plan:
    """Decide what starts and why the rest waits. Same input, same plan; the snapshot stays as it was.

    memory: of whoever asks again and again for worlds of the same machines.
    """
    cycle = Cycle(snapshot.copy(), policy, now, memory)
    waiting = allocate(cycle)  # disturbs nobody, fills holes before reservations
    clear_machines(cycle)  # that go into maintenance
    take_back(cycle)  # pools whose window has closed
    reclaim(cycle)  # owners take back their guarantee
    preempt(cycle)  # priority
    overtake(cycle, waiting)  # short work, where the pool says so
    grow(cycle)  # elastic gangs that start, by what nobody waits for
    if cycle.memory.explains:
        explain(cycle, waiting)  # every waiting job has a reason and a position
    return cycle.plan


def explain(cycle: Cycle, line: list[Waiting]) -> None:
    """Give each waiting job its position: first the line for capacity, then those that wait for something else."""
    jobs = [*line, *cycle.aside]
    pools = Counter([job.pool for job in jobs])
    places = {pool: zip(count(1), repeat(of)) for pool, of in pools.items()}
    cycle.plan.positions.update((job.job, next(places[job.pool])) for job in jobs)
