"""The loop of `manage.py watch`, for runtimes that report changes.

It shares a lease with the Celery reconcile, compares on each change, hint and second, and sends actions to workers.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from django.db import InterfaceError, OperationalError, connection

from events.record_and_publish import clear_hint
from jobs.states import TaskState
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import LiveView
from scheduler.lease import RENEW_S, acquire, newest_epoch, record_success, release, renew, take_hint
from scheduler.reconcile.actions import FencedAction, RuntimeAction
from scheduler.reconcile.compare import Forget, Step, Stop, TaskObserved
from scheduler.reconcile.orphans import OrphanCleanup, load_orphans
from scheduler.reconcile.round import AT_ONCE, reconcile_once

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


class WatchStale(Exception):
    """The runtime was silent for too long; replace this process."""


class WatchLoop:
    """Runs reconcile rounds while it leads, and is their dispatcher. send: to workers. ended: stops it."""

    def __init__(self, view: LiveView, send: Callable[[Sequence[FencedAction]], None], ended: threading.Event):
        self.view, self.ended = view, ended
        self._send = send
        self._handed: dict[tuple[str, str], float] = {}
        self._tidied_at = self._renewed_at = self.last_round_at = time.monotonic()
        self.rounds = 0
        self._orphans = OrphanCleanup()

    def run(self) -> None:
        """Lead or stand by until ended. Raise WatchStale."""
        while not self.ended.is_set():
            self.check_view_is_fresh()
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

    def list_containers(self) -> Sequence[ContainerView]:
        return self.view.list_containers()

    def check_view_is_fresh(self) -> None:
        """Raise WatchStale if the runtime is silent."""
        if (age := self.view.age_s()) > STALE_AFTER_S:
            raise WatchStale(f"Nothing was heard of the cluster for {age:.0f} s.")

    def round(self, epoch: int) -> None:
        """Compare once, record observations, dispatch actions."""
        clear_hint(NAME)
        try:
            done = reconcile_once(self, epoch)
        except Unavailable as away:
            log.info("no round: %s", away)
            return
        if not self.leads(epoch):
            return
        self._forget_sent(done.steps)
        self.rounds += 1
        self.last_round_at = time.monotonic()

    def is_live(self) -> bool:
        """Whether rounds go on and the view is fresh, for /livez."""
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
        while self.leads(epoch):
            self.check_view_is_fresh()
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

    def leads(self, epoch: int) -> bool:
        """Return whether it goes on, renewing the lease."""
        now = time.monotonic()
        if self.ended.is_set():
            return False
        if now - self._renewed_at > RENEW_S:
            if not renew(NAME, epoch):
                return False
            self._renewed_at = now
        return True

    def is_behind(self, step: TaskObserved) -> bool:
        return step.seen is None and step.state == TaskState.LOST and self.view.is_there(step.uuid)

    def is_due(self, action: RuntimeAction) -> bool:
        """Return whether to send it. An end is forgotten later: that may free a name which a start under way wants."""
        if isinstance(action, Forget):
            self._handed.setdefault(_key(action), time.monotonic())
        return time.monotonic() - self._handed.get(_key(action), float("-inf")) > AGAIN_S

    def dispatch(self, actions: Sequence[RuntimeAction], epoch: int) -> None:
        """Dispatch actions. Stops carry the newest epoch: runtimes ignore one older than its task."""
        newest = newest_epoch() if any(isinstance(action, Stop) for action in actions) else epoch
        self._send([FencedAction(action, newest if isinstance(action, Stop) else epoch) for action in actions])
        self._handed |= dict.fromkeys(map(_key, actions), time.monotonic())

    def _forget_sent(self, steps: Iterable[Step]) -> None:
        wanted = {_key(step) for step in steps if isinstance(step, RuntimeAction)}
        self._handed = {key: at for key, at in self._handed.items() if key in wanted}

    def _tidy(self, now: float, epoch: int) -> None:
        if now - self._tidied_at > TIDY_S:
            self._tidied_at = now
            threading.Thread(target=self._sweep, name="tidy", daemon=True).start()
            try:
                actions = self._orphans.plan_orphan_cleanup(load_orphans(self.view.list_containers()), now)
                for action in actions:
                    log.warning("%s is known to no row and never ran: %s", action.uuid, type(action).__name__)
                for at in range(0, len(actions), AT_ONCE):
                    self.dispatch(actions[at : at + AT_ONCE], epoch)
            except Unavailable as away:
                log.warning("strangers are not looked for: %s", away)

    def _sweep(self) -> None:
        """Clean up the runtime in a thread."""
        try:
            self.view.tidy()
        except Unavailable as away:
            log.warning("nothing is tidied: %s", away)


def _key(step: RuntimeAction) -> tuple[str, str]:
    return type(step).__name__, step.uuid
