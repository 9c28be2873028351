"""Pages for notices and their channels."""

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import User
from accounts.time_zones import list_zones
from common.errors import Conflict, InvalidInput, NotFound
from events.notices import KINDS, Channels, choose_channels, count_unread, load_choices, mark_read, notices_of
from portal.forms import bind
from portal.pages.account.notice_groups import list_days
from portal.pages.account.report_mails import ReportMailForm, list_rows
from portal.pages.request_guards import safe_path, signed_in
from portal.partial import render_page
from portal.wording.monitoring.end_verdicts import load_end_verdicts
from portal.wording.notices import KIND_LABELS, view_notice
from portal.wording.time_of_day import name_moment

PAGE = 100
LONGEST_NUMBER = 18


@require_safe
@signed_in
def list_notices(request: HttpRequest) -> HttpResponse:
    """List notices, older than ?before=412."""
    user, before = cast(User, request.user), request.GET.get("before", "")
    rows = notices_of(user.pk)
    if before.isascii() and before.isdecimal() and len(before) <= LONGEST_NUMBER:
        rows = rows.filter(pk__lt=int(before))
    found = list(rows.order_by("-pk")[: PAGE + 1])
    verdicts = load_end_verdicts(found[:PAGE])
    context = {
        "days": list_days((view_notice(row, verdicts.get(row.pk, "")) for row in found[:PAGE]), timezone.now()),
        "older": found[PAGE - 1].pk if len(found) > PAGE else None,
        "unread": count_unread(user.pk),
    }
    return render_page(request, "notices/list.html", context, fragment="notices/_list.html")


@require_safe
@signed_in
def show_bell(request: HttpRequest) -> HttpResponse:
    return render(request, "_bell.html")


@require_POST
@signed_in
def read_notices(request: HttpRequest) -> HttpResponse:
    """Mark the posted ids as read, or all."""
    ids = request.POST.getlist("id")
    if not all(text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER for text in ids):
        raise NotFound()
    mark_read(user_id=cast(User, request.user).pk, ids=[int(text) for text in ids] or None)
    return redirect(safe_path(request.POST.get("next", reverse("notices"))))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def choose_notices(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    form = ReportMailForm(request.POST if "add" in request.POST else None, initial={"zone": user.time_zone or "UTC"})
    if form.is_bound and form.is_valid() and _add_report(request, user, form):
        return redirect("notifications")
    if request.method == "POST" and not form.is_bound:
        chosen = {kind: Channels(f"{kind}.portal" in request.POST, f"{kind}.mail" in request.POST) for kind in KINDS}
        choose_channels(user_id=user.pk, choices=chosen)
        messages.success(request, _("Saved. You will be notified like this from now on."))
        return redirect("notifications")
    rows = [
        {"kind": kind, "words": KIND_LABELS[kind], "channels": channels}
        for kind, channels in load_choices(user.pk).items()
    ]
    context = {"rows": rows, "mail": settings.TESSERA_MAIL, "address": user.email}
    context |= {"form": form, "reports": list_rows(user), "zones": list_zones()}
    return render(request, "notices/choose.html", context, status=400 if form.is_bound else 200)


def _add_report(request: HttpRequest, user: User, form: ReportMailForm) -> bool:
    """Return whether it was added; if not, the form says why."""
    try:
        made = form.create(user)
    except (InvalidInput, Conflict) as error:
        bind(form, error)
        return False
    at = name_moment(made.next_at)
    messages.success(request, _("The report is mailed for the first time at %(at)s.") % {"at": at})
    return True
