"""View models of alerts and silences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import Team, User
from common.safe_http import read_url
from monitoring.alerts.foreign import STALE_AFTER
from monitoring.alerts.messages import matches
from monitoring.alerts.services import alerts_visible_to
from monitoring.alerts.stopping import is_acknowledged
from monitoring.models import Alert, AlertState, ForeignAlert, Severity, Silence, Subject
from monitoring.models.alerts import OPEN
from portal.wording.monitoring.alerts import (
    HINTS,
    describe_condition,
    describe_end_of_alert,
    describe_subject,
    describe_value,
)
from portal.wording.time_of_day import clock

MOST_NAMES = 4
SEVERITY_CHIPS = {
    Severity.CRITICAL: ("fault", "alert-circle"),
    Severity.WARNING: ("idle", "alert-triangle"),
    Severity.INFO: ("wait", "info-circle"),
}
STATE_CHIPS = {
    AlertState.PENDING: ("wait", "hourglass"),
    AlertState.NO_DATA: ("stale", "question-mark"),
    AlertState.RESOLVED: ("done", "circle-check"),
}
WORST_FIRST = [Severity.CRITICAL, Severity.WARNING, Severity.INFO]


@dataclass(frozen=True)
class Names:
    """Whom receivers are, by "user:7" and "team:3". viewer: the reader."""

    viewer: User
    of: dict[str, str]

    def describe(self, told: Iterable[str]) -> str:
        """Say who was told. Only admins and auditors read others' names."""
        known = [receiver for receiver in told if receiver in self.of or not self.viewer.sees_all]
        if not known:
            return _("nobody yet")
        if self.viewer.sees_all:
            names = [self.of[receiver] for receiver in known]
            more = len(names) - MOST_NAMES
            shown = ", ".join(names[:MOST_NAMES])
            return _("%(names)s and %(n)s more") % {"names": shown, "n": more} if more > 0 else shown
        me, others = f"user:{self.viewer.pk}" in known, len([one for one in known if one.startswith("user:")])
        others -= me
        if not me:
            return ngettext("%(n)s person", "%(n)s people", others) % {"n": others}
        return ngettext("you and %(n)s other", "you and %(n)s others", others) % {"n": others} if others else _("you")


class AlertView:
    def __init__(self, row: Alert, names: Names, silences: Sequence[Silence]):
        self.row = row
        self.names = names
        self.rule = row.rule
        self.silences = [one for one in silences if matches(one, row)]

    @property
    def chip(self) -> tuple[str, str, str]:
        """Return (tone, icon, words)."""
        if self.row.state in STATE_CHIPS:
            return *STATE_CHIPS[AlertState(self.row.state)], str(AlertState(self.row.state).label)
        return *SEVERITY_CHIPS[Severity(self.rule.severity)], str(Severity(self.rule.severity).label)

    @property
    def subject(self) -> str:
        return describe_subject(self.row)

    @property
    def path(self) -> str:
        """The page of what the alert is about."""
        label = self.row.label
        if self.rule.subject in (Subject.JOB, Subject.TASK):
            return reverse("job", args=[label.partition(" ")[0]])
        if self.rule.subject in (Subject.CARD, Subject.NODE):
            return reverse("node", args=[label.partition(":")[0]])
        if self.rule.subject == Subject.PLATFORM:
            return reverse("health") if self.names.viewer.sees_all else ""
        return f"{reverse('queue')}?pool={label}" if self.rule.subject == Subject.POOL else reverse("quota")

    @property
    def value(self) -> str:
        return describe_value(self.rule, self.row.value)

    @property
    def condition(self) -> str:
        return describe_condition(self.rule)

    @property
    def hint(self) -> str:
        return str(HINTS.get(self.rule.code, ""))

    @property
    def told(self) -> str:
        return self.names.describe(self.row.told)

    @property
    def stop(self) -> str:
        """Say when the job is stopped, "" if it is not."""
        if self.row.acts != Alert.Acts.WARNED or self.row.acts_at is None:
            return ""
        return _("the job is stopped at %(at)s unless this is acknowledged") % {"at": clock(self.row.acts_at)}

    @property
    def end(self) -> str:
        return describe_end_of_alert(self.row)

    @property
    def is_open(self) -> bool:
        return self.row.state in OPEN

    @property
    def is_loud(self) -> bool:
        return self.row.state in (AlertState.FIRING, AlertState.NO_DATA)

    @cached_property
    def may_acknowledge(self) -> bool:
        """An owner and a lead answer for their work; for machines and the platform, admins do."""
        if not self.is_loud or is_acknowledged(self.row):
            return False
        of_work = self.rule.subject in (Subject.JOB, Subject.TASK, Subject.TEAM)
        return self.names.viewer.is_admin or (of_work and not self.names.viewer.sees_all)

    @property
    def may_act(self) -> bool:
        return self.names.viewer.is_admin and self.is_loud

    @property
    def silence(self) -> Silence | None:
        """Why the reader hears nothing of it."""
        return next((one for one in self.silences if one.for_all or one.user_id == self.names.viewer.pk), None)


