"""Containers that bear this installation's name and that no row knows: of another database, or from after its backup.

One that has run may be somebody's work: it is told to the admin, who ends it, and no timer ever does. One that never
ran, and that no row knows for ten minutes of looks, is nobody's: it is removed.
"""

import time
from collections.abc import Iterable, Sequence

from images.models import Fetch
from jobs.models import Task
from runtimes.base import ContainerView, Runtime, Unavailable
from scheduler.reconcile import Forget, Stop
from scheduler.specs import GRACE_S

UNKNOWN_S = 600.0
LOOK_S = 0.5


class Strangers:
    """Remembers since when each of those that never ran is unknown."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def look(self, strangers: Iterable[ContainerView], now: float) -> list[Stop | Forget]:
        """What to do about them. Pure but for what it remembers. now: seconds of a clock that never jumps."""
        idle = {view.uuid: view for view in strangers if never_ran(view)}
        self._since = {uuid: self._since.get(uuid, now) for uuid in idle}
        old = [view for uuid, view in sorted(idle.items()) if now - self._since[uuid] >= UNKNOWN_S]
        return [Forget(view.uuid) if view.phase == "exited" else _discard(view.uuid) for view in old]


def never_ran(view: ContainerView) -> bool:
    return view.started_at is None and view.phase in ("starting", "exited")


def _discard(uuid: str) -> Stop:
    """It may begin to run before a worker comes to this."""
    return Stop(uuid, 0, "", mark=False, unless_ran=True)


def load_strangers(seen: Sequence[ContainerView]) -> list[ContainerView]:
    """Those of the seen containers that no row knows: of a task, or of an image that is fetched ahead. What is seen was
    asked for before the rows are.
    """
    uuids = [view.uuid for view in seen]
    known = {
        uuid.hex
        for rows in (Task.objects, Fetch.objects)
        for uuid in rows.filter(uuid__in=uuids).values_list("uuid", flat=True)
    }
    return [view for view in seen if view.uuid not in known]


def end_stranger(runtime: Runtime, uuid: str, within_s: float) -> bool:
    """Stop and forget it, as somebody asked for; False where it does not end in time. Raises Unavailable, Rejected."""
    until = time.monotonic() + within_s
    runtime.stop(uuid, GRACE_S, epoch=time.time_ns() // 1_000_000)  # no older than any epoch: they follow the clock
    while time.monotonic() < until:
        view = next((each for each in runtime.list_containers() if each.uuid == uuid), None)
        if view is None:
            return True
        if view.phase == "exited":
            try:
                runtime.forget(uuid)
            except Unavailable:
                pass  # its kubelet is at its last words about it
        time.sleep(LOOK_S)
    return False
