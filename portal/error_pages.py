"""Error pages, and messages for htmx. config.urls names the handlers."""

import errno
import sys
from urllib.parse import urlsplit

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from psycopg_pool import PoolTimeout

from common.errors import Busy, DiskFull, NotFound, NotPermitted, NotSignedIn, PlatformError, Unavailable
from portal.health import database_probe
from portal.partial import wants_fragment
from portal.wording.errors import describe_error, link_help

PAGES = {403: "403.html", 404: "404.html"}
DATABASE_ERRORS = OperationalError, InterfaceError
DISK_FULL = "53100"
FULL = errno.ENOSPC, errno.EDQUOT
ITS_ANSWERS = ("25", "40", "55", "57014")
"""Prefixes of PostgreSQL codes that a running server answers with, such as a lock timeout."""


def show_failure(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """Render `error`, or redirect to sign-in."""
    words = describe_error(error)
    if request.path.startswith("/api/"):
        response = _build_problem(request, error, words)
    elif isinstance(error, NotSignedIn):
        return _redirect_to_sign_in(request)
    elif wants_fragment(request):
        response = _render_note(request, error, words)
    else:
        response = _render_page(request, error, words)
    if "retry_after_s" in error.params:
        response["Retry-After"] = str(error.params["retry_after_s"])
    return response


def find_outage(error: BaseException | None) -> Unavailable | None:
    """Map one of DATABASE_ERRORS by its code (PostgreSQL, Appendix A), and what a full disk did not take, or None.

    Who waits for a connection in vain may do so behind others, while the database answers: it is asked.
    """
    if isinstance(error, OSError) and error.errno in FULL:
        return DiskFull()
    if not isinstance(error, DATABASE_ERRORS):
        return None
    told = getattr(error.__cause__, "sqlstate", None) or ""
    if told == DISK_FULL:
        return DiskFull()
    if told.startswith(ITS_ANSWERS):
        return Unavailable(retry_after_s=2)
    if isinstance(error.__cause__, PoolTimeout) and database_probe.answers():
        return Busy()
    return Unavailable("database_away", retry_after_s=10)


def not_permitted(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler403."""
    return show_failure(request, NotPermitted())


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler404."""
    return show_failure(request, NotFound())


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """CSRF_FAILURE_VIEW: usually somebody signed in or out in another tab."""
    return show_failure(request, NotPermitted("page_expired"))


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500, also for a database that is away in middleware, and a full disk."""
    found = sys.exception()
    error = find_outage(found) or PlatformError()
    with translation.override(translation.get_language_from_request(request)):  # the user may be unreadable
        if isinstance(error, Unavailable):
            return show_failure(request, error)
        if request.path.startswith("/api/"):
            return _build_problem(request, error, describe_error(error))
        if wants_fragment(request):  # keep the page
            return _render_note(request, error, describe_error(error))
        return render(request, "500.html", {"request_id": getattr(request, "request_id", "")}, status=500)


def _render_page(request: HttpRequest, error: PlatformError, words: str) -> HttpResponse:
    context = {"cause": words, "code": error.code, "status": error.status}
    page = "503.html" if error.code == "database_away" else PAGES.get(error.status, "failure.html")
    return render(request, page, context, status=error.status)


def _render_note(request: HttpRequest, error: PlatformError, words: str) -> HttpResponse:
    response = render(request, "_note.html", {"text": words, "tone": "fault", "about": error.code}, status=error.status)
    response["HX-Retarget"], response["HX-Reswap"] = "#notes", "beforeend"
    if error.code == "database_away":
        response["HX-Trigger"] = "live:away"  # static/js/live.js shows the page's age
    return response


def _redirect_to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect to sign-in and back; for htmx the whole page."""
    target = f"{reverse('sign_in')}?{urlencode({'next': _find_way_back(request)})}"
    if wants_fragment(request):
        return HttpResponse(status=401, headers={"HX-Redirect": target})
    return redirect(target)


def _find_way_back(request: HttpRequest) -> str:
    """Return the page to come back to; for a form the page that shows it."""
    if wants_fragment(request):
        here = request.headers.get("HX-Current-URL", "")
    elif request.method in ("GET", "HEAD"):
        return request.get_full_path()
    else:
        here = request.headers.get("Referer", "")
    page = urlsplit(here)
    return page.path + (f"?{page.query}" if page.query else "") or "/"


def _build_problem(request: HttpRequest, error: PlatformError, words: str) -> HttpResponse:
    """Return problem+json (RFC 9457) for refusals before an API view."""
    body = {
        "type": "about:blank",
        "title": _("The request was refused."),
        "status": error.status,
        "code": error.code,
        "help": link_help(error.code),
        "detail": words,
        "request_id": getattr(request, "request_id", ""),
    }
    return JsonResponse(body, status=error.status, content_type="application/problem+json")
