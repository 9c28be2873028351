"""What is held and idle, in words: what was seen, how far the ladder is, what comes next."""

from datetime import datetime

from django.utils.dateparse import parse_datetime
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.resources import show_memory
from jobs.models import JobKind
from monitoring.idle.evidence import Signal, Why
from monitoring.idle.ladder import Hold, Ladder
from monitoring.idle.rungs import Rung, Then
from monitoring.models import IdleWatch
from portal.wording.time_of_day import clock, name_moment

SIGNALS: dict[str, str | Promise] = {
    Signal.GPU: gettext_lazy("the GPU works"),
    Signal.GPU_MEMORY: gettext_lazy("its GPU memory grows"),
    Signal.PROCESSES: gettext_lazy("processes start and end"),
    Signal.CPU: gettext_lazy("the processor works, such as to load data"),
    Signal.DISK: gettext_lazy("files are read or written"),
    Signal.NETWORK: gettext_lazy("it sends or receives data"),
    Signal.KERNEL: gettext_lazy("a kernel or a terminal works"),
    Signal.DOOR: gettext_lazy("somebody is at work in it"),
}
UNKNOWN: dict[str, str | Promise] = {
    Why.NO_SAMPLES: gettext_lazy("its machine sends no samples"),
    Why.TOO_FEW: gettext_lazy("too little of it was seen"),
    Why.STALE: gettext_lazy("its machine has been silent for more than a minute"),
    Why.RESTARTED: gettext_lazy("the sampler of its machine began anew"),
    Why.GPU_UNKNOWN: gettext_lazy("how busy its GPU is cannot be told here"),
    Why.CPU_UNKNOWN: gettext_lazy("what its processes do cannot be told here"),
    Why.KERNELS_SILENT: gettext_lazy("JupyterLab does not answer"),
}
KERNELS: dict[str, str | Promise] = {
    "quiet": gettext_lazy("kernels quiet"),
    "busy": gettext_lazy("a kernel works"),
    "silent": gettext_lazy("JupyterLab does not answer"),
}
NEXT: dict[Rung, str | Promise] = {
    Rung.NOTED: gettext_lazy("notice at %(at)s"),
    Rung.REMINDED: gettext_lazy("reminder at %(at)s"),
    Rung.WARNED: gettext_lazy("warning at %(at)s"),
}
ACTS: dict[str, str | Promise] = {
    Then.RELEASE_GPU: gettext_lazy("GPU released at %(at)s"),
    Then.STOP: gettext_lazy("stopped at %(at)s"),
    Then.SHRINK: gettext_lazy("slice made smaller at %(at)s"),
}
HOLDS: dict[str, str | Promise] = {
    Hold.UNDELIVERED: gettext_lazy("waits until its owner has seen the notice"),
    Hold.YOUNG: gettext_lazy("began only just now"),
    Hold.ENDING: gettext_lazy("ends soon by itself"),
    Hold.STOPPING: gettext_lazy("is being stopped"),
    Hold.AT_TOP: gettext_lazy("nothing more happens"),
}


def describe_seen(seen: dict) -> str:
    """Say the figures of a look: "GPU 0 %, CPU 1 %, disk 4 kB/s, kernels quiet; 61 GB of GPU memory kept"."""
    parts = []
    if seen.get("gpu_percent") is not None:
        parts.append(_("GPU %(percent)s %%") % {"percent": round(seen["gpu_percent"])})
    if seen.get("cpu_percent") is not None:
        parts.append(_("CPU %(percent)s %%") % {"percent": round(seen["cpu_percent"])})
    if seen.get("disk_kib_s"):
        parts.append(_("disk %(rate)s kB/s") % {"rate": round(seen["disk_kib_s"])})
    if seen.get("net_kib_s"):
        parts.append(_("network %(rate)s kB/s") % {"rate": round(seen["net_kib_s"])})
    if seen.get("kernels"):
        parts.append(str(KERNELS.get(seen["kernels"], "")))
    if seen.get("gpu_mib"):
        parts.append(_("%(memory)s of GPU memory kept") % {"memory": show_memory(int(seen["gpu_mib"]))})
    return _(", ").join(part for part in parts if part)


