"""Storage areas: a home for each person and a shared folder for each team, kept between jobs; versions of datasets.

Paths are home/<uid> (0700), team/<gid> (2770) and dataset/<random> (0711: entered by whoever knows its name). A default
ACL, if supported, keeps new files writable for the team. Volumes are the site's own, and lie where it has them.
"""

import os
import re
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runtimes.storage.file_lock import hold_file_lock

MODES = {"home": 0o700, "team": 0o2770, "dataset": 0o711}
# rwx for owner and group: version, then (tag, rights, no id). Source: linux/posix_acl_xattr.h, acl(5).
TEAM_ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in ((0x01, 7), (0x04, 7), (0x20, 0))
)


@dataclass(frozen=True)
class AreaId:
    """A storage area: home (number is a uid), team folder (gid), the versions of a dataset (its random key), or a
    volume (its folder; on a cluster its claim).
    """

    kind: Literal["home", "team", "dataset", "volume"]
    number: int | str


CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Of the name of a PersistentVolumeClaim."""
NO_VOLUME = AreaId("volume", "")
"""A volume that was removed."""


def get_area_path(root: str | os.PathLike, place: AreaId) -> Path:
    if place.kind == "volume":
        return Path(str(place.number))
    return Path(root) / place.kind / str(place.number)


def make_data_key(place: AreaId, path: str) -> str:
    """Return a key equal on every node: "team:2001/datasets/imagenet"."""
    return f"{place.kind}:{place.number}/{path.strip('/')}"


def ensure_area(root: str | os.PathLike, place: AreaId, *, uid: int | None, gid: int | None) -> Path:
    """Create a missing area atomically. uid, gid: None keeps the platform's account. Raises OSError."""
    path = get_area_path(root, place)
    if path.is_dir():
        return path
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    with hold_file_lock(path.parent / ".lock"):
        if path.is_dir():
            return path
        fresh = path.with_name(f".new-{path.name}")
        fresh.mkdir(mode=0o700, exist_ok=True)  # left by a killed process
        if uid is not None and gid is not None:
            os.chown(fresh, uid if place.kind == "home" else 0, gid)
        fresh.chmod(MODES[place.kind])
        if place.kind == "team":
            with suppress(OSError):
                os.setxattr(fresh, "system.posix_acl_default", TEAM_ACL)
        fresh.rename(path)
    return path
