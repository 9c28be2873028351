"""What cards and tasks use now, in words. What is not known is said so, and is never 0."""

from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.resources import show_cpu, show_memory
from monitoring.engine.reading import Older
from monitoring.models import Source
from monitoring.samples.newest import CardUse, ShareUse, TaskUse
from monitoring.series.charts import Gap

SOURCES = {Source.SIMULATED: gettext_lazy("simulated"), Source.ESTIMATED: gettext_lazy("estimated")}
"""Of figures that nobody measured."""
OLDER = {
    "": gettext_lazy("Until %(until)s the curves are the series engine’s."),
    "nothing": gettext_lazy("Until %(until)s there are no curves: the series engine has none."),
    "silent": gettext_lazy("Until %(until)s the curves are missing: the series engine does not answer."),
    "refused": gettext_lazy("Until %(until)s the curves are missing: the series engine refused the question."),
    "nonsense": gettext_lazy("Until %(until)s the curves are missing: the series engine’s answer cannot be read."),
}
"""Of what PostgreSQL keeps no longer, by fault."""


def describe_card_use(use: CardUse | None, memory_mib: int) -> str:
    """Say how busy a card is and how much of its memory is in use: "busy 63 %, 12 GB of 34 GB in use"."""
    if use is None:
        return _("use not known")
    return _add_source([_describe_busy(use.busy_percent), _describe_memory(use.used_mib, memory_mib)], use.source)


def describe_card_heat(use: CardUse | None) -> str:
    """Say a card's temperature and power, as far as they are known."""
    if use is None:
        return ""
    heat = "" if use.temperature_c is None else f"{use.temperature_c} °C"
    power = "" if use.power_w is None else f"{use.power_w} W"
    return ", ".join(filter(None, (heat, power)))


def describe_share_activity(percent: float | None) -> str:
    """Say how much of its share of a card a task uses."""
    if percent is None:
        return _("how busy: not known")
    return _("uses %(percent)s %% of its share") % {"percent": _round_percent(percent)}


def describe_share_use(use: ShareUse | None, memory_mib: int | None) -> str:
    """Say what a task does with its share of a card. memory_mib: of the share, None where its use is told elsewhere."""
    if use is None:
        return _("use not known")
    busy = _("how busy it keeps the card: not known")
    if use.busy_percent is not None:
        busy = _("keeps the card busy %(percent)s %% of the time") % {"percent": _round_percent(use.busy_percent)}
    memory = [] if memory_mib is None else [_describe_memory(use.used_mib, memory_mib)]
    return _add_source([busy, *memory], use.source)


def describe_task_use(use: TaskUse | None, cpu_milli: int, memory_mib: int) -> str:
    """Say what a running task uses beside its cards. cpu_milli, memory_mib: what it holds."""
    if use is None:
        return _("use not known")
    parts = [_describe_cpu(use.cpu_milli, cpu_milli), _describe_task_memory(use, memory_mib)]
    if use.processes is not None:
        words = ngettext("%(count)s process", "%(count)s processes", use.processes)
        parts.append(words % {"count": number_format(use.processes, force_grouping=True)})
    if use.read_kib_s is not None and use.write_kib_s is not None:
        rates = {"read": show_rate(use.read_kib_s), "written": show_rate(use.write_kib_s)}
        parts.append(_("disk: %(read)s read, %(written)s written") % rates)
    if use.net_rx_kib_s is not None and use.net_tx_kib_s is not None:
        rates = {"received": show_rate(use.net_rx_kib_s), "sent": show_rate(use.net_tx_kib_s)}
        parts.append(_("network: %(received)s received, %(sent)s sent") % rates)
    return " · ".join(parts)


def describe_older(older: Older) -> str:
    """Say where the part of curves comes from that the platform keeps no longer, or why it is missing."""
    return str(OLDER[older.fault]) % {"until": date_format(timezone.localtime(older.until), "DATE_FORMAT")}


def describe_gap(gap: Gap) -> str:
    """Say of what nothing is known for a while."""
    if not gap.node:
        return _("no samples of %(task)s") % {"task": gap.task}
    return _("no samples of %(task)s: nothing came from %(machine)s") % {"task": gap.task, "machine": gap.node}


def _describe_busy(percent: float | None) -> str:
    if percent is None:
        return _("how busy: not known")
    return _("busy %(percent)s %%") % {"percent": _round_percent(percent)}


def _describe_memory(used_mib: int | None, memory_mib: int) -> str:
    if used_mib is None:
        return _("memory in use: not known")
    return _("%(used)s of %(all)s in use") % {"used": show_memory(used_mib), "all": show_memory(memory_mib)}


def _describe_cpu(used_milli: int | None, held_milli: int) -> str:
    if used_milli is None:
        return _("CPU: not known")
    return _("CPU: %(used)s of %(held)s") % {"used": show_cpu(round(used_milli, -1)), "held": show_cpu(held_milli)}


def _describe_task_memory(use: TaskUse, held_mib: int) -> str:
    if use.memory_mib is None:
        return _("memory: not known")
    words = {"used": show_memory(use.memory_mib), "held": show_memory(held_mib)}
    if use.peak_mib is None:
        return _("memory: %(used)s of %(held)s") % words
    return _("memory: %(used)s of %(held)s, peak %(peak)s") % {**words, "peak": show_memory(use.peak_mib)}


def show_rate(kib_s: int) -> str:
    """Format "3.1 MB/s", "700 kB/s"."""
    mb_s = kib_s * 1024 / 10**6
    return f"{mb_s:.1f} MB/s" if mb_s >= 1 else f"{round(1000 * mb_s)} kB/s"


def _round_percent(percent: float) -> str:
    """Return whole percent, and "<1" for what is more than nothing."""
    return "<1" if 0 < percent < 0.5 else str(round(percent))


def _add_source(parts: list[str], source: str) -> str:
    words = " · ".join(parts)
    if source not in SOURCES:
        return words
    return _("%(figures)s (%(source)s)") % {"figures": words, "source": SOURCES[Source(source)]}
