"""Mount the slice's libraries over the driver's. Few imports, for the shim."""

import os
import struct

from runtimes.local import isolation

REFUSED_AT = 88  # in the usage file: 16 uint64, by card


def open_files(plan: dict) -> list[tuple[int, str, bool]]:
    """Return (descriptor, target, read-only), after `unshare_mounts`, before hiding."""
    if not plan["slice"] or not plan["namespaces"]:
        return []
    folder, seen_at = plan["slice"]["folder"], plan["slice"]["seen_at"]
    places = [(os.path.join(folder, "usage"), os.path.join(seen_at, "usage"), False)]
    places += [(path, os.path.join(seen_at, "driver", name), True) for name, path in plan["slice"]["real"].items()]
    places += [(os.path.join(folder, name), path, True) for path, name in plan["slice"]["copies"]]
    return [(os.open(path, os.O_PATH | os.O_CLOEXEC), target, read_only) for path, target, read_only in places]


def mount_files(files: list[tuple[int, str, bool]]) -> None:
    """Mount files after all else; closes descriptors."""
    for fd, target, read_only in files:
        if os.path.exists(target):  # not hidden
            isolation.bind_file(fd, target, read_only)
        os.close(fd)


def count_refusals(plan: dict) -> int:
    """Count memory requests refused by the slice. Source: agent/slice/README.md"""
    if not plan.get("slice"):
        return 0
    try:
        with open(os.path.join(plan["slice"]["folder"], "usage"), "rb") as file:
            return sum(struct.unpack("<16Q", os.pread(file.fileno(), 128, REFUSED_AT)))
    except (OSError, struct.error):
        return 0


def add_library_path(plan: dict, env: dict[str, str]) -> dict[str, str]:
    """Put our libraries first in LD_LIBRARY_PATH."""
    if not plan["slice"]:
        return env
    own = env.get("LD_LIBRARY_PATH")
    return env | {"LD_LIBRARY_PATH": ":".join(filter(None, (plan["slice"]["seen_at"], own)))}
