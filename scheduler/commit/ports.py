"""Assign ports that are unique per node or task address."""

from collections.abc import Iterable

from jobs.jobfile.spec import declared_ports, from_json
from jobs.models import Job, JobKind, Task
from scheduler.commit.store import load_ports

PORTS = range(23_000, 32_000)
"""Ports for masters and tasks that did not get their declared port: above those of services, below the
ephemeral ports of the kernel."""


def load_taken_ports(nodes: Iterable[int]) -> dict[int, set[int]]:
    """Return {node id: its tasks' ports}. Callers lock the nodes."""
    taken: dict[int, set[int]] = {node: set() for node in nodes}
    for node, ports in load_ports(taken):
        taken[node] |= set(ports.values())
    return taken


def find_free_port(taken: set[int], start: int = 0) -> int:
    """Take the first free port, searching from `start`."""
    port = next(port for port in (PORTS[(start + i) % len(PORTS)] for i in range(len(PORTS))) if port not in taken)
    taken.add(port)
    return port


def map_ports(job: Job, task: Task, taken: set[int], *, alone: bool = False) -> dict[str, int]:
    """Return {declared: actual} ports. Batch jobs keep free ones; notebooks do not, since other programs use theirs.

    The task's own start of search avoids early reuse. alone: own address.
    """
    given: dict[str, int] = {}
    for declared in declared_ports(from_json(job.spec), task.role, task.rank):
        keep = (alone or job.kind != JobKind.INTERACTIVE) and declared not in taken
        given[str(declared)] = declared if keep else find_free_port(taken, task.uuid.int)
        taken.add(given[str(declared)])
    return given
