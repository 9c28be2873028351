"""What a task finds of its slice, in one directory of its own. Made before the task starts, gone when it is forgotten.

    limits, usage                      see agent/slice/README.md
    libcuda.so.1, libnvidia-ml.so.1    ours, in the driver's place
    driver/                            the real ones, which ours pass on to
    slicectl                           for the shim and for whoever must look by hand

It is first in LD_LIBRARY_PATH. In namespaces it appears read-only but for `usage`, and ours are mounted over every copy
of the driver's (slice_view.py).
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtimes import slice_library
from runtimes.base import GpuShare
from runtimes.local.driver import Driver
from runtimes.slice_library import SHIMS, SLICECTL

MOUNTS, LIBRARY_PATH = "mounts", "library path"


@dataclass(frozen=True)
class SliceKeeper:
    """library: where it is built. context_bytes: what a context costs here, as the probe measured it."""

    library: Path
    driver: Driver
    context_bytes: int


def make_slice(
    folder: Path, seen_at: str, keeper: SliceKeeper, shares: Sequence[GpuShare], *, namespaces: bool, uid: int | None
) -> dict:
    """Make the directory anew; returns the plan's "slice". seen_at: where the task finds it. uid: who may write the
    usage file, None = the platform's account. Raises OSError.
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
            (real / name).touch(mode=0o644)  # the real one is mounted over it
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
        "guarded": namespaces or uid is not None,  # its programs cannot change the limits
        "copies": [list(copy) for copy in keeper.driver.copies] if namespaces else [],
    }
