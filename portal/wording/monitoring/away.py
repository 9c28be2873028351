"""Sentences of what people hold who have not been here for long."""

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.amounts import show_bytes
from common.resources import show_cpu, show_gpu, show_memory


def describe_held(held: Mapping) -> str:
    """Say what is held: "2 notebooks, 12 GB in the home, a guarantee of 1 GPU"."""
    parts = []
    if notebooks := held.get("notebooks"):
        parts.append(ngettext("%(count)s notebook", "%(count)s notebooks", notebooks) % {"count": notebooks})
    if size := held.get("home_bytes"):
        parts.append(_("%(size)s in the home") % {"size": show_bytes(size)})
    if held.get("gpu_milli"):
        parts.append(_("a guarantee of %(gpu)s GPU") % {"gpu": show_gpu(held["gpu_milli"])})
    if held.get("cpu_milli"):
        parts.append(_("a guarantee of %(cpu)s CPU cores") % {"cpu": show_cpu(held["cpu_milli"])})
    if held.get("memory_mib"):
        parts.append(_("a guarantee of %(memory)s of memory") % {"memory": show_memory(held["memory_mib"])})
    return _(", ").join(parts)


def describe_away_notice(params: Mapping) -> str:
    """Say in a notice what its reader holds, and what to do."""
    return _(
        "Still yours: %(held)s. Nothing is taken from you. Delete what you no longer need; once you sign in or run "
        "something, you are not reminded any more."
    ) % {"held": describe_held(params)}
