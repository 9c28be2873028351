"""Mode `slice` on this machine: test the library, create and resize slices."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent.gpu.mps_daemon import Daemon, NoMps
from agent.gpu.slice_selftest import Failed
from runtimes import slice_library
from runtimes.contract.task import TaskSpec
from runtimes.gpu_sharing import SliceTrial
from runtimes.local.config import NodeConfig, NodeContext
from runtimes.local.node.isolation_probe import Isolation
from runtimes.local.slices.driver import Driver, find_driver
from runtimes.local.slices.slice_directory import LIBRARY_PATH, MOUNTS, make_slice_directory
from runtimes.local.slices.slice_selftest import Selftest, remember_success

OFF = "off"
AGAIN_AFTER_S = 600
SEEN_IN_IMAGES = "/tessera-slice"


@dataclass
class SliceManager:
    """Slices of this machine. context: without cards."""

    config: NodeConfig
    isolation: Callable[[], Isolation]
    context: Callable[[], NodeContext]
    trials: dict[str, SliceTrial] = field(default_factory=dict)  # by driver version
    tried_at: float = 0.0

    @property
    def library(self) -> Path:
        given = self.config.slice_library
        return Path(given) if given else slice_library.library_path(self.config.data_dir)

    @property
    def placement(self) -> str:
        """How tasks get the library."""
        return MOUNTS if self.isolation().namespaces else LIBRARY_PATH

    def folder_of(self, name: str) -> Path:
        """Return a slice's directory, outside our data where another account needs it."""
        isolation = self.isolation()
        if isolation.separate_uids and not isolation.namespaces:
            return Path(f"{self.config.run_dir}-tasks", f"{name}-slice")
        return self.config.tasks_dir / name / "slice"

    def test_library(self, version: str, uuid: str) -> SliceTrial:
        """Test the library on a card; cache success, retry failure later: the card may be full."""
        if self.config.slice_library == OFF:
            return SliceTrial(False, "Our own library is switched off.")
        known = self.trials.get(version)
        if known is None or (not known.works and time.monotonic() - self.tried_at > AGAIN_AFTER_S):
            self.trials, self.tried_at = {version: self._test_slice(version, uuid)}, time.monotonic()
        return self.trials[version]

    def _test_slice(self, version: str, uuid: str) -> SliceTrial:
        if not slice_library.is_built(self.library):
            return SliceTrial(False, "Our own library is not built: run bin/slice build and start anew.")
        driver, isolation = find_driver(), self.isolation()
        if driver is None:
            return SliceTrial(False, "The driver's libcuda.so.1 or libnvidia-ml.so.1 was not found on this machine.")
        key = [str(self.library), version, driver.real, isolation.words, isolation.namespaces]
        test = self._selftest("try-slice", driver, uuid)
        try:
            return remember_success(self.config.data_dir, "slice-trial", key, test.run)
        except (Failed, OSError) as error:
            return SliceTrial(False, f"Our own library was tried: {error}")
        finally:
            test.clear()

    def test_mps(self, version: str, uuid: str, mps: dict, daemon: Daemon) -> None:
        """Test a slice through MPS; cache success. Raises OSError."""
        driver, isolation = find_driver(), self.isolation()
        if driver is None:
            raise OSError("The driver's libraries were not found on this machine.")
        key = [str(self.library), version, daemon.program, isolation.words, str(isolation.namespaces)]
        test = self._selftest("try-mps", driver, uuid)
        try:
            remember_success(self.config.data_dir, "mps-trial", key, lambda: test.run_by_mps(mps, daemon))
        except (Failed, NoMps) as error:
            raise OSError(str(error)) from error
        finally:
            test.clear()

    def make(self, spec: TaskSpec) -> dict:
        """Create a task's slice. Raises OSError."""
        driver = find_driver()
        if driver is None:
            raise OSError("The libraries of the NVIDIA driver are not there.")
        tried = next(iter(self.trials.values()), None)
        context_bytes = tried.context_bytes if tried else 0
        folder = self.folder_of(spec.uuid)
        where = folder, SEEN_IN_IMAGES if spec.image else self._seen_at(folder), self.library, driver
        return make_slice_directory(*where, spec.gpus, self.isolation(), spec.uid, context_bytes)

    def resize(self, plan: dict, limits_mib: Mapping[str, int]) -> None:
        """Resize a slice, all cards or none. Raises OSError, slice_library.InUse."""
        if not plan["guarded"]:
            raise OSError("Jobs share the platform's account here: nobody could tell who changed a limit.")
        folder = Path(plan["folder"])
        before = {card["uuid"]: card["limit_bytes"] >> 20 for card in slice_library.read_slice(folder, folder)["cards"]}
        if unknown := limits_mib.keys() - before:
            raise OSError(f"Its slice has no card {', '.join(sorted(unknown))}.")
        done: list[str] = []
        try:
            for uuid, mib in limits_mib.items():
                slice_library.resize_slice(folder, folder, uuid, mib)
                done.append(uuid)
        except OSError:
            for uuid in done:
                with suppress(OSError):
                    slice_library.resize_slice(folder, folder, uuid, before[uuid])
            raise

    def _selftest(self, name: str, driver: Driver, uuid: str) -> Selftest:
        folder = self.folder_of(f"{name}-{os.getpid()}")
        return Selftest(self.library, driver, self.context(), folder, self._seen_at(folder), uuid)

    def _seen_at(self, folder: Path) -> str:
        return str(self.config.run_dir / "slice") if self.isolation().namespaces else str(folder)
