"""The directory of a task's slice, removed when the task is forgotten.

    limits, usage                      see agent/slice/README.md
    libcuda.so.1, libnvidia-ml.so.1    ours
    driver/                            the driver's, called by ours
    slicectl                           for shim and debugging

First in LD_LIBRARY_PATH. In namespaces read-only but `usage`, and shim/mounts.py mounts ours over all copies.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from runtimes import slice_library
from runtimes.contract.task import GpuShare
from runtimes.local.node.isolation_probe import Isolation
from runtimes.local.slices.driver import Driver
from runtimes.slice_library import SHIMS, SLICECTL

MOUNTS, LIBRARY_PATH = "mounts", "library path"


def make_slice_directory(
    folder: Path,
    seen_at: str,
    library: Path,
    driver: Driver,
    shares: Sequence[GpuShare],
    isolation: Isolation,
    uid: int,
    context_bytes: int = 0,
) -> dict:
    """Create a slice's directory with its limits, usage, our libraries and the driver's. Raises OSError.

    Returns the plan's "slice".

    seen_at: in the task. uid: of `usage`, if jobs have accounts of their own. context_bytes: of a CUDA context.
    """
    namespaces = isolation.namespaces
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    folder.parent.chmod(0o711)  # jobs of other accounts pass through
    real = folder / "driver"
    real.mkdir(mode=0o755)
    for name in SHIMS:
        driver_dir = os.path.join(seen_at, "driver")
        slice_library.install_shim(library, name, folder, driver_dir=driver_dir, slice_dir=seen_at)
        if namespaces:
            (real / name).touch(mode=0o644)  # mount point
        else:
            (real / name).symlink_to(driver.real[name])
    shutil.copy(library / SLICECTL, folder)
    limits = {share.uuid: share.memory_mib for share in shares}
    slice_library.create_slice(library, folder, limits, context_bytes)
    usage = folder / "usage"
    if isolation.separate_uids:
        os.chown(usage, uid, -1)
    usage.chmod(0o600)
    return {
        "folder": str(folder),
        "seen_at": seen_at,
        "real": driver.real if namespaces else {},
        "guarded": namespaces or isolation.separate_uids,  # limits are read-only for programs
        "copies": [list(copy) for copy in driver.copies] if namespaces else [],
    }
