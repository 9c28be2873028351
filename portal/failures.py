"""An error as a page, or as a note when htmx asked. config.urls names the handlers of Django's own errors."""

import sys
from urllib.parse import urlsplit

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from common.errors import NotFound, NotPermitted, NotSignedIn, PlatformError, Unavailable
from common.words import error_words
from portal.partial import wants_fragment

PAGES = {403: "403.html", 404: "404.html"}
DATABASE_ERRORS = OperationalError, InterfaceError
ITS_ANSWERS = ("25", "40", "55", "57014")
"""Of PostgreSQL's codes: of a server that is there and says no, as to who waits too long for a lock."""


def show_failure(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """The page of `error` in the reader's language, with its status. A visitor who is not signed in goes to sign in."""
    words = error_words(error)
    if request.path.startswith("/api/"):
        return _problem(request, error, words)
    if isinstance(error, NotSignedIn):
        return _to_sign_in(request)
    response = _note(request, error, words) if wants_fragment(request) else _page(request, error, words)
    if "retry_after_s" in error.params:
        response["Retry-After"] = str(error.params["retry_after_s"])
    return response


def refusal_of_database(error: Exception) -> Unavailable:
    """For one of DATABASE_ERRORS. Source: PostgreSQL's Appendix A, error codes; without one nobody answered."""
    told = getattr(error.__cause__, "sqlstate", None) or ""
    return Unavailable() if told.startswith(ITS_ANSWERS) else Unavailable("database_away")


def not_permitted(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """handler403"""
    return show_failure(request, NotPermitted())


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """handler404"""
    return show_failure(request, NotFound())


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """CSRF_FAILURE_VIEW: the usual cause is a page that stood open while somebody signed in or out elsewhere."""
    return show_failure(request, NotPermitted("page_expired"))


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500, also for a database that is away: the session, the view, any of them may have met that first. No
    template language beyond translation: whatever broke may have broken the frame too.
    """
    found = sys.exception()
    error = refusal_of_database(found) if isinstance(found, DATABASE_ERRORS) else PlatformError()
    with translation.override(translation.get_language_from_request(request)):  # nobody may know the person's own
        if isinstance(error, Unavailable):
            return show_failure(request, error)
        if request.path.startswith("/api/"):
            return _problem(request, error, error_words(error))
        if wants_fragment(request):  # a part of a page stays as it was
            return _note(request, error, error_words(error))
        return render(request, "500.html", {"request_id": getattr(request, "request_id", "")}, status=500)


def _page(request: HttpRequest, error: PlatformError, words: str) -> HttpResponse:
    context = {"cause": words, "code": error.code, "status": error.status}
    page = "503.html" if error.code == "database_away" else PAGES.get(error.status, "failure.html")
    return render(request, page, context, status=error.status)


def _note(request: HttpRequest, error: PlatformError, words: str) -> HttpResponse:
    response = render(request, "_note.html", {"text": words, "tone": "fault"}, status=error.status)
    response["HX-Retarget"], response["HX-Reswap"] = "#notes", "beforeend"
    if error.code == "database_away":
        response["HX-Trigger"] = "live:away"  # the badge of static/js/live.js says as of when the page is
    return response


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """A visit is redirected; a refetch tells htmx to move the whole page. Both lead back to where the person stood."""
    target = f"{reverse('sign_in')}?{urlencode({'next': _page_they_stood_on(request)})}"
    if wants_fragment(request):
        return HttpResponse(status=401, headers={"HX-Redirect": target})
    return redirect(target)


def _page_they_stood_on(request: HttpRequest) -> str:
    """Of a form it is the page with the form: its own address answers nobody who comes back to it."""
    if wants_fragment(request):
        here = request.headers.get("HX-Current-URL", "")
    elif request.method in ("GET", "HEAD"):
        return request.get_full_path()
    else:
        here = request.headers.get("Referer", "")
    page = urlsplit(here)
    return page.path + (f"?{page.query}" if page.query else "") or "/"


def _problem(request: HttpRequest, error: PlatformError, words: str) -> JsonResponse:
    """RFC 9457, for refusals that happen before a view of the API is reached."""
    body = {
        "type": "about:blank",
        "title": _("The request was refused."),
        "status": error.status,
        "code": error.code,
        "detail": words,
        "request_id": getattr(request, "request_id", ""),
    }
    return JsonResponse(body, status=error.status, content_type="application/problem+json")
