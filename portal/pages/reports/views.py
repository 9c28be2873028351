"""Reports of one's teams, each a page and a CSV file."""

from typing import cast
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from accounts.models import User
from portal.pages.reports.day import DayPage
from portal.pages.reports.energy import EnergyPage
from portal.pages.reports.eta import EtaPage
from portal.pages.reports.failures import FailuresPage
from portal.pages.reports.idle import IdlePage
from portal.pages.reports.page import ReportPage
from portal.pages.reports.usage import UsagePage
from portal.pages.reports.waits import WaitsPage
from portal.pages.request_guards import signed_in
from portal.partial import render_page

REPORTS: dict[str, type[ReportPage]] = {
    "usage": UsagePage,
    "waits": WaitsPage,
    "idle": IdlePage,
    "failures": FailuresPage,
    "day": DayPage,
    "energy": EnergyPage,
    "eta": EtaPage,
}
"""{its name in addresses: page}, in the order of the tabs."""


@require_safe
@signed_in
def show_report(request: HttpRequest, report: str) -> HttpResponse:
    page = _build_page(request, report)
    where = {"page": page, "report": report, "tabs": list_tabs(report, page)}
    return render_page(request, page.template, where)


@require_safe
@signed_in
def download_report(request: HttpRequest, report: str) -> HttpResponse:
    page = _build_page(request, report)
    response = HttpResponse(page.write_csv(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{page.filename}"'
    return response


def list_tabs(report: str, page: ReportPage) -> list[dict]:
    """Link to all reports of the same period."""
    return [
        {
            "words": other.words,
            "href": f"{reverse('report', args=[name])}?{urlencode(page.span)}",
            "current": name == report,
        }
        for name, other in REPORTS.items()
    ]


def _build_page(request: HttpRequest, report: str) -> ReportPage:
    if report not in REPORTS:
        raise Http404
    return REPORTS[report](cast(User, request.user), request.GET)
