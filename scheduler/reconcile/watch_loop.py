"""The loop of `manage.py watch`, for runtimes that report changes.

It shares a lease with the Celery reconcile, compares on each change, hint and second, and sends actions to workers.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from django.db import InterfaceError, OperationalError, connection

from common.errors import StaleState
from events.hints import clear_hint
from jobs.states import TaskState
from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import LiveView
from scheduler.lease import RENEW_S, acquire, newest_epoch, record_success, release, renew, take_hint
from scheduler.reconcile.actions import FencedAction, RuntimeAction, build_stop_mark
from scheduler.reconcile.compare import (
    Forget,
    Resize,
    Start,
    Step,
    Stop,
    TaskObserved,
    TaskProgress,
    compare,
    find_unheld,
    load_awaiting_log,
    load_ended,
    load_rows,
)
from scheduler.reconcile.observations import in_batches, record_observations, record_progress
from scheduler.reconcile.orphans import OrphanFinder, load_orphans

log = logging.getLogger("tessera.watch")

NAME = "reconcile"
LOOK_S = 0.1
ROUND_S = 1.0
AGAIN_S = 10.0
"""An action without effect is sent again after this time."""
TIDY_S = 300.0
STALE_AFTER_S = 300.0
"""If the runtime is silent for so long, the process ends so that a new one replaces it."""
LIVE_S = 60.0
LONG_ROUND_S, REST = 0.05, 3.0
"""After a round longer than LONG_ROUND_S it pauses for REST times the excess, at most a second: when thousands
of tasks start, each of their changes would otherwise start another round.
"""
ACTIONS_QUEUE = (Stop, Start, Resize, Forget)
"""Order of dispatch: what frees resources comes first."""
AT_ONCE = 50
"""Maximum number of actions in one message."""


class WatchStale(Exception):
    """The runtime was silent for too long; replace this process."""


class WatchLoop:
    """Runs reconcile rounds. send: dispatches actions. ended: stops it."""

    def __init__(self, view: LiveView, send: Callable[[Sequence[FencedAction]], None], ended: threading.Event):
        self.view, self.ended = view, ended
        self._send = send
        self._handed: dict[tuple[str, str], float] = {}
        self._tidied_at = self._renewed_at = self.last_round_at = time.monotonic()
        self.rounds = 0
        self._orphans = OrphanFinder()

    def run(self) -> None:
        """Lead or stand by until ended. Raise Blind."""
        while not self.ended.is_set():
            self.look()
            try:
                if (epoch := acquire(NAME)) is None:
                    self.last_round_at = time.monotonic()  # another leader counts as alive
                    self.ended.wait(ROUND_S)
                    continue
                try:
                    self._lead(epoch)
                finally:
                    release(NAME, epoch)
            except (InterfaceError, OperationalError) as gone:  # retried after ROUND_S
                log.warning("watch waits for the database: %s", gone)
                connection.close()
                self.ended.wait(ROUND_S)

    def look(self) -> None:
        """Raise Blind if the runtime is silent."""
        if (age := self.view.age_s()) > STALE_AFTER_S:
            raise WatchStale(f"Nothing was heard of the cluster for {age:.0f} s.")

    def round(self, epoch: int) -> None:
        """Compare once, record observations, dispatch actions."""
        clear_hint(NAME)
        rows = load_rows()
        try:
            seen = self.view.list_containers()
        except Unavailable as away:
            log.info("no round: %s", away)
            return
        ended = load_ended(find_unheld(seen, rows))
        steps = compare(rows, seen, ended, load_awaiting_log(ended))
        for act in self._acts(steps, epoch):
            if self.ended.is_set() or not self._holds(epoch):
                return
            try:
                act()
            except StaleState as stale:
                log.info("a step is dropped: %s", stale)
            except Unavailable as away:
                log.warning("a step waits for the runtime: %s", away)
        self._forget_sent(steps)
        self.rounds += 1
        self.last_round_at = time.monotonic()

    def is_live(self) -> bool:
        return time.monotonic() - self.last_round_at < LIVE_S and self.view.age_s() < STALE_AFTER_S

    def measures(self) -> dict[str, float]:
        own = {
            "tessera_loop_last_ok_age_seconds": time.monotonic() - self.last_round_at,
            "tessera_watch_rounds_total": self.rounds,
            "tessera_watch_handed_out": len(self._handed),
        }
        return own | self.view.measures()

    def _lead(self, epoch: int) -> None:
        self._renewed_at, due = time.monotonic(), True
        while not self.ended.is_set() and self._holds(epoch):
            self.look()
            now = time.monotonic()
            if due or take_hint(NAME, epoch) or now - self.last_round_at > ROUND_S:
                self.round(epoch)
                record_success(NAME, epoch, round(1000 * (time.monotonic() - now)))
                self._tidy(now, epoch)
                self._rest(self.last_round_at - now)
            due = self.view.wait(LOOK_S)

    def _rest(self, took_s: float) -> None:
        if took_s > LONG_ROUND_S:
            self.ended.wait(min(REST * (took_s - LONG_ROUND_S), ROUND_S))

    def _holds(self, epoch: int) -> bool:
        """Return whether it leads, renewing the lease."""
        now = time.monotonic()
        if now - self._renewed_at > RENEW_S:
            if not renew(NAME, epoch):
                return False
            self._renewed_at = now
        return True

    def _acts(self, steps: Sequence[Step], epoch: int) -> Iterator[Callable[[], None]]:
        """Yield calls: stops first, forgets last, actions before recordings."""
        due = [step for step in steps if isinstance(step, RuntimeAction) and self._is_due(step)]
        marks = [build_stop_mark(action) for action in due if isinstance(action, Stop) and action.mark]
        stale = {mark.uuid for mark in marks}
        for some in in_batches(marks):
            yield partial(_mark, some, epoch, stale)
        due = sorted(
            (action for action in due if action.uuid not in stale), key=lambda action: ACTIONS_QUEUE.index(type(action))
        )
        for at in range(0, len(due), AT_ONCE):
            yield partial(self._send_actions, due[at : at + AT_ONCE], epoch)
        for step in steps:
            if isinstance(step, TaskProgress):
                yield partial(record_progress, step, epoch)
        for some in in_batches(step for step in steps if isinstance(step, TaskObserved)):
            yield partial(self._record, some, epoch)

    def _record(self, observations: Sequence[TaskObserved], epoch: int) -> None:
        """Record observations except losses that a late cache explains."""
        record_observations([each for each in observations if not self._is_behind(each)], epoch)

    def _is_behind(self, step: TaskObserved) -> bool:
        return step.seen is None and step.state == TaskState.LOST and self.view.is_there(step.uuid)

    def _is_due(self, action: RuntimeAction) -> bool:
        return time.monotonic() - self._handed.get(_key(action), float("-inf")) > AGAIN_S

    def _send_actions(self, actions: Sequence[RuntimeAction], epoch: int) -> None:
        """Dispatch actions. Stops carry the newest epoch: runtimes ignore one older than its task."""
        newest = newest_epoch() if any(isinstance(action, Stop) for action in actions) else epoch
        self._send(
            [
                FencedAction(replace(action, mark=False), newest)
                if isinstance(action, Stop)
                else FencedAction(action, epoch)
                for action in actions
            ]
        )
        self._handed |= dict.fromkeys(map(_key, actions), time.monotonic())

    def _forget_sent(self, steps: Iterable[Step]) -> None:
        wanted = {_key(step) for step in steps if isinstance(step, RuntimeAction)}
        self._handed = {key: at for key, at in self._handed.items() if key in wanted}

    def _tidy(self, now: float, epoch: int) -> None:
        if now - self._tidied_at > TIDY_S:
            self._tidied_at = now
            threading.Thread(target=self._sweep, name="tidy", daemon=True).start()
            try:
                actions = self._orphans.find_orphans(load_orphans(self.view.list_containers()), now)
                for action in actions:
                    log.warning("%s is known to no row and never ran: %s", action.uuid, type(action).__name__)
                for at in range(0, len(actions), AT_ONCE):
                    self._send_actions(actions[at : at + AT_ONCE], epoch)
            except Unavailable as away:
                log.warning("strangers are not looked for: %s", away)

    def _sweep(self) -> None:
        """Clean up the runtime in a thread."""
        try:
            self.view.tidy()
        except Unavailable as away:
            log.warning("nothing is tidied: %s", away)


def _mark(marks: Sequence[TaskObserved], epoch: int, stale: set[str]) -> None:
    stale -= record_observations(marks, epoch)


def _key(step: RuntimeAction) -> tuple[str, str]:
    return type(step).__name__, step.uuid
