"""What a runtime does: list nodes and containers, start and stop tasks.

A node is its name, a task its uuid in hex. Callers reconcile, so all calls may be repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from runtimes.contract.container import ContainerView
from runtimes.contract.node import NodeView
from runtimes.contract.task import TaskSpec
from runtimes.log_masking import LogMask

Tone = Literal["ok", "note", "bad"]


@dataclass(frozen=True)
class Capabilities:
    """What a runtime can do, with dotted names of its optional parts ("" for none).

    containers: a task may bring an image. own_addresses: each task has an address and all its ports. resizes: slices of
    running tasks. view: LiveView class; without it the runtime is polled. examine: health check, (runtime, numbers of
    teams, probe) to Findings; probe may run something. belongings: Belongings class. remains: function of task uuids,
    to those of which something runs here though they have no records. listening: function that returns the ports which
    programs of the machine hold, where tasks share them. sampler: Sampler class, of the runtime, where its processes
    see the machine; elsewhere agents send samples. late_logs: the platform takes in logs of its tasks, and masks them.
    """

    containers: bool
    name: str
    view: str = ""
    own_addresses: bool = False
    examine: str = ""
    belongings: str = ""
    remains: str = ""
    listening: str = ""
    sampler: str = ""
    resizes: bool = False
    late_logs: bool = False


@dataclass(frozen=True)
class Finding:
    """A health check result. tone: "note" works but matters. remedy: the fix, or ""."""

    about: str
    tone: Tone
    words: str
    remedy: str = ""


@dataclass(frozen=True)
class Belonging:
    """An object that an installation created in its engine. words: what goes with it. risk: lost data, or ""."""

    name: str
    uid: str
    words: str
    risk: str = ""


class Belongings(Protocol):
    """All that the installation `name` created in its engine, for uninstalling."""

    name: str

    def list_belongings(self) -> list[Belonging]: ...

    def remove(self, one: Belonging) -> None:
        """Request removal; repeatable. Raises Unavailable."""

    def is_gone(self, one: Belonging) -> bool: ...


class Runtime(Protocol):
    """The runtime contract; see tests/runtimes/contract."""

    capabilities: Capabilities

    def list_nodes(self) -> list[NodeView]: ...

    def list_containers(self) -> list[ContainerView]:
        """List all tasks started or stopped here and not forgotten."""

    def start(self, spec: TaskSpec) -> None:
        """Start a task once; repeatable. Raises Unavailable, Rejected."""

    def stop(self, uuid: str, grace_s: int, *, epoch: int, gid: int | None = None, unless_ran: bool = False) -> None:
        """Stop a task without waiting: checkpoint (unless grace_s is 0), SIGTERM, SIGKILL after grace_s.

        A task never started gets a tombstone against a late start. An older epoch than the task's is ignored: its
        sender does not know this task. gid: its team's, if known. unless_ran: skip if it may have run.
        """

    def resize(self, uuid: str, limits_mib: Mapping[str, int], *, serial: int) -> None:
        """Resize a task's card shares, by uuid, all or none, never below use. Raises Rejected, Unavailable.

        serial: grows with each resize, so late calls are ignored. The caller accounts.
        """

    def open_report(self, uuid: str) -> int | None:
        """Return a descriptor of the file in which a task reports numbers, which the caller closes.

        None where there is none: the task has not begun, is forgotten, or runs where nobody takes numbers. Raises
        Unavailable.
        """

    def forget(self, uuid: str, *, mask: LogMask | None = None) -> None:
        """Remove an ended task's remains from the node, except logs. A late start still runs nothing.

        mask: for its log, if that has yet to be brought; without one, the log of a task with secrets is not.
        """


class LiveView(Protocol):
    """Follows the engine's events while open, and keeps the list of containers."""

    def __enter__(self) -> "LiveView": ...

    def __exit__(self, *_: object) -> None: ...

    def list_containers(self) -> list[ContainerView]:
        """List known containers. Raises Unavailable before the first full list."""

    def is_there(self, uuid: str) -> bool:
        """Ask the engine whether an unlisted container exists. Raises Unavailable."""

    def wait(self, seconds: float) -> bool:
        """Wait for a change, at most so long; return whether one came."""

    def age_s(self) -> float:
        """Return seconds since the engine's last event or heartbeat."""

    def tidy(self) -> None:
        """Delete what is unneeded. Raises Unavailable."""

    def measures(self) -> dict[str, float]:
        """Return Prometheus metrics: {name with labels: value}."""


class Sampler(Protocol):
    """Tells what cards and tasks of one machine have used."""

    node_name: str

    def take(self) -> dict:
        """Return ticks for monitoring.samples.ingest. Raises Unavailable, OSError."""
