"""The frame of the console's pages: who may see them, and their navigation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache

from accounts.models import User
from accounts.permissions import may, require
from portal.csv_text import write_csv
from portal.pages.request_guards import signed_in
from portal.partial import render_page

View = Callable[..., HttpResponse]


@dataclass(frozen=True)
class Entry:
    """A line of the navigation. admin_site: a page of Django's admin."""

    url_name: str
    words: str | Promise
    icon: str
    admin_site: bool = False


NAV: tuple[tuple[str | Promise, tuple[Entry, ...]], ...] = (
    ("", (Entry("console", _("Overview"), "layout-grid"),)),
    (
        _("People"),
        (
            Entry("console_people", _("People"), "users"),
            Entry("console_teams", _("Teams"), "stack-2"),
            Entry("console_quotas", _("Quotas"), "gauge"),
            Entry("console_limits", _("Personal limits"), "user"),
        ),
    ),
    (
        _("Machines"),
        (
            Entry("console_pools", _("Pools"), "adjustments"),
            Entry("console_machines", _("Machines"), "server-2"),
            Entry("console_windows", _("Lending windows"), "clock"),
            Entry("console_maintenance", _("Maintenance"), "tools"),
            Entry("console_images", _("Images"), "file"),
            Entry("console_volumes", _("Volumes"), "folder"),
        ),
    ),
    (
        _("Rules"),
        (
            Entry("console_idle_rules", _("Idle rules"), "zzz"),
            Entry("console_alert_rules", _("Alert rules"), "alert-triangle"),
            Entry("console_announcements", _("Announcements"), "bell"),
        ),
    ),
    (
        _("Platform"),
        (
            Entry("health", _("Health"), "activity"),
            Entry("console_audit", _("Audit log"), "history"),
            Entry("admin:index", _("All tables"), "list-details", admin_site=True),
        ),
    ),
)


def for_staff(view: View) -> View:
    """Decorate a view for admins and auditors."""

    @never_cache
    @signed_in
    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **named: object) -> HttpResponse:
        require(person_of(request), "platform.read")
        return view(request, *args, **named)

    return guarded


def person_of(request: HttpRequest) -> User:
    return cast(User, request.user)


def show(
    request: HttpRequest, template: str, context: dict, *, current: str, fragment: str = "", status: int = 200
) -> HttpResponse:
    """Render a page of the console. current: the name of its navigation's line."""
    nav = [
        (group, [(entry, reverse(entry.url_name), entry.url_name == current) for entry in entries])
        for group, entries in NAV
    ]
    shown = {**context, "console_nav": nav, "may_change": may(person_of(request), "person.change")}
    return render_page(request, template, shown, fragment=fragment, status=status)


def send_csv(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> HttpResponse:
    """Send a table as a download."""
    answer = HttpResponse(write_csv(columns, rows), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer
