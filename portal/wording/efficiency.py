"""How well a job used what it held, in words, and what to ask for instead."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.resources import MIB, cpu_text, duration_text, parse_gpu, show_cpu, show_duration, show_memory
from monitoring.models import Source
from monitoring.usage.job_use import JobUse
from monitoring.usage.verdict import Advice, Verdict
from portal.wording.monitoring.check_words import name_check
from portal.wording.resources import describe_gpu
from portal.wording.usage import SOURCES

GB = 10**9
TEN_MINUTES = 600
UNJUDGED = frozenset({"unknown", "too_short"})

# {verdict: (while it runs, once it has ended)}
SAYS: dict[str, tuple[str | Promise, str | Promise]] = {
    "never_used": (
        gettext_lazy("No program of it has opened its card so far."),
        gettext_lazy("No program of it ever opened its card."),
    ),
    "idle_tail": (
        gettext_lazy("Its GPU has done nothing for %(time)s."),
        gettext_lazy("Its GPU did nothing in its last %(time)s."),
    ),
    "starved": (
        gettext_lazy(
            "Its GPU is busy %(percent)s %% of the time while its CPU is used to %(cpu)s %%: it waits for data."
        ),
        gettext_lazy(
            "Its GPU was busy %(percent)s %% of the time while its CPU was used to %(cpu)s %%: it waited for data."
        ),
    ),
    "low_activity": (
        gettext_lazy("It keeps its share of the GPU busy %(percent)s %% of the time."),
        gettext_lazy("It kept its share of the GPU busy %(percent)s %% of the time."),
    ),
    "too_much_memory": (
        gettext_lazy("GPU memory peaks at %(peak)s of %(held)s."),
        gettext_lazy("GPU memory peaked at %(peak)s of %(held)s."),
    ),
    "coarse_only": (
        gettext_lazy(
            "Its GPU is occupied %(percent)s %% of the time, but only %(sm)s %% of its multiprocessors work: "
            "look at the batch size."
        ),
        gettext_lazy(
            "Its GPU was occupied %(percent)s %% of the time, but only %(sm)s %% of its multiprocessors worked: "
            "look at the batch size."
        ),
    ),
    "straggler": (
        gettext_lazy("%(task)s on %(node)s is %(percent)s %% less busy than the others of it usually are."),
        gettext_lazy("%(task)s on %(node)s was %(percent)s %% less busy than the others of it usually were."),
    ),
    "throttled": (
        gettext_lazy(
            "Its cards are slowed down by heat or power %(percent)s %% of the time, GPU %(gpu)s of %(node)s most."
        ),
        gettext_lazy(
            "Its cards were slowed down by heat or power %(percent)s %% of the time, GPU %(gpu)s of %(node)s most."
        ),
    ),
    "gpu_fault": (
        gettext_lazy("GPU %(gpu)s of %(node)s had a fault since it holds it: %(check)s."),
        gettext_lazy("GPU %(gpu)s of %(node)s had a fault while it held it: %(check)s."),
    ),
    "host_memory_low": (
        gettext_lazy("Memory peaks at %(peak)s of %(held)s: a little more, and it is ended."),
        gettext_lazy("Memory peaked at %(peak)s of %(held)s: a little more, and it would have been ended."),
    ),
    "host_memory_high": (
        gettext_lazy("Memory peaks at %(peak)s of %(held)s."),
        gettext_lazy("Memory peaked at %(peak)s of %(held)s."),
    ),
    "time_limit_far": (
        gettext_lazy("It ran %(time)s of at most %(limit)s."),
        gettext_lazy("It ran %(time)s of at most %(limit)s."),
    ),
    "good": (gettext_lazy("It uses what it holds."), gettext_lazy("It used what it held.")),
    "unknown": (
        gettext_lazy("It was seen %(percent)s %% of the time: too little to judge."),
        gettext_lazy("It was seen %(percent)s %% of the time: too little to judge."),
    ),
    "too_short": (
        gettext_lazy("It has run for %(time)s: too short to judge."),
        gettext_lazy("It ran for %(time)s: too short to judge."),
    ),
}


@dataclass(frozen=True)
class Meter:
    """A figure with its bar. percent: how long the bar is; None is not known. tone: work, idle or quiet."""

    words: str
    value: str
    percent: float | None
    tone: str = "work"


def describe_verdict(verdict: Verdict, *, running: bool) -> str:
    params = verdict.params
    words = {
        "percent": round(params.get("percent", 0)),
        "cpu": round(params.get("cpu_percent", 0)),
        "time": show_duration(params.get("tail_ms", params.get("ran_ms", 0)) // 1000),
        "limit": show_duration(params.get("max_time_s", 0)),
        "peak": show_memory(params.get("peak_mib", 0)),
        "held": show_memory(params.get("held_mib", 0)),
        "sm": round(params.get("sm_percent", 0)),
        "check": name_check(params.get("check", "")),
        **{name: params.get(name, "") for name in ("task", "node", "gpu")},
    }
    return str(SAYS[verdict.code][not running]) % words


def describe_advice(verdict: Verdict, *, running: bool) -> str:
    """Say what to ask for instead, or ""."""
    if verdict.advice is None:
        return ""
    value = write_advice(verdict.advice)
    if verdict.advice.field == "gpu":
        if value == "0":
            return _("Ask for no GPU.")
        names = {"size": describe_gpu(parse_gpu(value)), "memory": show_memory(verdict.params["size_mib"])}
        fits = (_("%(size)s (%(memory)s) fits.") if running else _("%(size)s (%(memory)s) would have fitted.")) % names
        return f"{fits} {_describe_starts(verdict)}".rstrip()
    if verdict.advice.field == "cpu":
        words = _("Ask for %(cores)s CPU cores in each task, or keep the data on the machine.")
        return words % {"cores": value}
    if verdict.advice.field == "memory":
        return _("Ask for %(memory)s in each task.") % {"memory": value.replace("GB", " GB")}
    return _("With time: %(time)s it can start sooner, before others that may take longer.") % {"time": value}


def write_advice(advice: Advice) -> str:
    """Return the value as a job file writes it."""
    if advice.field == "cpu":
        return cpu_text(-(-int(advice.amount) // 1000) * 1000)
    if advice.field == "memory":
        return f"{-(-int(advice.amount) * MIB // GB)}GB"
    if advice.field == "time":
        return duration_text(-(-int(advice.amount) // TEN_MINUTES) * TEN_MINUTES)
    return str(advice.amount)


def describe_efficiency(verdicts: Sequence[Verdict]) -> str:
    """Say the costliest verdict on an ended job with its advice, for a notice; "" if there is nothing to say."""
    first = verdicts[0]
    if first.code in UNJUDGED or first.code == "good":
        return ""
    return " ".join(filter(None, (describe_verdict(first, running=False), describe_advice(first, running=False))))


def describe_hours(hours: float) -> str:
    return _("%(hours)s GPU-hours not needed") % {"hours": show_hours(hours)}


def show_hours(hours: float) -> str:
    """Format with as many digits as say something: "1,240", "31.4", "0.25", "0"."""
    digits = 0 if hours >= 100 or hours < 0.005 else 1 if hours >= 10 else 2
    return number_format(round(hours, digits), digits, force_grouping=True)


def describe_coverage(use: JobUse) -> str:
    """Say how much of it was seen, and where its GPU-hours went."""
    parts = [_("Seen %(percent)s %% of the time.") % {"percent": round(use.coverage_percent or 0)}]
    if use.cards:
        hours = {name: use.sum_hours(f"{name}_ms") for name in ("held", "seen", "active", "idle")}
        hours["paused"] = max(hours["seen"] - hours["active"] - hours["idle"], 0.0)
        words = _("Held %(held)s GPU-hours: active %(active)s, in short pauses %(paused)s, idle %(idle)s.")
        parts.append(words % {name: show_hours(value) for name, value in hours.items()})
    sources = {card.source for card in use.cards} & {str(source) for source in SOURCES}
    parts += [_("GPU figures are %(source)s.") % {"source": SOURCES[Source(source)]} for source in sorted(sources)]
    return " ".join(parts)


def list_meters(use: JobUse) -> list[Meter]:
    """Return the figures that are shown of a job, with those that are not known."""
    meters = []
    if use.cards:
        meters += [_measure_busy(use), _measure_memory(_("GPU memory"), use.gpu_memory)]
    meters += [_measure_cpu(use), _measure_memory(_("Memory"), use.memory)]
    if use.max_time_s:
        times = {"ran": show_duration(use.ran_ms // 1000), "most": show_duration(use.max_time_s)}
        value = _("%(ran)s of %(most)s") % times
        meters.append(Meter(_("Time limit"), value, _cap(use.ran_ms / 10 / use.max_time_s), "quiet"))
    if use.cards and use.tail_ms >= TEN_MINUTES * 1000:
        value = show_duration(use.tail_ms // 1000)
        meters.append(Meter(_("Idle at the end"), value, _cap(100 * use.tail_ms / max(use.ran_ms, 1)), "idle"))
    return meters


def _describe_starts(verdict: Verdict) -> str:
    percent = verdict.params.get("at_once")
    if percent is None:
        return ""
    return _("It started at once in %(percent)s %% of cases in the last 30 days.") % {"percent": percent}


def _measure_busy(use: JobUse) -> Meter:
    busy = use.busy_percent
    return Meter(_("GPU busy"), _("not known") if busy is None else f"{round(busy)} %", busy)


def _measure_memory(words: str, pair: tuple[int, int] | None) -> Meter:
    if pair is None:
        return Meter(words, _("not known"), None)
    value = _("%(peak)s of %(held)s") % {"peak": show_memory(pair[0]), "held": show_memory(pair[1])}
    return Meter(words, value, _cap(100 * pair[0] / pair[1]))


def _measure_cpu(use: JobUse) -> Meter:
    percent, held = use.cpu_percent, sum(host.cpu_milli for host in use.hosts)
    if percent is None:
        return Meter(_("CPU"), _("not known"), None)
    used = round(percent * held / 100, -1 if held < 10_000 else -2)
    value = _("%(used)s of %(held)s cores") % {"used": show_cpu(int(used)), "held": show_cpu(held)}
    return Meter(_("CPU"), value, _cap(percent))


def _cap(percent: float) -> float:
    return min(percent, 100.0)
