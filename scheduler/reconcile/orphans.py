"""Find orphans: this installation's containers without a row, as after a restore.

Those that ran may be work, so only admins end them; others are removed after ten minutes.
"""

import time
from collections.abc import Iterable, Sequence

from images.models import Fetch
from jobs.models import Task
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import Runtime
from scheduler.lease import newest_epoch
from scheduler.reconcile.compare import Forget, Stop
from scheduler.reconcile.task_specs import GRACE_S

UNKNOWN_S = 600.0
SEARCH_EVERY_S = 0.5


class OrphanCleanup:
    """Remembers orphans that never ran."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def plan_orphan_cleanup(self, strangers: Iterable[ContainerView], now: float) -> list[Stop | Forget]:
        """Return stops and forgets of orphans that never ran and are ten minutes old. now: monotonic seconds."""
        idle = {view.uuid: view for view in strangers if never_ran(view)}
        self._since = {uuid: self._since.get(uuid, now) for uuid in idle}
        old = [view for uuid, view in sorted(idle.items()) if now - self._since[uuid] >= UNKNOWN_S]
        return [Forget(view.uuid) if view.phase == "exited" else _discard(view.uuid) for view in old]


def never_ran(view: ContainerView) -> bool:
    """Whether it was created and never started."""
    return view.started_at is None and view.phase in ("starting", "exited")


def _discard(uuid: str) -> Stop:
    """Return a stop that spares a container that ran meanwhile."""
    return Stop(uuid, 0, "", mark=False, unless_ran=True)


def load_orphans(seen: Sequence[ContainerView]) -> list[ContainerView]:
    """Return containers without a task or prepull. List them before calling."""
    uuids = [view.uuid for view in seen]
    known = {
        uuid.hex
        for rows in (Task.objects, Fetch.objects)
        for uuid in rows.filter(uuid__in=uuids).values_list("uuid", flat=True)
    }
    return [view for view in seen if view.uuid not in known]


def stop_orphan(runtime: Runtime, uuid: str, within_s: float) -> bool:
    """Stop and forget a container; False on timeout. Raise Unavailable, Rejected."""
    until = time.monotonic() + within_s
    runtime.stop(uuid, GRACE_S, epoch=max(time.time_ns() // 1_000_000, newest_epoch()))
    while time.monotonic() < until:
        view = next((each for each in runtime.list_containers() if each.uuid == uuid), None)
        if view is None:
            return True
        if view.phase == "exited":
            try:
                runtime.forget(uuid)
            except Unavailable:
                pass  # the kubelet is still reading its log
        time.sleep(SEARCH_EVERY_S)
    return False
