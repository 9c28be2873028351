"""Presets: start the last notebook of a size, or a new one."""

import re
from dataclasses import dataclass

from accounts.models import User
from accounts.permissions import teams_where
from notebooks.models import Notebook

SIZES = ("1/4", "1/2", "1", "0")
NAMES = {"0": "cpu", "1/8": "eighth", "1/4": "quarter", "1/2": "half", "1": "gpu", "2": "two-gpus"}


@dataclass(frozen=True)
class Preset:
    """A size to start. gpu: as in a job file. notebook: None for a new one."""

    gpu: str
    notebook: Notebook | None
    team: str


def list_presets(user: User) -> list[Preset]:
    """Return presets in the order of SIZES, for people who may start them."""
    team = teams_where(user, "job.submit").first()
    if team is None:
        return []
    mine = list(Notebook.objects.live().filter(user=user).with_names().order_by("-pk"))
    return [Preset(gpu, _last(mine, gpu), team.name) for gpu in SIZES]


def find_free_name(user: User, gpu: str) -> str:
    """Return an unused name for a size: "quarter", then "quarter-2"."""
    stem = NAMES.get(gpu) or re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")[:30] or "notebook"
    taken = set(Notebook.objects.live().filter(user=user, name__startswith=stem).values_list("name", flat=True))
    number = 1
    while (name := stem if number == 1 else f"{stem}-{number}") in taken:
        number += 1
    return name


def _last(mine: list[Notebook], gpu: str) -> Notebook | None:
    """Return the newest notebook of a size, a started one first."""
    same = [one for one in mine if str(one.spec["gpu"]) == gpu]
    return max(same, key=lambda one: (one.is_started, one.opened_at or one.created_at), default=None)
