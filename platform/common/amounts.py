"""Amounts as text, for sentences of refusals and errors."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy

from common.resources import duration_text, show_cpu, show_gpu, show_memory

RESOURCE_NAMES = {
    "gpu_milli": gettext_lazy("GPUs"),
    "cpu_milli": gettext_lazy("CPU cores"),
    "memory_mib": gettext_lazy("memory"),
    "gpu_memory_mib": gettext_lazy("GPU memory on one card"),
    "gpu_model": gettext_lazy("GPU model"),
    "gpu_sharing": gettext_lazy("part of a card"),
    "gpus": gettext_lazy("GPUs on one node"),
    "tasks": gettext_lazy("nodes"),
    "jobs": gettext_lazy("jobs at once"),
}

# Parameters that count the resource that the error is about.
AMOUNTS = frozenset(
    {"used", "limit", "ask", "asked", "largest", "free", "best", "guarantee", "left", "total", "min", "max"}
)


def show_params(params: dict, about: str = "") -> dict[str, str]:
    """Format a refusal's parameters. about: the default resource."""
    about = params.get("resource") or params.get("field") or about
    if about not in RESOURCE_NAMES:
        about = ""
    shown = {name: show_amount(about if name in AMOUNTS else name, value) for name, value in params.items()}
    if about:
        shown["resource"] = shown["field"] = str(RESOURCE_NAMES[about])
    return shown


def show_bytes(number: int) -> str:
    """Format bytes: "0 B", "1.4 kB"."""
    size, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}" if size < 999.5 else f"{size:.0f} {unit}"


def show_amount(resource: str, value: Any) -> str:
    """Format a value in its resource's unit; "at", "by" and "until" are POSIX times, "taken_s" a run time."""
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if resource.endswith("gpu_milli") or resource == "gpu_sharing":
        return show_gpu(int(value))
    if resource == "cpu_milli":
        return show_cpu(int(value))
    if resource.endswith("_mib"):  # beside each other what is free is never shown as what is needed
        return show_memory(int(value), up={"free_mib": False, "need_mib": True}.get(resource))
    if resource == "taken_s":
        return duration_text(int(value))
    if resource in {"at", "by", "until"}:
        local = timezone.localtime(datetime.fromtimestamp(value, tz=UTC))
        return date_format(local, "H:i:s" if local.date() == timezone.localdate() else "Y-m-d H:i")
    return str(value)
