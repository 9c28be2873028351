"""Where people's files lie: one home for each person and one shared folder for each team, kept between jobs.

Below the root: home/<uid> (0700) and team/<gid> (2770). The numbers are for life, names are not. What anybody makes in
a team's folder the whole team may change, whatever the umask of their programs: by a default ACL, where the file system
has such a thing.
"""

import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runtimes.file_lock import alone

MODES = {"home": 0o700, "team": 0o2770}
# rwx for the owner and the group, nothing for others, as the kernel keeps it: (version), then (tag, rights, nobody by
# name) of each. Source: linux/posix_acl_xattr.h, acl(5).
TEAM_ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in ((0x01, 7), (0x04, 7), (0x20, 0))
)


@dataclass(frozen=True)
class Place:
    """A home (number is a uid) or a team's folder (number is a gid)."""

    kind: Literal["home", "team"]
    number: int


def place_path(root: str | os.PathLike, place: Place) -> Path:
    return Path(root) / place.kind / str(place.number)


def data_key(place: Place, path: str) -> str:
    """What a job finds under `data`, as a name that is the same on every node: "team:2001/datasets/imagenet"."""
    return f"{place.kind}:{place.number}/{path.strip('/')}"


def ensure_place(root: str | os.PathLike, place: Place, *, uid: int | None, gid: int | None) -> Path:
    """Make it when it is not there, and give it to its owners. uid, gid: None leaves it to the platform's account.

    It appears in one step, and nothing below it is touched: what lies there belongs to people. Raises OSError.
    """
    path = place_path(root, place)
    if path.is_dir():
        return path
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    with alone(path.parent / ".lock"):
        if path.is_dir():
            return path
        fresh = path.with_name(f".new-{path.name}")
        fresh.mkdir(mode=0o700, exist_ok=True)  # one who was killed here may have left it
        if uid is not None and gid is not None:
            os.chown(fresh, uid if place.kind == "home" else 0, gid)
        fresh.chmod(MODES[place.kind])
        if place.kind == "team":
            with suppress(OSError):
                os.setxattr(fresh, "system.posix_acl_default", TEAM_ACL)
        fresh.rename(path)
    return path
