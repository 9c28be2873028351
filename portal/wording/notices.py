"""Notices as sentences, for page, API and mail."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.urls import NoReverseMatch, reverse
from django.utils.dateparse import parse_datetime
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from common.error_messages import fill_gaps
from events.models import Event, Notice
from jobs.reason_messages import describe_end, end_hint
from portal.services.why_words import describe_why
from portal.wording.errors import describe_stored_refusal
from portal.wording.monitoring.alerts import HINTS, describe_subjects, name_rule
from portal.wording.monitoring.away import describe_away_notice
from portal.wording.monitoring.idle import describe_idle_notice
from portal.wording.time_of_day import name_moment
from services.canaries.trials import WENT_BACK

# Labels in the settings.
KIND_LABELS: dict[str, str | Promise] = {
    "job_started": gettext_lazy("One of my jobs or notebooks starts after a wait of a minute or more"),
    "job_failed": gettext_lazy("One of my jobs fails"),
    "job_succeeded": gettext_lazy("One of my jobs is done"),
    "about_to_end": gettext_lazy("One of my jobs or notebooks is about to end"),
    "idle_noticed": gettext_lazy("One of my jobs or notebooks is idle"),
    "idle_reminded": gettext_lazy("One of mine, or of a team that I lead, is idle still"),
    "idle_warned": gettext_lazy("An idle job or notebook of mine is about to lose its GPU"),
    "idle_acted": gettext_lazy("The GPU of something idle was released, of mine or of a team that I lead"),
    "away": gettext_lazy("I have not been here for long and still hold something"),
    "webhook_disabled": gettext_lazy("A webhook of mine or of a team that I lead is disabled"),
    "quota_changed": gettext_lazy("The quota of a team that I lead changes"),
    "stop_warned": gettext_lazy("An alert rule is about to stop one of my jobs"),
    "alert": gettext_lazy("An alert fires that concerns me"),
    "alert_ended": gettext_lazy("An alert that I was told of ends"),
    "shared": gettext_lazy("A colleague opens a job or notebook to me"),
    "schedule_refused": gettext_lazy("A job of one of my schedules is refused, or a schedule is suspended for it"),
    "service_failed": gettext_lazy("A revision of one of my services fails, or goes back as a canary"),
    "report": gettext_lazy("A report is due that I asked for below"),
}

TITLES: dict[str, str | Promise] = {
    "job_started": gettext_lazy("%(what)s has started"),
    "job_failed": gettext_lazy("%(what)s failed"),
    "job_succeeded": gettext_lazy("%(what)s is done"),
    "about_to_end": gettext_lazy("%(what)s is about to end"),
    "idle_noticed": gettext_lazy("%(what)s has been idle for %(minutes)s minutes"),
    "idle_reminded": gettext_lazy("%(what)s is still idle, for %(minutes)s minutes now"),
    "idle_warned": gettext_lazy("%(what)s is idle and is about to lose its GPU"),
    "idle_acted": gettext_lazy("%(what)s was idle, and its GPU was released"),
    "away": gettext_lazy("You have not been here for %(days)s days and still hold something"),
    "webhook_disabled": gettext_lazy("The webhook %(name)s is disabled"),
    "quota_changed": gettext_lazy("The quota of team %(team)s in pool %(pool)s has changed"),
    "stop_warned": gettext_lazy("An alert rule is about to stop %(what)s"),
    "alert": "%(alert)s",
    "alert_ended": gettext_lazy("Ended: %(alert)s"),
    "shared": gettext_lazy("%(person)s opened %(what)s to you"),
    "schedule_refused": gettext_lazy("The job of your schedule %(name)s was refused"),
    "schedule_refused.suspended": gettext_lazy("Your schedule %(name)s is suspended: %(refusals)s jobs were refused"),
    "service_failed": gettext_lazy("Revision %(revision)s of your service %(name)s failed"),
    "service_failed.went_back": gettext_lazy("Revision %(revision)s of your service %(name)s went back"),
    "report": gettext_lazy("A report is there for you"),
}
RUN_TITLES: dict[str, Promise] = {
    "job_started": ngettext_lazy("%(count)s job has started", "%(count)s jobs have started", "count"),
    "job_failed": ngettext_lazy("%(count)s job failed", "%(count)s jobs failed", "count"),
    "job_succeeded": ngettext_lazy("%(count)s job is done", "%(count)s jobs are done", "count"),
    "about_to_end": ngettext_lazy("%(count)s job is about to end", "%(count)s jobs are about to end", "count"),
}
"""Of the kinds that come in runs, such as the ends of a sweep."""
MOST_NAMES = 3
WEBHOOK_WHY: dict[str, str | Promise] = {
    "failing": gettext_lazy(
        "Its address gave no good answer for a day. Fix the receiver, then enable the webhook again."
    ),
    "gone": gettext_lazy("Its address answered that it is permanently gone (410)."),
    "maker_left": gettext_lazy(
        "The person who created it may no longer do so. Another lead can enable it again and is then responsible "
        "for it."
    ),
}
LOOKS = {
    "job_started": ("player-play", "work"),
    "job_failed": ("alert-circle", "fault"),
    "job_succeeded": ("check", "done"),
    "about_to_end": ("clock", "idle"),
    "idle_noticed": ("zzz", "idle"),
    "idle_reminded": ("zzz", "idle"),
    "idle_warned": ("clock", "idle"),
    "idle_acted": ("zzz", "fault"),
    "away": ("zzz", "idle"),
    "webhook_disabled": ("plug-connected-x", "idle"),
    "quota_changed": ("gauge", "next"),
    "stop_warned": ("clock", "fault"),
    "alert": ("alert-triangle", "fault"),
    "alert_ended": ("circle-check", "done"),
    "shared": ("users", "next"),
    "schedule_refused": ("rotate-clockwise", "fault"),
    "service_failed": ("alert-circle", "fault"),
    "report": ("chart-pie", "next"),
}
# Object kind -> (URL name, its parameter, the notice's column with the value).
PAGES = {
    "job": ("job", "job_id", "label"),
    "notebook": ("notebook", "notebook_id", "label"),
    "webhook": ("webhook", "webhook_id", "object_id"),
    "quota": ("quota", "", ""),
    "alert": ("alerts", "", ""),
    "report_mail": ("reports", "", ""),
    "schedule": ("schedule", "schedule_id", "label"),
    "array": ("array", "array_id", "label"),
    "service": ("service", "service_id", "label"),
}

NOTICE_PAGES = {**PAGES, "user": ("notebooks", "", "")}
"""A notice about its reader leads to what they hold; an event about a person has no page."""


@dataclass(frozen=True)
class NoticeView:
    """A notice in words. text: details; path: of its object's page."""

    row: Notice
    title: str
    text: str
    path: str
    icon: str
    tone: str

    @property
    def url(self) -> str:
        return settings.TESSERA_PUBLIC_URL + self.path if self.path else ""

    @property
    def unread(self) -> bool:
        return self.row.read_at is None


