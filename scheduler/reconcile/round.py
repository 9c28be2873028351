"""One reconcile round: list, compare, dispatch, record. Polling and watching differ in how they dispatch alone."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from common.errors import StaleState
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import Runtime
from scheduler.reconcile.actions import FencedAction, RuntimeAction, build_stop_mark, run_action
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

ORDER = (Stop, Start, Resize, Forget)
"""Order of dispatch: what frees resources comes first."""
AT_ONCE = 50
"""Maximum number of actions dispatched together."""


class Dispatcher(Protocol):
    """How a round reaches the runtime."""

    def list_containers(self) -> Sequence[ContainerView]:
        """Raise Unavailable."""

    def leads(self, epoch: int) -> bool:
        """Return whether the round may go on."""

    def is_due(self, action: RuntimeAction) -> bool:
        """Return whether the action is to be dispatched in this round."""

    def is_behind(self, step: TaskObserved) -> bool:
        """Return whether the list was too old for this observation."""

    def dispatch(self, actions: Sequence[RuntimeAction], epoch: int) -> None:
        """Run or send actions; stops are marked already. Raise Unavailable."""


@dataclass(frozen=True)
class Round:
    """What a round saw and what was to be done."""

    seen: Sequence[ContainerView]
    steps: Sequence[Step]

    @property
    def moves(self) -> bool:
        """Whether another round soon pays, as something starts or changes."""
        return any(isinstance(step, Start | TaskObserved) for step in self.steps) or any(
            view.phase == "starting" for view in self.seen
        )


class Poller:
    """Dispatcher for runtimes that are asked: actions run here and now."""

    def __init__(self, runtime: Runtime):
        self._runtime = runtime

    def list_containers(self) -> Sequence[ContainerView]:
        return self._runtime.list_containers()

    def leads(self, epoch: int) -> bool:
        return True

    def is_due(self, action: RuntimeAction) -> bool:
        return True

    def is_behind(self, step: TaskObserved) -> bool:
        return False

    def dispatch(self, actions: Sequence[RuntimeAction], epoch: int) -> None:
        for action in actions:
            _try(type(action).__name__, partial(run_action, FencedAction(action, epoch), self._runtime))


def reconcile_once(dispatcher: Dispatcher, epoch: int) -> Round:
    """Run a round. Raise Unavailable if the containers cannot be listed."""
    rows = load_rows()
    seen = dispatcher.list_containers()
    ended = load_ended(find_unheld(seen, rows))
    steps = compare(rows, seen, ended, load_awaiting_log(ended))
    for name, act in _list_acts(steps, dispatcher, epoch):
        if not dispatcher.leads(epoch):
            break
        _try(name, act)
    return Round(seen, steps)


def _list_acts(steps: Sequence[Step], dispatcher: Dispatcher, epoch: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield named calls: marks of stops, actions, and then what was observed."""
    actions = [step for step in steps if isinstance(step, RuntimeAction) and dispatcher.is_due(step)]
    marks = [build_stop_mark(action) for action in actions if isinstance(action, Stop) and action.mark]
    stale = {mark.uuid for mark in marks}
    for some in in_batches(marks):
        yield "marks", partial(_mark, some, epoch, stale)
    actions = [
        replace(action, mark=False) if isinstance(action, Stop) else action
        for action in sorted(actions, key=lambda action: ORDER.index(type(action)))
        if action.uuid not in stale
    ]
    for at in range(0, len(actions), AT_ONCE):
        yield "actions", partial(dispatcher.dispatch, actions[at : at + AT_ONCE], epoch)
    for step in steps:
        if isinstance(step, TaskProgress):
            yield "progress", partial(record_progress, step, epoch)
    for some in in_batches(step for step in steps if isinstance(step, TaskObserved)):
        yield "observations", partial(_record, some, dispatcher, epoch)


def _try(name: str, act: Callable[[], None]) -> None:
    """Run a part of the round; drop it if it is stale, and leave it to a later round if the runtime is away."""
    try:
        act()
    except StaleState as stale:
        log.info("%s dropped: %s", name, stale)
    except Unavailable as away:
        log.warning("%s: the runtime is away: %s", name, away)


def _mark(marks: Sequence[TaskObserved], epoch: int, stale: set[str]) -> None:
    stale -= record_observations(marks, epoch)


def _record(observations: Sequence[TaskObserved], dispatcher: Dispatcher, epoch: int) -> None:
    """Record observations except losses that a late list explains."""
    record_observations([each for each in observations if not dispatcher.is_behind(each)], epoch)
