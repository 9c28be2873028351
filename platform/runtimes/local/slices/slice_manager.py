"""Mode `slice` on this machine: test the library, create and resize slices."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent.gpu.mps import Daemon
from runtimes import slice_library
from runtimes.contract.task import TaskSpec
from runtimes.gpu_sharing import SliceTrial
from runtimes.local.node.isolation_probe import Isolation
from runtimes.local.plan import Surroundings
from runtimes.local.slices.driver import find_driver
from runtimes.local.slices.slice_dirs import LIBRARY_PATH, MOUNTS, SliceKeeper, make_slice
from runtimes.local.slices.slice_selftest import OFF, Room, try_mps, try_slice

AGAIN_AFTER_S = 600


@dataclass
class SliceManager:
    """Slices of this machine. given: "off", a built library, or "" for data_dir's. around: without cards."""

    given: str
    data_dir: Path
    run_dir: Path
    isolation: Callable[[], Isolation]
    around: Callable[[], Surroundings]
    trials: dict[str, SliceTrial] = field(default_factory=dict)  # by driver version
    tried_at: float = 0.0

    @property
    def library(self) -> Path:
        return Path(self.given) if self.given else slice_library.place_of(self.data_dir)

    @property
    def placement(self) -> str:
        """How tasks get the library."""
        return MOUNTS if self.isolation().namespaces else LIBRARY_PATH

    def folder_of(self, name: str) -> Path:
        """Return a slice's directory, outside our data where another account needs it."""
        isolation = self.isolation()
        if isolation.own_uid and not isolation.namespaces:
            return Path(f"{self.run_dir}-tasks", f"{name}-slice")
        return self.data_dir / "tasks" / name / "slice"

    def test_library(self, driver: str, uuid: str) -> SliceTrial:
        """Test the library on a card; cache success, retry failure later: the card may be full."""
        if self.given == OFF:
            return SliceTrial(False, "Our own library is switched off.")
        known = self.trials.get(driver)
        if known is None or (not known.works and time.monotonic() - self.tried_at > AGAIN_AFTER_S):
            room = self._room("try-slice")
            self.trials = {driver: try_slice(self.library, self.data_dir, self.around(), room, driver, uuid)}
            self.tried_at = time.monotonic()
        return self.trials[driver]

    def try_mps(self, driver: str, uuid: str, mps: dict, daemon: Daemon) -> None:
        """Test a slice through MPS. Raises OSError."""
        isolation = self.isolation()
        key = [driver, daemon.program, isolation.words, str(isolation.namespaces)]
        try_mps(self.library, self.data_dir, self.around(), self._room("try-mps"), key, uuid, mps, daemon)

    def make(self, spec: TaskSpec) -> dict:
        """Create a task's slice. Raises OSError."""
        driver = find_driver()
        if driver is None:
            raise OSError("The libraries of the NVIDIA driver are not there.")
        tried = next(iter(self.trials.values()), None)
        keeper = SliceKeeper(self.library, driver, tried.context_bytes if tried else 0)
        isolation, folder = self.isolation(), self.folder_of(spec.uuid)
        owner = spec.uid if isolation.own_uid else None
        seen_at, namespaces = self._seen_at(folder), isolation.namespaces
        return make_slice(folder, seen_at, keeper, spec.gpus, namespaces=namespaces, uid=owner)

    def resize(self, plan: dict, limits_mib: Mapping[str, int]) -> None:
        """Resize a slice, all cards or none. Raises OSError, slice_library.InUse."""
        if not plan["guarded"]:
            raise OSError("Jobs share the platform's account here: nobody could tell who changed a limit.")
        folder = Path(plan["folder"])
        before = {card["uuid"]: card["limit_bytes"] >> 20 for card in slice_library.show(folder, folder)["cards"]}
        if unknown := limits_mib.keys() - before:
            raise OSError(f"Its slice has no card {', '.join(sorted(unknown))}.")
        done: list[str] = []
        try:
            for uuid, mib in limits_mib.items():
                slice_library.resize(folder, folder, uuid, mib)
                done.append(uuid)
        except OSError:
            for uuid in done:
                with suppress(OSError):
                    slice_library.resize(folder, folder, uuid, before[uuid])
            raise

    def _room(self, name: str) -> Room:
        folder = self.folder_of(f"{name}-{os.getpid()}")
        return Room(folder, f"{folder}-scratch", self._seen_at(folder))

    def _seen_at(self, folder: Path) -> str:
        return str(self.run_dir / "slice") if self.isolation().namespaces else str(folder)