def event_url(event: Event) -> str:
    """Return the full address of the page of an event's object; "" if it has none."""
    name, part, column = PAGES.get(event.kind, ("", "", ""))
    try:
        path = reverse(name, kwargs={part: getattr(event, column)} if part else {}) if name else ""
    except NoReverseMatch:
        return ""
    return settings.TESSERA_PUBLIC_URL + path if path else ""


def view_notice(row: Notice, verdict: str = "") -> NoticeView:
    """Return the notice in the active language. Never fails: older rows may lack values.

    verdict: what is said of how well the job that ended used what it held.
    """
    params = fill_gaps({name: str(value) for name, value in row.params.items()})
    name = row.params.get("name", "")
    what = _("%(name)s (%(label)s)") % {"name": name, "label": row.label} if name else row.label
    if row.object_kind == "alert":
        params["alert"] = _name_alert(row.params)
    title = str(TITLES.get(_title_key(row), "%(what)s")) % fill_gaps({**params, "what": what})
    text = " ".join(filter(None, (_text(row), verdict)))
    return NoticeView(row, title, text, _path(row), *LOOKS.get(row.kind, ("bell", "")))


def _title_key(row: Notice) -> str:
    if row.kind == "service_failed" and row.params.get("why", {}).get("code") == WENT_BACK:
        return f"{row.kind}.{WENT_BACK}"
    return f"{row.kind}.suspended" if row.params.get("suspended") else row.kind


def describe_run(kind: str, count: int) -> str:
    """Say what a run of notices tells, in one title."""
    return str(RUN_TITLES[kind] % {"count": count})  # type: ignore[operator]


def name_some(names: Sequence[str]) -> str:
    """Name the first of many, and say how many more there are."""
    shown = ", ".join(names[:MOST_NAMES])
    if len(names) <= MOST_NAMES:
        return shown
    return _("%(names)s and %(more)s more") % {"names": shown, "more": len(names) - MOST_NAMES}


def _name_alert(params: dict) -> str:
    rule = name_rule(params.get("rule", ""), params.get("name", ""))
    return describe_subjects(rule, params.get("subjects", ()), params.get("count", 0))


def _text(row: Notice) -> str:
    if row.kind == "alert":
        return str(HINTS.get(row.params.get("rule", ""), ""))
    if row.object_kind == "array":
        return _("%(succeeded)s of %(total)s elements are done, %(failed)s failed.") % fill_gaps(row.params)
    if row.kind == "job_failed":
        reason = row.params.get("reason", "")
        return " ".join(words for words in (describe_end(reason), end_hint(reason)) if words)
    if row.kind == "webhook_disabled":
        return str(WEBHOOK_WHY.get(row.params.get("why", ""), ""))
    if row.kind == "schedule_refused":
        return _describe_schedule_refusal(row.params)
    if row.kind == "service_failed":
        return f"{describe_why(row.params.get('why'))} {_('The last lines of its log are on the page of the service.')}"
    if row.kind == "away":
        return describe_away_notice(row.params)
    if row.kind.startswith("idle_"):
        return describe_idle_notice(row.kind, row.object_kind, row.params)
    if row.kind == "stop_warned" and (at := parse_datetime(str(row.params.get("at", "")))):
        words = _(
            "“%(rule)s” fires. The job is stopped at %(at)s or a little later, unless the alert ends before, or you "
            "acknowledge it on the page of alerts."
        )
        return words % {
            "rule": name_rule(row.params.get("rule", ""), row.params.get("title", "")),
            "at": name_moment(at),
        }
    if row.kind == "about_to_end" and (at := parse_datetime(str(row.params.get("at", "")))):
        local = name_moment(at)
        if row.object_kind == "job":
            return _("The job reaches its time limit at %(at)s and is ended then.") % {"at": local}
        return _("The notebook ends at %(at)s. Save your work, or extend it on its page.") % {"at": local}
    return ""


def _describe_schedule_refusal(params: dict) -> str:
    said = describe_stored_refusal(params.get("why", {}))
    if params.get("suspended"):
        return f"{said} {_('Mend what is refused, then resume the schedule on its page.')}"
    return f"{said} {_('You are told of it once, not for each time.')}"


def _path(row: Notice) -> str:
    name, part, column = NOTICE_PAGES.get(row.object_kind, ("", "", ""))
    try:
        return reverse(name, kwargs={part: getattr(row, column)} if part else {}) if name else ""
    except NoReverseMatch:
        return ""
