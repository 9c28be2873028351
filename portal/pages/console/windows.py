"""Lending windows: the week as a picture, a table beside it, and a form for one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import combinations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.permissions import require
from cluster.models import Pool, Window
from cluster.services import delete_window, find_window, save_window
from cluster.windows import Span, open_until, spans_of
from portal.console.machines import WindowForm as AdminForm
from portal.forms import save
from portal.pages.console.audit import list_history
from portal.pages.console.forms import begin_labels_large
from portal.pages.console.page import for_staff, person_of, show
from portal.wording.changes import name_days

MOST_LINES = 12
WEEK = timedelta(days=7)


class WindowForm(AdminForm):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        begin_labels_large(self)
        self.fields["weekdays"].widget.attrs["class"] = "form-check-input"
        self.fields["holidays"].widget.attrs["rows"] = 2
        self.fields["zone"].help_text = _("Such as Asia/Shanghai or UTC.")


@dataclass(frozen=True)
class Band:
    """A part of the week. begin, width: in percent of it."""

    begin: float
    width: float
    words: str


@dataclass(frozen=True)
class Lane:
    """What one pool lends to another. overlaps: what stands in two windows."""

    lender: str
    borrower: str
    bands: list[Band]
    overlaps: list[Band]
    is_open: bool


@dataclass(frozen=True)
class Line:
    """A window in the table."""

    window: Window
    days: str
    next_day: bool
    open_until: datetime | None


@require_safe
@for_staff
def show_windows(request: HttpRequest) -> HttpResponse:
    """Draw this week, and list the windows."""
    windows, now = list(Window.objects.select_related("lender", "borrower")), timezone.localtime()
    monday = find_monday(now)
    lanes = draw_week(windows, monday, now)
    context = {
        "lanes": lanes,
        "days": [_name_day(monday + timedelta(days=number)) for number in range(7)],
        "now_at": _percent(now - monday),
        "lines": [
            Line(one, name_days(one.weekdays), one.ends <= one.begins, open_until([one], now)) for one in windows
        ],
        "overlaps": [(lane, part) for lane in lanes for part in lane.overlaps],
        "pools": Pool.objects.count(),
        "zone": timezone.get_current_timezone_name(),
        "history": list_history(MOST_LINES, kind=Window.KIND),
        "answer": _answer(lanes),
    }
    return show(request, "console/windows.html", context, current="console_windows")


@require_http_methods(["GET", "POST"])
@for_staff
def new_window(request: HttpRequest) -> HttpResponse:
    """Make a window. ?lender= chooses the pool that lends."""
    require(person_of(request), "pool.change")
    lender = Pool.objects.filter(name=request.GET.get("lender", "")).first()
    zone = timezone.get_current_timezone_name()
    return edit(request, Window(), WindowForm(request.POST or None, initial={"lender": lender, "zone": zone}))


@require_http_methods(["GET", "POST"])
@for_staff
def change_window(request: HttpRequest, window_id: int) -> HttpResponse:
    require(person_of(request), "pool.change")
    window = find_window(window_id)
    return edit(request, window, WindowForm(request.POST or None, instance=window))


@require_POST
@for_staff
def remove_window(request: HttpRequest, window_id: int) -> HttpResponse:
    require(person_of(request), "pool.change")
    window = find_window(window_id)
    delete_window(actor=person_of(request).as_actor, window=window)
    words = _("%(lender)s lends to %(borrower)s in this window no more.")
    messages.success(request, words % {"lender": window.lender, "borrower": window.borrower})
    return redirect("console_windows")


def edit(request: HttpRequest, window: Window, form: WindowForm) -> HttpResponse:
    actor = person_of(request).as_actor
    if save(form, lambda: save_window(actor=actor, window=form.instance)):
        messages.success(request, _("The lending window is saved."))
        return redirect("console_windows")
    context = {"form": form, "window": window, "days": form["weekdays"]}
    status = 400 if form.errors else 200
    return show(request, "console/window.html", context, current="console_windows", status=status)


def draw_week(windows: Iterable[Window], monday: datetime, now: datetime) -> list[Lane]:
    """Return a lane for each pair of pools, with its windows of the week from `monday` on, holidays included."""
    pairs: dict[tuple[str, str], list[Window]] = {}
    for window in windows:
        pairs.setdefault((window.lender.name, window.borrower.name), []).append(window)
    return [
        Lane(
            *pair,
            bands=[_band(span, monday) for span in _clip(spans_of(of_pair, monday), monday)],
            overlaps=[_band(span, monday) for span in find_overlaps(of_pair, monday)],
            is_open=open_until(of_pair, now) is not None,
        )
        for pair, of_pair in sorted(pairs.items())
    ]


def find_overlaps(windows: list[Window], monday: datetime) -> list[Span]:
    """Return what of the week stands in two of these windows, merged, in order."""
    spans = [_clip(spans_of([window], monday), monday) for window in windows]
    both = sorted(
        (max(a[0], b[0]), min(a[1], b[1]))
        for one, other in combinations(spans, 2)
        for a in one
        for b in other
        if max(a[0], b[0]) < min(a[1], b[1])
    )
    found: list[Span] = []
    for begins, ends in both:
        if found and begins <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], ends)
        else:
            found.append((begins, ends))
    return found


def find_monday(now: datetime) -> datetime:
    """Return when the week of `now` began, in its zone."""
    return datetime.combine(now.date() - timedelta(days=now.weekday()), time(), now.tzinfo)


def _clip(spans: Iterable[Span], monday: datetime) -> list[Span]:
    end = monday + WEEK
    return [(max(begins, monday), min(ends, end)) for begins, ends in spans if begins < end and ends > monday]


def _band(span: Span, monday: datetime) -> Band:
    begins, ends = (at.astimezone(monday.tzinfo) for at in span)
    words = f"{_name_day(begins)} {begins:%H:%M} – {_name_day(ends)} {ends:%H:%M}"
    return Band(_percent(begins - monday), _percent(ends - begins), words)


def _percent(span: timedelta) -> float:
    return round(100 * (span / WEEK), 2)


def _name_day(at: datetime) -> str:
    return date_format(at, "D")


def _answer(lanes: list[Lane]) -> str:
    if not lanes:
        return _("No pool lends cards to another.")
    lending = [f"{lane.lender} → {lane.borrower}" for lane in lanes if lane.is_open]
    if not lending:
        return _("No window is open now.")
    words = ngettext("%(pairs)s is open now.", "%(pairs)s are open now.", len(lending))
    return words % {"pairs": ", ".join(lending)}
