"""Processes that run the product's code and can be stopped, cut off or killed between any two statements."""

from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from tests.loop.database import ConnectionLost, Database, Transaction


class Process:
    """One worker. rest: what its modules remember (tasks._rest, memory._last). epochs: the terms that it took."""

    def __init__(self, database: Database, name: str, body: Callable[[], object]) -> None:
        self.database, self.name = database, name
        self.transaction: Transaction | None = None
        self.waits: Callable[[], list[Transaction]] | None = None
        self.epochs: dict[str, int] = {}
        self.focus: int | None = None  # the job that it is about
        self.budget = 0
        self.killed = False
        self.trouble: BaseException | None = None
        self.crash: BaseException | None = None
        self._hub = getcurrent()
        self._greenlet = greenlet(self._run)
        self._body = body

    @property
    def done(self) -> bool:
        return self._greenlet.dead

    @property
    def runnable(self) -> bool:
        return not self.done and not (self.waits is not None and self.waits())

    def run(self, pauses: int) -> None:
        """Let it go on until it has passed so many of its pauses, waits for a lock, or is done."""
        self.budget = pauses
        self.database.process = self
        try:
            self._greenlet.switch()
        finally:
            self.database.process = None

    def kill(self) -> None:
        """It vanishes where it stands; the server rolls back what it had open."""
        self.killed = True
        self.database.process = self
        try:
            self.database.rollback()
            if self._greenlet:
                self._greenlet.throw(GreenletExit)
        finally:
            self.database.process = None

    # called by what it runs

    def pause(self) -> None:
        if self.killed:
            raise GreenletExit
        self.budget -= 1
        if self.budget < 0:
            self._hub.switch()
            if self.killed:
                raise GreenletExit
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            if isinstance(trouble, ConnectionLost):
                self.database.rollback()
            raise trouble

    def wait_for(self, in_the_way: Callable[[], list[Transaction]]) -> None:
        self.waits = in_the_way
        try:
            self._hub.switch()
        finally:
            self.waits = None
        if self.killed:
            raise GreenletExit
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            self.database.rollback()
            raise trouble

    def _run(self) -> Any:
        try:
            self._body()
        except GreenletExit:
            raise
        except BaseException as error:
            self.crash = error
