"""One reconcile round for runtimes that are polled: list, compare, act."""

import logging
from collections.abc import Callable
from functools import partial

from common.errors import StaleState
from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import Runtime
from scheduler.reconcile.actions import FencedAction, run_action
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

log = logging.getLogger("tessera.reconcile")


def reconcile_once(runtime: Runtime, epoch: int) -> bool:
    """Run a round; return whether another soon pays, as something moves. Raise Unavailable."""
    rows = load_rows()
    seen = runtime.list_containers()
    ended = load_ended(find_unheld(seen, rows))
    steps = compare(rows, seen, ended, load_awaiting_log(ended))
    actions = [step for step in steps if isinstance(step, Start | Stop | Resize | Forget)]
    for step in steps:
        if isinstance(step, TaskProgress):
            _dropping_stale(step, partial(record_progress, step, epoch))
    for some in in_batches(step for step in steps if isinstance(step, TaskObserved)):
        record_observations(some, epoch)
    for action in actions:
        _dropping_stale(action, partial(run_action, FencedAction(action, epoch), runtime))
    moves = any(isinstance(step, Start | TaskObserved) for step in steps)
    return moves or any(view.phase == "starting" for view in seen)


def _dropping_stale(step: Step, act: Callable[[], None]) -> None:
    """Run one step; drop it if stale."""
    try:
        act()
    except StaleState as stale:
        log.info("%s dropped: %s", type(step).__name__, stale)
    except Unavailable as away:
        log.warning("%s waits for the runtime: %s", type(step).__name__, away)
