"""Our own slice library on this host: where a hook of the container runtime finds it and puts it into containers.

The folder is named by CDI specs, so its path must be the same for the agent and for the host.
"""

import os
import shutil
from pathlib import Path

from agent.kubelet.cdi import HOOK

SHIMS = ("libcuda.so.1", "libnvidia-ml.so.1")


def publish(built: Path, home: Path) -> Path:
    """Put what was built (agent/slice: make all hook) there. Containers that run keep what they have: each file is
    replaced as a whole. Raises OSError.
    """
    home.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in (*SHIMS, HOOK):
        fresh = home / f".{name}.new"
        shutil.copyfile(built / name, fresh)
        fresh.chmod(0o755)
        os.replace(fresh, home / name)
    return home
