"""Where people's files lie: one home for each person and one shared folder for each team, kept between jobs.

Below the root: home/<uid> (0700) and team/<gid> (2770). The numbers are for life, names are not.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MODES = {"home": 0o700, "team": 0o2770}


@dataclass(frozen=True)
class Place:
    """A home (number is a uid) or a team's folder (number is a gid)."""

    kind: Literal["home", "team"]
    number: int


def place_path(root: str | os.PathLike, place: Place) -> Path:
    return Path(root) / place.kind / str(place.number)


def ensure_place(root: str | os.PathLike, place: Place, *, uid: int | None, gid: int | None) -> Path:
    """Make it when it is not there, and give it to its owners. uid, gid: None leaves it to the platform's account.

    Nothing below it is touched: what lies there belongs to people. Raises OSError.
    """
    path = place_path(root, place)
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return path
    if uid is not None and gid is not None:
        os.chown(path, uid if place.kind == "home" else 0, gid)
    path.chmod(MODES[place.kind])
    return path
