"""Presets: one click on a size goes on with the person's last notebook of that size, or makes one."""

import re
from dataclasses import dataclass

from accounts.models import User
from notebooks.models import Notebook
from portal.pages.sizes import Size, sizes_for, teams_of

PRESETS = ("1/4", "1/2", "1", "0")
NAMES = {"0": "cpu", "1/8": "eighth", "1/4": "quarter", "1/2": "half", "1": "gpu", "2": "two-gpus"}


@dataclass(frozen=True)
class Preset:
    """notebook: the one that a click goes on with, None = a new one is made. team: whose it then is."""

    size: Size
    notebook: Notebook | None
    team: str

    @property
    def gpu(self) -> str:
        return self.size.gpu


def presets_of(user: User) -> list[Preset]:
    """Those that could ever start here, in the order of PRESETS. Nothing for who may start nothing."""
    teams = teams_of(user)
    if not teams:
        return []
    mine = list(Notebook.objects.live().filter(user=user).with_names().order_by("-pk"))
    sizes = sizes_for(user, PRESETS, teams[0])
    return [Preset(size, _last(mine, size.gpu), teams[0]) for size in sizes if size.promise.possible]


def free_name(user: User, gpu: str) -> str:
    """A name that says the size and is not taken: "quarter", then "quarter-2"."""
    stem = NAMES.get(gpu) or re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")[:30] or "notebook"
    taken = set(Notebook.objects.live().filter(user=user, name__startswith=stem).values_list("name", flat=True))
    number = 1
    while (name := stem if number == 1 else f"{stem}-{number}") in taken:
        number += 1
    return name


def _last(mine: list[Notebook], gpu: str) -> Notebook | None:
    """One that is started goes before one that was opened later."""
    same = [one for one in mine if str(one.spec["gpu"]) == gpu]
    return max(same, key=lambda one: (one.is_started, one.opened_at or one.created_at), default=None)
