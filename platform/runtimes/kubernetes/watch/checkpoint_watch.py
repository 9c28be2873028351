"""Watch running tasks' checkpoint folders in a thread of its own: the volume may hang."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.causes import read_container_state
from runtimes.kubernetes.pods.views import has_ended, read_annotations, read_task_uuid
from runtimes.kubernetes.watch.informer_cache import Thing
from runtimes.storage.newest_change import find_newest_change
from runtimes.storage.open_beneath import open_beneath

log = logging.getLogger("tessera.kubernetes")

CHECK_EVERY_S = 10.0


class CheckpointWatch:
    """Tracks the newest checkpoint of each annotated pod."""

    def __init__(self, homes: Path, pods: Callable[[], list[Thing]], changed: threading.Event):
        self._homes, self._pods, self._changed = homes, pods, changed
        self._found: Mapping[str, datetime] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch-checkpoints", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop without waiting: the thread may hang."""
        self._ended.set()

    def newest_of(self, uuid: str) -> datetime | None:
        return self._found.get(uuid)

    def check_folders(self) -> None:
        found = {}
        for pod in self._pods():
            note = read_annotations(pod).get(names.ANNOTATION_CHECKPOINTS, "")
            if note and read_container_state(pod).get("running") and not has_ended(pod) and (at := self._newest(note)):
                found[read_task_uuid(pod)] = at
        changed, self._found = found != self._found, found
        if changed:
            self._changed.set()

    def _run(self) -> None:
        while not self._ended.wait(CHECK_EVERY_S):
            try:
                with suppress(Unavailable):  # no pods known yet
                    self.check_folders()
            except Exception:
                log.exception("the checkpoints of running tasks cannot be looked at")

    def _newest(self, note: str) -> datetime | None:
        home, _, path = note.partition("/")
        try:
            root = os.open(self._homes / home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            folder = open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)  # users may create links
        except OSError:
            return None
        finally:
            os.close(root)
        try:
            at = find_newest_change(f"/proc/self/fd/{folder}")
        finally:
            os.close(folder)
        return datetime.fromtimestamp(min(at, datetime.now(UTC).timestamp()), UTC) if at else None
