"""Columns of reports' files, in words."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from portal.wording.monitoring.usage_report import GROUP_WORDS

COLUMN_WORDS: dict[str, str | Promise] = {
    **GROUP_WORDS,
    "node": _("Machine"),
    "held_gpu_h": _("Held GPU-hours"),
    "active_gpu_h": _("Active"),
    "paused_gpu_h": _("Short pauses"),
    "idle_gpu_h": _("Idle"),
    "unknown_gpu_h": _("Unknown"),
    "busy_gpu_h": _("Busy"),
    "held_cost": _("Cost"),
    "idle_cost": _("of it idle"),
    "lost_cost": _("of it lost"),
    "tasks": _("Tasks"),
    "simulated": _("simulated"),
    "kwh": "kWh",
    "mean_w": _("Mean power, W"),
}


def name_column(name: str) -> str:
    """Return a column's name in words; as it is in the file where there are none."""
    return str(COLUMN_WORDS.get(name, name.replace("_", " ")))
