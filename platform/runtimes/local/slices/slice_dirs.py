"""The directory of a task's slice, removed when the task is forgotten.

    limits, usage                      see agent/slice/README.md
    libcuda.so.1, libnvidia-ml.so.1    ours
    driver/                            the driver's, called by ours
    slicectl                           for shim and debugging

First in LD_LIBRARY_PATH. In namespaces read-only but `usage`, and slice_view.py mounts ours over all driver copies.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtimes import slice_library
from runtimes.contract.task import GpuShare
from runtimes.local.slices.driver import Driver
from runtimes.slice_library import SHIMS, SLICECTL

MOUNTS, LIBRARY_PATH = "mounts", "library path"


@dataclass(frozen=True)
class SliceKeeper:
    """Sources of slices. context_bytes: of a CUDA context, by probe."""

    library: Path
    driver: Driver
    context_bytes: int


def make_slice(
    folder: Path, seen_at: str, keeper: SliceKeeper, shares: Sequence[GpuShare], *, namespaces: bool, uid: int | None
) -> dict:
    """Create the directory, return the plan's "slice". seen_at: in the task. uid: of `usage`, None for ours. Raises
    OSError.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    folder.parent.chmod(0o711)  # jobs of other accounts pass through
    real = folder / "driver"
    real.mkdir(mode=0o755)
    for name in SHIMS:
        driver_dir = os.path.join(seen_at, "driver")
        slice_library.put_shim(keeper.library, name, folder, driver_dir=driver_dir, slice_dir=seen_at)
        if namespaces:
            (real / name).touch(mode=0o644)  # mount point
        else:
            (real / name).symlink_to(keeper.driver.real[name])
    shutil.copy(keeper.library / SLICECTL, folder)
    limits = {share.uuid: share.memory_mib for share in shares}
    slice_library.create(keeper.library, folder, limits, keeper.context_bytes)
    usage = folder / "usage"
    if uid is not None:
        os.chown(usage, uid, -1)
    usage.chmod(0o600)
    return {
        "folder": str(folder),
        "seen_at": seen_at,
        "real": keeper.driver.real if namespaces else {},
        "guarded": namespaces or uid is not None,  # limits are read-only for programs
        "copies": [list(copy) for copy in keeper.driver.copies] if namespaces else [],
    }
