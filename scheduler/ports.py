"""Where the tasks of a node listen: no two that live there at the same port, unless each has an own address."""

from collections.abc import Iterable

from jobs.jobfile.spec import declared_ports, from_json
from jobs.models import Job, JobKind, Task
from scheduler.truth import load_ports

PORTS = range(23_000, 32_000)
"""Where masters listen, and tasks that did not get the port they declared: above what services use, below what the
kernel gives away by itself."""


def taken_ports(nodes: Iterable[int]) -> dict[int, set[int]]:
    """{node id: ports that its live tasks were given}. The nodes' rows are locked, so no two tasks get the same."""
    taken: dict[int, set[int]] = {node: set() for node in nodes}
    for node, ports in load_ports(taken):
        taken[node] |= set(ports.values())
    return taken


def free_port(taken: set[int], start: int = 0) -> int:
    """The first of PORTS, counted from `start` and round, that is not taken; it is from now on."""
    port = next(port for port in (PORTS[(start + i) % len(PORTS)] for i in range(len(PORTS))) if port not in taken)
    taken.add(port)
    return port


def map_ports(job: Job, task: Task, taken: set[int], *, alone: bool = False) -> dict[str, int]:
    """{declared: where this task listens instead}. A batch job gets the number it declared where no live task of its
    node has it; a notebook never does, since other programs of the machine love its number too. The search begins at a
    place of the task's own, so that an address is not soon another's.

    alone: there are no others at its address; `taken` is what else itself was given.
    """
    given: dict[str, int] = {}
    for declared in declared_ports(from_json(job.spec), task.role, task.rank):
        keep = (alone or job.kind != JobKind.INTERACTIVE) and declared not in taken
        given[str(declared)] = declared if keep else free_port(taken, task.uuid.int)
        taken.add(given[str(declared)])
    return given
