"""What rules can look at: the metrics of each kind of subject, and the rules that ship."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from monitoring.models import AlertRule, Audience, Comparison, Severity, Subject
from monitoring.series.keys import Kind

HOUR_S, MINUTE_S = 3600, 60


@dataclass(frozen=True)
class Metric:
    """low, high: the range of its values, None where it has no end. series: of which its history is made: the kind,
    the column, and how many of its units are one.
    """

    words: str | Promise
    unit: str = ""
    low: float | None = 0.0
    high: float | None = None
    series: tuple[Kind, str, float] | None = None


YES_OR_NO = (0.0, 1.0)
"""1 is yes."""
METRICS: dict[Subject, dict[str, Metric]] = {
    Subject.CARD: {
        "gpu_busy_percent": Metric(_("GPU activity"), "%", high=100.0, series=(Kind.CARD, "busy_centi", 100.0)),
        "gpu_memory_percent": Metric(_("GPU memory in use"), "%", high=100.0, series=(Kind.CARD, "used_mib", 0.0)),
        "temperature_c": Metric(_("temperature"), "°C", series=(Kind.CARD, "temperature_c", 1.0)),
        "power_w": Metric(_("power"), "W", series=(Kind.CARD, "power_w", 1.0)),
        "faulty": Metric(_("fault of the card"), "", *YES_OR_NO),
    },
    Subject.NODE: {
        "silent_s": Metric(_("silence of the machine"), "s"),
        "not_ready": Metric(_("machine that does not answer"), "", *YES_OR_NO),
    },
    Subject.TASK: {
        "memory_percent": Metric(_("memory in use"), "%"),
        "cpu_percent": Metric(_("CPU in use"), "%"),
    },
    Subject.JOB: {
        "gpu_busy_percent": Metric(_("GPU activity of the job"), "%", high=100.0),
        "straggler_percent": Metric(_("lag of the slowest task"), "%", high=100.0),
        "waiting_s": Metric(_("waiting time"), "s"),
        "impossible": Metric(_("job that can never start"), "", *YES_OR_NO),
    },
    Subject.TEAM: {
        "missing_gpus": Metric(_("cards missing below the guarantee"), "GPUs"),
        "idle_gpus": Metric(_("cards held and idle"), "GPUs", series=(Kind.TEAM, "idle_milli", 1000.0)),
    },
    Subject.POOL: {
        "waiting_jobs": Metric(_("waiting jobs")),
        "faulty_percent": Metric(_("cards out of service"), "%", high=100.0),
        "idle_gpus": Metric(_("cards held and idle"), "GPUs", series=(Kind.POOL, "idle_milli", 1000.0)),
    },
    Subject.PLATFORM: {
        "scheduler_silent_s": Metric(_("time since the scheduler’s last decision"), "s"),
        "disk_used_percent": Metric(_("disk in use"), "%", high=100.0),
        "image_pull_people": Metric(_("people without their image in 10 minutes")),
    },
}
CHECK = "check:"
"""Begins the metric of a health check of machines and cards: 0 while it passes, 1 for a warning, 2 if it fails."""

AlertRule.names = {
    "gpu_fault": _("Faulty GPU"),
    "node_lost": _("Machine is silent"),
    "gpu_hot": _("GPU too hot"),
    "external_process": _("Foreign process on a GPU"),
    "node_disk": _("Disk of a machine is filling up"),
    "power_brake": _("Power brake slows a GPU down"),
    "nvlink_errors": _("NVLinks of a GPU have errors"),
    "container_engine": _("Container engine does not answer"),
    "homes_gone": _("Homes are not mounted"),
    "agent_old": _("Agent is older than the platform"),
    "low_activity": _("Job hardly uses its GPUs"),
    "straggler": _("Slow task holds its job up"),
    "starved_team": _("Team below its guarantee"),
    "queue_age": _("Job waits for long"),
    "impossible_job": _("Job can never start"),
    "scheduler_stalled": _("Scheduler stands still"),
    "disk_filling": _("Disk is filling up"),
    "disk_full": _("Disk is nearly full"),
    "image_pull_failing": _("Images cannot be pulled"),
}
ADMIN, LEAD, OWNER = Audience.ADMIN.value, Audience.LEAD.value, Audience.OWNER.value


def build_shipped_rules() -> list[AlertRule]:
    """Return the rules that ship, as new rows."""
    at_least, above, below = Comparison.AT_LEAST, Comparison.ABOVE, Comparison.BELOW
    critical, warning, info = Severity.CRITICAL, Severity.WARNING, Severity.INFO
    card, node, job, platform = Subject.CARD, Subject.NODE, Subject.JOB, Subject.PLATFORM
    return [
        _rule("gpu_fault", card, "faulty", at_least, 1, critical, [OWNER, ADMIN]),
        _rule("node_lost", node, "silent_s", above, 90, critical, [OWNER, ADMIN], clear_for_s=30),
        _rule("gpu_hot", card, "temperature_c", at_least, 87, warning, [ADMIN], for_s=300, clear_threshold=82),
        _rule("external_process", card, f"{CHECK}gpu_external_process", at_least, 1, warning, [ADMIN], for_s=300),
        _rule("node_disk", node, f"{CHECK}disk_full", at_least, 1, warning, [ADMIN], for_s=60),
        _rule("power_brake", card, f"{CHECK}gpu_power_brake", at_least, 1, warning, [ADMIN], for_s=300),
        _rule("nvlink_errors", card, f"{CHECK}gpu_nvlink_errors", at_least, 1, warning, [ADMIN], for_s=60),
        _rule("container_engine", node, f"{CHECK}container_engine", at_least, 1, critical, [ADMIN], for_s=60),
        _rule("homes_gone", node, f"{CHECK}homes_mounted", at_least, 1, critical, [ADMIN], for_s=60),
        _rule("agent_old", node, f"{CHECK}agent_old", at_least, 1, info, [ADMIN], for_s=HOUR_S),
        _rule("low_activity", job, "gpu_busy_percent", below, 10, info, [OWNER, LEAD], for_s=2 * HOUR_S, least_gpus=4),
        _rule("straggler", job, "straggler_percent", above, 20, info, [OWNER], for_s=15 * MINUTE_S, clear_for_s=300),
        _rule("starved_team", Subject.TEAM, "missing_gpus", above, 0, warning, [ADMIN, LEAD], for_s=30 * MINUTE_S),
        _rule("queue_age", job, "waiting_s", above, 24 * HOUR_S, info, [OWNER, ADMIN], clear_for_s=0),
        _rule("impossible_job", job, "impossible", at_least, 1, warning, [OWNER], for_s=60, clear_for_s=0),
        _rule("scheduler_stalled", platform, "scheduler_silent_s", above, 60, critical, [ADMIN], clear_for_s=30),
        _rule("disk_filling", platform, "disk_used_percent", at_least, 85, warning, [ADMIN], clear_threshold=80),
        _rule("disk_full", platform, "disk_used_percent", at_least, 95, critical, [ADMIN], clear_threshold=90),
        _rule("image_pull_failing", platform, "image_pull_people", at_least, 3, warning, [ADMIN]),
    ]


def find_metric(subject: str, metric: str) -> Metric | None:
    """Return a metric; None if there is none of this name."""
    if metric.startswith(CHECK) and subject in (Subject.CARD, Subject.NODE):
        return Metric(_("health check"), "", 0.0, 2.0)
    return METRICS.get(Subject(subject), {}).get(metric)


def _rule(
    code: str,
    subject: Subject,
    metric: str,
    comparison: Comparison,
    threshold: float,
    severity: Severity,
    audience: list[str],
    **more: float,
) -> AlertRule:
    return AlertRule(
        code=code,
        subject=subject,
        metric=metric,
        comparison=comparison,
        threshold=threshold,
        severity=severity,
        audience=audience,
        **more,
    )
