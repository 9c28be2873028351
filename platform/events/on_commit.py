"""Work that a transaction leaves to its commit, in one callback for each connection."""

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

log = logging.getLogger("tessera.bus")

Flush = Callable[[Iterable[Any]], None]


class Batch:
    """What one transaction has collected: for each flush function the last value of each key."""

    def __init__(self) -> None:
        self._values: dict[Flush, dict[Hashable, Any]] = {}

    def add(self, flush: Flush, key: Hashable, value: Any) -> None:
        self._values.setdefault(flush, {})[key] = value

    def run(self) -> None:
        """Run each flush function once. What fails is logged: the commit is done."""
        for flush, values in self._values.items():
            try:
                flush(values.values())
            except Exception:
                log.exception("%s failed after a commit", flush.__name__)


_batches: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Batch, Callable[[], None]]] = WeakKeyDictionary()


def collect_on_commit(flush: Flush, key: Hashable, value: Any) -> None:
    """Give `value` to `flush` on commit, together with this transaction's others; at once where there is none."""
    if connections[DEFAULT_DB_ALIAS].in_atomic_block:
        _current_batch().add(flush, key, value)
    else:
        batch = Batch()
        batch.add(flush, key, value)
        batch.run()


def once_on_commit(key: Hashable, act: Callable[[], None]) -> None:
    """Run `act` on commit, once for each key."""
    collect_on_commit(_run_each, key, act)


def _current_batch() -> Batch:
    """Return the transaction's batch. A savepoint's rollback takes back a batch that was begun after it."""
    connection = connections[DEFAULT_DB_ALIAS]
    batch, run = _batches.get(connection, (None, None))
    if batch is None or not any(item[1] is run for item in connection.run_on_commit):
        batch = Batch()
        run = batch.run  # a bound method is a new object each time it is read
        _batches[connection] = batch, run
        transaction.on_commit(run, robust=True)
    return batch


def _run_each(acts: Iterable[Callable[[], None]]) -> None:
    for act in acts:
        try:
            act()
        except Exception:
            log.exception("a hint failed after a commit")
