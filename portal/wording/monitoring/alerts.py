"""Alerts and their rules as sentences, for pages, API and notices."""

from collections.abc import Sequence

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.resources import show_duration
from monitoring.alerts.catalogue import CHECK, find_metric
from monitoring.models import Alert, AlertRule, Comparison, Subject

MOST_NAMED = 3
# What to do, by the code of a rule that ships.
HINTS: dict[str, str | Promise] = {
    "gpu_fault": gettext_lazy("The card takes no new work. Its machine's page says what is wrong with it."),
    "node_lost": gettext_lazy(
        "Work there is taken to go on until proof of its end. Look whether the machine runs and reaches the platform."
    ),
    "gpu_hot": gettext_lazy("Look at the fans and the air of the machine. The card slows itself down."),
    "external_process": gettext_lazy("A program that the platform did not start holds the card. End it there."),
    "node_disk": gettext_lazy("Delete what nobody needs on the machine: images, old logs, work directories."),
    "power_brake": gettext_lazy("Look at the power supplies of the machine, and at what they have to feed."),
    "nvlink_errors": gettext_lazy("Work over several cards slows down or fails. Reseat the card, or its bridge."),
    "container_engine": gettext_lazy("Nothing can start on the machine. Look at the service of its engine."),
    "homes_gone": gettext_lazy("Work on the machine finds no files. Mount its homes, and look at the file server."),
    "agent_old": gettext_lazy("Install the agent of the platform's version on the machine."),
    "low_activity": gettext_lazy("Fewer cards or a slice may do. The job's page shows how busy each card is."),
    "straggler": gettext_lazy("The other tasks wait for the slowest one. The job's page shows which it is."),
    "starved_team": gettext_lazy("Others hold what is guaranteed to the team. The queue says what it waits for."),
    "queue_age": gettext_lazy("The job's page says why it waits, and what would make it start sooner."),
    "impossible_job": gettext_lazy("Change what the job asks for, or stop it."),
    "scheduler_stalled": gettext_lazy("Nothing new starts. Look at the logs of the workers and of beat."),
    "disk_filling": gettext_lazy("Delete what nobody needs, or add space, before nothing new is accepted."),
    "disk_full": gettext_lazy("Delete what nobody needs now: soon nothing new is accepted."),
    "image_pull_failing": gettext_lazy("Look whether the registry answers, and whether its login is still good."),
}
COMPARISONS: dict[str, str | Promise] = {
    Comparison.ABOVE: gettext_lazy("%(metric)s above %(threshold)s"),
    Comparison.AT_LEAST: gettext_lazy("%(metric)s at %(threshold)s or more"),
    Comparison.BELOW: gettext_lazy("%(metric)s below %(threshold)s"),
    Comparison.AT_MOST: gettext_lazy("%(metric)s at %(threshold)s or less"),
}
ENDS: dict[str, str | Promise] = {
    "cleared": gettext_lazy("It is over."),
    "gone": gettext_lazy("It is no longer there."),
    "rule_off": gettext_lazy("The rule was switched off."),
}
YES_OR_NO = {"faulty", "not_ready", "impossible"}
CHECK_WORDS: dict[float, str | Promise] = {
    0: gettext_lazy("passes"),
    1: gettext_lazy("warns"),
    2: gettext_lazy("fails"),
}


def name_rule(code: str, name: str) -> str:
    """Return a rule's name by its code, where it has none of its own."""
    return name or str(AlertRule.names.get(code, code))


def describe_subjects(rule: str, labels: Sequence[str], count: int) -> str:
    """Return a rule and the first of the subjects that it holds for, as a title."""
    named = ", ".join(label for label in labels[:MOST_NAMED] if label)
    if not named:
        return rule
    more = count - MOST_NAMED
    if more > 0:
        return _("%(rule)s: %(named)s and %(n)s more") % {"rule": rule, "named": named, "n": more}
    return _("%(rule)s: %(named)s") % {"rule": rule, "named": named}


def describe_condition(rule: AlertRule) -> str:
    """Return when a rule holds."""
    metric = find_metric(rule.subject, rule.metric)
    words = str(metric.words) if metric else rule.metric
    if rule.metric in YES_OR_NO:
        said = words
    elif rule.metric.startswith(CHECK):
        said = _("health check %(name)s warns or fails") % {"name": rule.metric.removeprefix(CHECK)}
        if rule.threshold > 1:
            said = _("health check %(name)s fails") % {"name": rule.metric.removeprefix(CHECK)}
    else:
        threshold = describe_value(rule, rule.threshold)
        said = str(COMPARISONS[rule.comparison]) % {"metric": words, "threshold": threshold}
    if rule.for_s:
        said = _("%(condition)s for %(time)s") % {"condition": said, "time": show_duration(rule.for_s)}
    if rule.least_gpus:
        said = _("%(condition)s, with %(n)s cards or more") % {"condition": said, "n": rule.least_gpus}
    if rule.pool_id:
        said = _("%(condition)s, in pool %(pool)s") % {"condition": said, "pool": rule.pool}
    return said


def describe_value(rule: AlertRule, value: float | None) -> str:
    """Return a value with its unit; "?" is what is not known."""
    if value is None:
        return "?"
    if rule.metric in YES_OR_NO:
        return _("yes") if value else _("no")
    if rule.metric.startswith(CHECK):
        return str(CHECK_WORDS.get(value, value))
    metric = find_metric(rule.subject, rule.metric)
    unit = metric.unit if metric else ""
    if unit == "s":
        return show_duration(round(value))
    number = f"{value:.1f}".rstrip("0").rstrip(".")
    return f"{number} {unit}".strip()


def describe_end_of_alert(alert: Alert) -> str:
    return str(ENDS.get(alert.reason, ""))


def describe_subject(alert: Alert) -> str:
    """Return what an alert is about."""
    if alert.rule.subject == Subject.PLATFORM:
        return _("The platform")
    if alert.rule.subject == Subject.CARD:
        node, _colon, index = alert.label.partition(":")
        return _("%(node)s, GPU %(index)s") % {"node": node, "index": index}
    return alert.label
