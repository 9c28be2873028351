"""The page of alerts, and what is done there."""

from collections.abc import Callable
from datetime import timedelta
from typing import cast

from django.contrib import messages
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from accounts.models import User
from common.errors import InvalidInput, PlatformError
from monitoring.alerts.foreign import foreign_alerts_of
from monitoring.alerts.services import (
    acknowledge_alert,
    alerts_visible_to,
    end_silence,
    find_alert,
    find_silence,
    is_engine_late,
    judged_at,
    make_silence,
    silences_visible_to,
)
from monitoring.models import AlertState
from monitoring.models.alerts import OPEN
from portal.pages.alerts.view_model import AlertView, view_alerts, view_foreign_alerts
from portal.pages.request_guards import safe_path, signed_in
from portal.partial import render_page
from portal.wording.errors import describe_error, describe_field_error

MOST_OPEN, MOST_ENDED = 200, 50
HOURS = (
    (1, gettext_lazy("for 1 hour")),
    (4, gettext_lazy("for 4 hours")),
    (24, gettext_lazy("for 1 day")),
    (7 * 24, gettext_lazy("for 7 days")),
    (30 * 24 - 1, gettext_lazy("for 30 days")),
)


@require_safe
@signed_in
def list_alerts(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    rows = alerts_visible_to(user)
    opened = view_alerts(rows.filter(state__in=OPEN).order_by("-pk")[:MOST_OPEN], user)
    loud = [view for view in opened if view.is_loud]
    context = {
        "loud": loud,
        "pending": [view for view in opened if not view.is_loud],
        "ended": view_alerts(rows.filter(state=AlertState.RESOLVED).order_by("-ended_at")[:MOST_ENDED], user),
        "silences": silences_visible_to(user),
        "foreign": view_foreign_alerts(foreign_alerts_of(user).filter(ended_at=None)[:MOST_OPEN]),
        "is_late": is_engine_late(),
        "judged_at": judged_at(),
        "quiet_since": rows.aggregate(last=Max("ended_at"))["last"],
        "answer": _answer(loud),
        "hours": HOURS,
    }
    return render_page(request, "alerts/list.html", context, fragment="alerts/_list.html")


@require_POST
@signed_in
def acknowledge(request: HttpRequest, alert_id: int) -> HttpResponse:
    user = cast(User, request.user)
    alert = find_alert(user, alert_id)
    return _do(request, lambda: acknowledge_alert(actor=user, alert=alert))


@require_POST
@signed_in
def act(request: HttpRequest, alert_id: int, service: Callable[..., object]) -> HttpResponse:
    """Do what an alert asks for, or undo what it did."""
    user = cast(User, request.user)
    alert = find_alert(user, alert_id)
    return _do(request, lambda: service(actor=user, alert=alert))


@require_POST
@signed_in
def silence(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Silence this rule for this subject, for the posted hours."""
    user = cast(User, request.user)
    alert = find_alert(user, alert_id)
    hours = request.POST.get("hours", "")
    known = {str(number): number for number, _words in HOURS}
    until = timezone.now() + timedelta(hours=known.get(hours, HOURS[0][0]))
    reason = request.POST.get("reason", "")[:200]
    return _do(
        request, lambda: make_silence(actor=user, rule=alert.rule, label=alert.label, until=until, reason=reason)
    )


@require_POST
@signed_in
def end(request: HttpRequest, silence_id: int) -> HttpResponse:
    user = cast(User, request.user)
    row = find_silence(user, silence_id)
    return _do(request, lambda: end_silence(actor=user, silence=row))


def _do(request: HttpRequest, service: Callable[[], object]) -> HttpResponse:
    """Do it, say what was wrong with it, and go back to the list, or to the page that asked."""
    try:
        service()
    except InvalidInput as error:
        messages.error(request, " ".join(describe_field_error(one) for one in error.errors))
    except PlatformError as error:
        if error.status < 409:
            raise
        messages.error(request, describe_error(error))
    there = request.POST.get("next", "")
    return redirect(safe_path(there) if there else "alerts")


def _answer(loud: list[AlertView]) -> str:
    if not loud:
        return _("Nothing fires.")
    words = ngettext("%(n)s alert fires.", "%(n)s alerts fire.", len(loud)) % {"n": len(loud)}
    unseen = sum(view.row.acknowledged_at is None for view in loud)
    if unseen == len(loud):
        return words
    more = ngettext("%(n)s is not acknowledged.", "%(n)s are not acknowledged.", unseen) % {"n": unseen}
    return f"{words} {more}"
