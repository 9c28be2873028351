"""The task's side of its slice: our libraries in the place of the driver's. Used by the shim, so it imports little."""

import os
import struct

from runtimes.local import isolation

REFUSED_AT = 88  # of the usage file: 16 numbers of 64 bits, one for each card


def open_files(plan: dict) -> list[tuple[int, str, bool]]:
    """(descriptor, where it appears, read-only), called in the new view and before anything is hidden or covered."""
    if not plan["slice"] or not plan["namespaces"]:
        return []
    folder, seen_at = plan["slice"]["folder"], plan["slice"]["seen_at"]
    places = [(os.path.join(folder, "usage"), os.path.join(seen_at, "usage"), False)]
    places += [(path, os.path.join(seen_at, "driver", name), True) for name, path in plan["slice"]["real"].items()]
    places += [(os.path.join(folder, name), path, True) for path, name in plan["slice"]["copies"]]
    return [(os.open(path, os.O_PATH | os.O_CLOEXEC), target, read_only) for path, target, read_only in places]


def cover(files: list[tuple[int, str, bool]]) -> None:
    """Called when all else of the view stands; closes the descriptors."""
    for fd, target, read_only in files:
        if os.path.exists(target):  # not where a hidden directory held a copy
            isolation.bind_file(fd, target, read_only)
        os.close(fd)


def refusals(plan: dict) -> int:
    """How many requests for memory the slice refused, to all its processes. Source: agent/slice/README.md"""
    if not plan.get("slice"):
        return 0
    try:
        with open(os.path.join(plan["slice"]["folder"], "usage"), "rb") as file:
            return sum(struct.unpack("<16Q", os.pread(file.fileno(), 128, REFUSED_AT)))
    except (OSError, struct.error):
        return 0


def environment(plan: dict, env: dict[str, str]) -> dict[str, str]:
    """Ours go before any other driver's library that the user's own LD_LIBRARY_PATH leads to."""
    if not plan["slice"]:
        return env
    own = env.get("LD_LIBRARY_PATH")
    return env | {"LD_LIBRARY_PATH": ":".join(filter(None, (plan["slice"]["seen_at"], own)))}
