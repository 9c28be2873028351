"""The runtime of the model: the tests' FakeRuntime, whose calls may be interrupted, fail, or succeed unheard."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Unavailable
from runtimes.contract.node import NodeView
from runtimes.contract.task import TaskSpec
from runtimes.log_masking import LogMask
from tests.fakes.runtime import FakeRuntime
from tests.loop.database import START, Database

ALIVE = ("starting", "running")


class Engine(FakeRuntime):
    """cut: nodes that do not answer; what is there goes on, and nobody can say what it does.

    away, unheard: how often of 1 a call fails, and how often its answer is lost although it was carried out.
    """

    def __init__(self, database: Database, nodes: list[NodeView], dice: Random) -> None:
        super().__init__(nodes, start_delay_s=0.2, now=START)
        self.database, self.dice = database, dice
        self.cut: set[str] = set()
        self.away = self.unheard = 0.0
        self.specs: dict[str, TaskSpec] = {}
        self.calls = 0
        self.on_stop: Callable[[str], None] = lambda uuid: None

    def alive(self) -> list[ContainerView]:
        """The truth, whoever can see it."""
        self.catch_up()
        return [task.view for task in self._tasks.values() if task.view.phase in ALIVE]

    def is_alive(self, uuid: str) -> bool:
        self.catch_up()
        return uuid in self._tasks and self._tasks[uuid].view.phase in ALIVE

    def last_seen(self, uuid: str) -> ContainerView | None:
        """How it is or ended; None where it was never here, or is forgotten."""
        return self._tasks[uuid].view if uuid in self._tasks else None

    def kept(self) -> list[str]:
        """What was not forgotten."""
        return list(self._tasks)

    def list_containers(self) -> list[ContainerView]:
        self._come_in()
        seen = [replace(v, phase="lost") if v.node in self.cut else v for v in super().list_containers()]
        self._go_out()
        return seen

    def start(self, spec: TaskSpec) -> None:
        self._come_in(spec.node)
        self.specs[spec.uuid] = spec
        super().start(spec)
        self._go_out()

    def stop(self, uuid: str, grace_s: int, *, epoch: int, gid: int | None = None, unless_ran: bool = False) -> None:
        task = self._tasks.get(uuid)
        self._come_in(task.view.node if task else "")
        self.on_stop(uuid)
        super().stop(uuid, grace_s, epoch=epoch, gid=gid, unless_ran=unless_ran)
        self._go_out()

    def resize(self, uuid: str, limits_mib: Mapping[str, int], *, serial: int) -> None:
        task = self._tasks.get(uuid)
        self._come_in(task.view.node if task else "")
        super().resize(uuid, limits_mib, serial=serial)
        if task is not None and serial == task.resized:
            spec = self.specs[uuid]
            shares = (replace(share, memory_mib=limits_mib.get(share.uuid, share.memory_mib)) for share in spec.gpus)
            self.specs[uuid] = replace(spec, gpus=tuple(shares))
        self._go_out()

    def forget(self, uuid: str, *, mask: LogMask | None = None) -> None:
        task = self._tasks.get(uuid)
        self._come_in(task.view.node if task else "")
        super().forget(uuid, mask=mask)
        self._go_out()

    def catch_up(self) -> None:
        self.now = self.database.now
        self._settle()

    def _come_in(self, node: str = "") -> None:
        self.calls += 1
        self.database.pause()
        self.catch_up()
        if node in self.cut or self.dice.random() < self.away:
            raise Unavailable("no answer")

    def _go_out(self) -> None:
        self.database.pause()  # a crash here is one between the deed and its record
        if self.dice.random() < self.unheard:
            raise Unavailable("done, and no answer")