def describe_finding(watch: IdleWatch) -> str:
    """Say what the last look found."""
    if watch.finding == "busy":
        return str(SIGNALS.get(watch.detail, watch.detail))
    if watch.finding == "unknown":
        return str(UNKNOWN.get(watch.detail, watch.detail))
    return describe_seen(watch.evidence)


def describe_next(watch: IdleWatch, now: datetime, exempt_until: datetime | None = None) -> str:
    """Say what happens next, and when."""
    if watch.finding == "busy" or watch.since is None:
        return _("nothing happens")
    if exempt_until is not None and exempt_until > now:
        return _("exempt until %(at)s") % {"at": clock(exempt_until, now)}
    if watch.finding == "unknown":
        return _("the clock stands")
    if watch.hold in HOLDS:
        return str(HOLDS[Hold(watch.hold)])
    times = watch.times
    if not times:
        return _("nothing more happens")
    rung, at = next(iter(times.items()))
    words = ACTS.get(watch.then, "%(at)s") if rung == Rung.ACTED else NEXT[rung]
    return str(words) % {"at": clock(max(at, now), now)}


def describe_act(watch: IdleWatch, now: datetime) -> str:
    """Say what the last rung will do, and when; "" if it only tells."""
    at = watch.times.get(Rung.ACTED)
    return str(ACTS.get(watch.then, "")) % {"at": clock(max(at, now), now)} if at is not None else ""


def describe_steps(ladder: Ladder) -> str:
    """Say after how many idle minutes each step comes."""
    words = {
        Rung.NOTED: _("notice after %(minutes)s min"),
        Rung.REMINDED: _("reminder after %(minutes)s min"),
        Rung.WARNED: _("warning after %(minutes)s min"),
        Rung.ACTED: _("act after %(minutes)s min"),
    }
    steps = [words[rung] % {"minutes": seconds // 60} for rung, seconds in sorted(ladder.after_s.items())]
    return _(", ").join(steps)


def name_kind(kind: str) -> str:
    """Name what the rules of a kind are of."""
    return _("notebooks") if kind == JobKind.INTERACTIVE else _("jobs")


def describe_idle_notice(kind: str, object_kind: str, params: dict) -> str:
    """Say in a notice what was seen, what follows, and what its reader can do."""
    seen = _("Seen: %(seen)s.") % {"seen": describe_seen(params.get("seen") or {})} if params.get("seen") else ""
    told = [_say_whose(params), seen, _say_done(object_kind, params) if kind == "idle_acted" else _say_follows(params)]
    return " ".join(words for words in told if words)


def _say_whose(params: dict) -> str:
    if params.get("by"):
        return _("%(by)s asks whether it is still needed.") % {"by": params["by"]}
    if params.get("instead"):
        return _("It belongs to %(owner)s, who has not seen the notice.") % {"owner": params.get("owner", "?")}
    return _("It belongs to %(owner)s.") % {"owner": params["owner"]} if params.get("owner") else ""


def _say_follows(params: dict) -> str:
    at = parse_datetime(str(params.get("at", "")))
    if at is None:
        return _("Nothing happens by itself. Stop it if it is no longer needed.")
    words = {
        Then.RELEASE_GPU: _("Its GPU is released at %(at)s, unless it works by then or is kept on its page."),
        Then.STOP: _("It is stopped at %(at)s, unless it works by then or is kept on its page."),
        Then.SHRINK: _("Its slice is made smaller at %(at)s, unless it works by then or is kept on its page."),
    }
    return words.get(params.get("then", ""), "") % {"at": name_moment(at)}


def _say_done(object_kind: str, params: dict) -> str:
    done = params.get("then")
    if done == Then.RELEASE_GPU:
        return _(
            "The notebook starts anew without a GPU. Its files are kept; its kernels, and what they held in memory, "
            "are gone. Resume on GPU on its page brings the GPU back."
        )
    if done == Then.SHRINK:
        return _("Its slice was made as small as what it uses: %(gpu)s.") % {"gpu": params.get("gpu", "?")}
    if done == Then.TELL:
        return _("Its slice cannot be made smaller, so it stays as it is.")
    if object_kind == "notebook":
        return _("The notebook was stopped. Its files are kept.")
    return _("The job was stopped. What it wrote is kept.")
