"""Requested GPUs and elapsed time in words."""

from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.resources import GpuAsk, parse_gpu, show_duration, show_gpu


def describe_roles(gang: list[dict]) -> str:
    """Describe a gang: "1 head with 1 GPU, 2 to 4 worker with 4 GPUs"."""
    return ", ".join(_describe_role(role) for role in gang)


def describe_task_count(role: dict) -> str:
    """Return a role's task count: "4", "2 to 4"."""
    least, most = role["min"], role["max"]
    return _("%(least)s to %(most)s") % {"least": least, "most": most} if least < most else str(least)


def _describe_role(role: dict) -> str:
    words = {
        "number": describe_task_count(role),
        "role": role["role"],
        "ask": describe_gpu(parse_gpu(role["request"]["gpu"])),
    }
    return _("%(number)s %(role)s with %(ask)s") % words


def describe_gpu(ask: GpuAsk) -> str:
    """Describe the cards or the slice of one task: "2 × V100", "4 GB slice", "CPU only"."""
    models = ", ".join(ask.models)
    if ask.count == 0:
        return _("CPU only")
    if ask.memory_gb is not None:
        amount = f"{ask.memory_gb} GB"
        return (
            _("%(amount)s of %(models)s") % {"amount": amount, "models": models}
            if models
            else (_("%(amount)s slice") % {"amount": amount})
        )
    if ask.part is not None:
        return f"{show_gpu_part(ask)} {models or 'GPU'}"
    if models:
        return f"{ask.count} × {models}"
    return ngettext("%(count)s GPU", "%(count)s GPUs", ask.count) % {"count": ask.count}


def show_gpu_part(ask: GpuAsk) -> str:
    """Return the requested fraction of a card: "¼", "1/3"; or ""."""
    if ask.part is None:
        return ""
    a, b = ask.part
    return show_gpu(1000 * a // b) if 8 % b == 0 else f"{a}/{b}"


def list_alternatives(names: Sequence[str]) -> str:
    """Join names: "train", "train or dev", "a, b or c"."""
    *first, last = names
    return _("%(first)s or %(last)s") % {"first": ", ".join(first), "last": last} if first else last


def describe_other_pools(told: str, pools: Sequence[str]) -> str:
    """Say where else a job waits, "" if only in the pool that was told."""
    if others := [name for name in pools if name != told]:
        return _("It also waits in %(pools)s, and starts in the first with room.") % {"pools": ", ".join(others)}
    return ""


def show_elapsed(begin: datetime | None, end: datetime | None) -> str:
    """Return a duration: "0.4 s", "41s", "2h3m"; "" if unknown."""
    if begin is None or end is None:
        return ""
    seconds = max((end - begin).total_seconds(), 0)
    if seconds < 0.1:
        return "< 0.1 s"
    return f"{seconds:.1f} s" if seconds < 10 else show_duration(int(seconds))
