"""The portal's part of an app's sign-in."""

import re
from typing import cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.models import User
from common.errors import NotFound, NotPermitted
from common.rates import check_rate
from portal.access.app_links import app_origin
from portal.access.app_sessions import find_app, issue_code
from portal.models import App
from portal.pages.request_guards import signed_in

STATE = re.compile(r"[A-Za-z0-9_-]{43}")
PATH = re.compile(r"/[!-~]{0,2000}")


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """Send the browser back to the app with a code, after consent to another person's app."""
    if request.headers.get("Sec-Fetch-Dest", "document") != "document":
        raise NotPermitted("foreign_origin")  # a frame could hide the consent
    asked = request.POST if request.method == "POST" else request.GET
    user = cast(User, request.user)
    app = find_app(user, asked.get("app", ""))
    state, path = asked.get("state", ""), asked.get("next", "")
    if not STATE.fullmatch(state):
        raise NotFound()
    path = path if PATH.fullmatch(path) else "/"
    if app.owner_id != user.pk and request.method != "POST":
        context = {"app": app, "state": state, "next": path, "origin": app_origin(app.label)}
        return render(request, "apps/consent.html", context)
    return _send_back(request, app, state, path)


def _send_back(request: HttpRequest, app: App, state: str, path: str) -> HttpResponse:
    """Redirect to the app with a code; after a form by a page, as form-action covers redirects."""
    user = cast(User, request.user)
    check_rate("app codes", user.username, limit=120, per_s=60)
    key = request.session.session_key or ""
    code = issue_code(app=app, user=user, session_key=key, state=state, path=path)
    there = f"{app_origin(app.label)}/.tessera/enter?{urlencode({'code': code, 'state': state})}"
    after_form = request.method == "POST" or request.headers.get("Sec-Fetch-Site") == "same-origin"
    response = render(request, "apps/opening.html", {"there": there}) if after_form else HttpResponseRedirect(there)
    response["Referrer-Policy"] = "no-referrer"
    return response
