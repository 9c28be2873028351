"""Reasons as sentences, in the reader's language and people's units. The same words at every door."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.resources import show_cpu, show_gpu, show_memory
from jobs.states import REASONS, WAIT_REASONS

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


def wait_words(reason: dict) -> str:
    """One reason of Job.wait_reasons as a sentence."""
    code, params = reason["code"], reason.get("params", {})
    template = WAIT_REASONS.get(code, WAIT_REASONS["unexplained"])
    return str(template) % _Blank(show_params(params))


def end_words(code: str) -> str:
    """Why a job or task ended; "" while there is no reason."""
    return str(REASONS[code].words) if code in REASONS else code.replace("_", " ")


def end_hint(code: str) -> str:
    return str(REASONS[code].hint) if code in REASONS else ""


def show_params(params: dict) -> dict[str, str]:
    """Raw integers of a refusal in people's units, by the resource that the refusal is about."""
    about = params.get("resource") or params.get("field") or ""
    shown = {name: show_amount(about if name in _AMOUNTS else name, value) for name, value in params.items()}
    if about:
        shown["resource"] = shown["field"] = str(RESOURCE_NAMES.get(about, about))
    return shown


def show_amount(resource: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if resource == "gpu_milli" or resource == "gpu_sharing":
        return show_gpu(value)
    if resource == "cpu_milli":
        return show_cpu(value)
    if resource in {"memory_mib", "gpu_memory_mib"}:
        return show_memory(value)
    if resource == "at":
        return date_format(timezone.localtime(datetime.fromtimestamp(value, tz=UTC)), "H:i:s")
    return str(value)


_AMOUNTS = frozenset({"used", "limit", "ask", "asked", "largest", "free", "best"})


class _Blank(dict):
    """A sentence never fails for a number that an older scheduler did not record."""

    def __missing__(self, key: str) -> str:
        return _("some")