def view_alerts(rows: Iterable[Alert], viewer: User) -> list[AlertView]:
    """Return alerts, those that fire first, the worst first."""
    alerts = list(rows)
    names = load_names(viewer, alerts)
    silences = list(Silence.objects.filter(until__gt=timezone.now()))
    return sorted((AlertView(row, names, silences) for row in alerts), key=_order)


def find_planned_stop(job_pk: int, viewer: User) -> AlertView | None:
    """Return the alert that stops the job soon, if it concerns the viewer."""
    warned = alerts_visible_to(viewer).filter(acts=Alert.Acts.WARNED, rule__subject=Subject.JOB, subject_id=job_pk)
    row = warned.order_by("acts_at").first()
    return view_alerts([row], viewer)[0] if row is not None else None


def load_names(viewer: User, alerts: Sequence[Alert]) -> Names:
    """Load the names of who was told, for those who may read them."""
    told = {receiver for alert in alerts for receiver in alert.told} if viewer.sees_all else set()
    users = {int(one[5:]) for one in told if one.startswith("user:")}
    teams = {int(one[5:]) for one in told if one.startswith("team:")}
    of = {f"user:{pk}": name for pk, name in User.objects.filter(pk__in=users).values_list("pk", "username")}
    return Names(
        viewer, of | {f"team:{pk}": name for pk, name in Team.objects.filter(pk__in=teams).values_list("pk", "name")}
    )


@dataclass(frozen=True)
class ForeignView:
    """An alert of another system. Its texts are others': shown as text, and linked to web addresses only."""

    row: ForeignAlert

    @property
    def chip(self) -> tuple[str, str, str]:
        """Return (tone, icon, words)."""
        if timezone.now() - self.row.received_at > STALE_AFTER:
            return "stale", "clock", _("Not repeated")
        severity = self.row.severity
        known = Severity(severity) if severity in Severity.values else Severity.INFO
        return *SEVERITY_CHIPS[known], str(known.label) if severity in Severity.values else severity or _("Firing")

    @property
    def text(self) -> str:
        said = self.row.annotations
        return str(said.get("summary") or said.get("description") or "")

    @property
    def labels(self) -> str:
        own = {name: value for name, value in self.row.labels.items() if name not in ("alertname", "severity")}
        return ", ".join(f"{name}={value}" for name, value in sorted(own.items())[:MOST_NAMES])

    @property
    def url(self) -> str:
        return self.row.url if read_url(self.row.url) else ""

    @property
    def source(self) -> str:
        return self.row.source if read_url(self.row.source) else ""


def view_foreign_alerts(rows: Iterable[ForeignAlert]) -> list[ForeignView]:
    return [ForeignView(row) for row in rows]


def _order(view: AlertView) -> tuple[int, int, float]:
    states = [AlertState.FIRING, AlertState.NO_DATA, AlertState.PENDING, AlertState.RESOLVED]
    acknowledged = view.row.acknowledged_at is not None
    severity = WORST_FIRST.index(Severity(view.rule.severity))
    return states.index(AlertState(view.row.state)) + acknowledged, severity, -view.row.since.timestamp()
