"""Find nodes and cards for a gang: all of its tasks, or nothing."""

from dataclasses import dataclass

from scheduler.core.demand import Demand, surcharge
from scheduler.core.keep import Keep
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table
from scheduler.core.types import Ask, CardShare, Placement, Role, TaskPlace, Waiting

ANY_QUOTA = 2**62
"""`spare_milli` where limits are not the question."""


@dataclass(frozen=True)
class Shortfall:
    """A gang did not fit: `have` of its tasks did, and `request` is what the next one asked."""

    have: int
    request: Request


def place(
    snapshot: Snapshot,
    table: Table,
    job: Waiting,
    demand: Demand,
    kinds: tuple[int, ...],
    spare_milli: int,
    keep: Keep | None = None,
) -> Placement | Shortfall:
    """Take the job's resources and say where, or leave the snapshot as it was and say how far it went.

    kinds: per role, bit mask of the kinds that may be used now. spare_milli: quota left beyond the cheapest kinds.
    keep: the nodes that it leaves to others.
    Greedy, the largest tasks first; where a role of several finds no place, once more with that role first. A gang that
    only fits in a cleverer way is not found.
    """
    order = _largest_first(job.gang)
    result = _place_in_order(order, snapshot, table, job, demand, kinds, spare_milli, keep)
    if isinstance(result, Shortfall) and result.have and len(job.gang) > 1:
        missing = order[result.have][0]
        first = sorted(order, key=lambda task: task[0] != missing)
        again = _place_in_order(first, snapshot, table, job, demand, kinds, spare_milli, keep)
        return again if isinstance(again, Placement) else result
    return result


def _place_in_order(
    order: list[tuple[int, int]],
    snapshot: Snapshot,
    table: Table,
    job: Waiting,
    demand: Demand,
    kinds: tuple[int, ...],
    spare_milli: int,
    keep: Keep | None,
) -> Placement | Shortfall:
    taken: list[TaskPlace] = []
    for index, rank in order:
        role = job.gang[index]
        now = kinds[index] & demand.affordable(spare_milli)[index]
        request, node = _best_node(table, role.ask, job.pool, now, demand.reach, keep)
        if node < 0:
            for task in reversed(taken):
                snapshot.give_back_task(task)
            return Shortfall(len(taken), request)
        chosen = table.choose_cards(request, node) if role.ask.gpus else []
        task = _task_on(snapshot, request, role, rank, node, chosen)
        snapshot.take_task(task)
        taken.append(task)
        keep = keep.after(task) if keep and task.cards else keep
        if task.cards:
            spare_milli -= surcharge(role.ask, demand.kinds[index], int(snapshot.gpu_kind[task.cards[0].gpu]))
    tasks = tuple(sorted(taken, key=lambda task: task.rank))
    snapshot.charge(tasks, job)
    return Placement(job.job, tasks)


def _best_node(table: Table, ask: Ask, pool: int, kinds: int, reach: int, keep: Keep | None) -> tuple[Request, int]:
    found = Request(ask, pool, kinds, reach), -1
    for allowed in keep.choices(ask, kinds) if keep else (None,):
        found = table.best_node(ask, pool, kinds, reach, allowed)
        if found[1] >= 0:
            break
    return found


def _largest_first(gang: tuple[Role, ...]) -> list[tuple[int, int]]:
    """(index of the role, rank) of every task, those that are hardest to place first."""
    order = [index for index, role in enumerate(gang) for _ in range(role.min)]
    tasks = [(index, rank) for rank, index in enumerate(order)]
    if len(gang) == 1:
        return tasks
    return sorted(tasks, key=lambda task: (size(gang[task[0]]), -task[1]), reverse=True)


def size(role: Role) -> tuple[int, bool, int, int]:
    """The larger, the harder a task of the role is to place."""
    return role.ask.gpus, role.ask.whole, role.ask.cpu_milli, role.ask.memory_mib


def _task_on(snapshot: Snapshot, request: Request, role: Role, rank: int, node: int, chosen: list[int]) -> TaskPlace:
    cards = tuple(_share(snapshot, request, gpu) for gpu in chosen)
    return TaskPlace(role.name, rank, node, cards, role.ask.cpu_milli, role.ask.memory_mib)


def _share(snapshot: Snapshot, request: Request, gpu: int) -> CardShare:
    ask, kind = request.ask, int(snapshot.gpu_kind[gpu])
    if ask.whole:
        return CardShare(gpu, int(snapshot.gpu_total_mib[gpu]), 100, ask.need_milli[kind])
    return CardShare(gpu, ask.need_mib[kind], ask.need_percent[kind], ask.need_milli[kind])
