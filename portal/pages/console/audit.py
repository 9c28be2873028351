"""The audit log: who changed what, from where, and when; as a page and as CSV."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from events.models import Event
from portal.access.admin_lists import AUDITED, filter_audit
from portal.pages.console.page import for_staff, send_csv, show
from portal.wording.changes import list_changes
from portal.wording.events import describe_event

ON_A_PAGE = 100
MOST_EXPORTED = 100_000
FILTERS = ("actor", "kind", "q", "since", "until", "work")
COLUMNS = ("id", "at", "actor", "via", "address", "request_id", "kind", "object", "verb", "from", "to", "text")
KIND_WORDS: dict[str, str | Promise] = {
    "user": _("Person"),
    "team": _("Team"),
    "quota": _("Quota"),
    "user_limit": _("Personal limits"),
    "pool": _("Pool"),
    "window": _("Lending time"),
    "node": _("Machine"),
    "agent": _("Agent"),
    "enrolment": _("Invited machine"),
    "image": _("Image"),
    "volume": _("Volume"),
    "login": _("Registry login"),
    "announcement": _("Announcement"),
    "idle_rule": _("Idle rule"),
    "alert_rule": _("Alert rule"),
    "alert": _("Alert"),
    "silence": _("Silence"),
    "price": _("Price"),
    "secret": _("Secret"),
    "webhook": _("Webhook"),
    "job": _("Job"),
    "task": _("Task"),
    "notebook": _("Notebook"),
}


@dataclass(frozen=True)
class AuditLine:
    row: Event

    @property
    def words(self) -> str:
        return describe_event(self.row)

    @property
    def kind(self) -> str:
        return str(KIND_WORDS.get(self.row.kind, self.row.kind))

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """Return what changed: (field, before, after)."""
        return list_changes(self.row)


def list_history(most: int, **of: object) -> list[AuditLine]:
    """Return the newest lines. of: which, such as kind and object_id."""
    return [AuditLine(row) for row in Event.objects.filter(**of).order_by("-id")[:most]]


@require_safe
@for_staff
def show_audit(request: HttpRequest) -> HttpResponse:
    rows, given = read_filters(request)
    page = Paginator(rows, ON_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "lines": [AuditLine(row) for row in page],
        "given": given,
        "kinds": [(kind, KIND_WORDS[kind]) for kind in AUDITED],
        "query": "&".join(f"{name}={value}" for name, value in request.GET.items() if name in FILTERS),
    }
    return show(request, "console/audit.html", context, current="console_audit")


@require_safe
@for_staff
def download_audit(request: HttpRequest) -> HttpResponse:
    """Send at most MOST_EXPORTED lines as CSV, newest first; from an id on by the filter `until`."""
    rows, _given = read_filters(request)
    return send_csv("audit", COLUMNS, _csv_rows(rows[:MOST_EXPORTED]))


def read_filters(request: HttpRequest) -> tuple[QuerySet[Event], dict[str, str]]:
    """Return the lines that the query asks for, and what of it was understood. Days are whole, `until` included."""
    given = {name: request.GET.get(name, "")[:80] for name in FILTERS}
    since, until = (_read_day(given[name]) for name in ("since", "until"))
    given |= {"since": since.isoformat() if since else "", "until": until.isoformat() if until else ""}
    given["kind"] = given["kind"] if given["kind"] in KIND_WORDS else ""
    rows = filter_audit(
        given["actor"],
        given["kind"],
        given["q"],
        _begin_of(since) if since else None,
        _begin_of(until + timedelta(days=1)) if until else None,
        work=bool(given["work"]),
    )
    return rows, given


def _read_day(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:
        return None


def _begin_of(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))


def _csv_rows(rows: QuerySet[Event]) -> Iterator[tuple]:
    for row in rows.iterator(chunk_size=2000):
        before, after = (row.params.get(name, "") for name in ("from", "to"))
        where = row.via, row.address, row.request_id
        yield (
            row.pk,
            row.at.isoformat(),
            row.actor,
            *where,
            row.kind,
            row.label,
            row.verb,
            before,
            after,
            describe_event(row),
        )
