"""One decision for whole page or fragment: a view never asks whether htmx is there.

    def jobs(request):
        return render_page(request, "jobs/list.html", {"jobs": ...}, fragment="jobs/_rows.html")

A refetch by htmx gets `fragment` alone; a visit, a reload and a restored history entry get the whole page, whose
template includes the same fragment. One view may serve several fragments: give a dict of target id to template, and
the first entry answers targets that it does not name.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers


def render_page(
    request: HttpRequest, page: str, context: dict, *, fragment: str | dict[str, str] = "", status: int = 200
) -> HttpResponse:
    """`page` with `context`, or only the fragment that htmx asked for. Refetches never mark the page as changed."""
    template = pick_fragment(request, fragment) or page
    response = render(request, template, context, status=status)
    patch_vary_headers(response, ("HX-Request", "HX-Target"))
    return response


def pick_fragment(request: HttpRequest, fragment: str | dict[str, str]) -> str:
    """The template of the fragment to answer with; "" for the whole page."""
    if not wants_fragment(request) or not fragment:
        return ""
    if isinstance(fragment, str):
        return fragment
    return fragment.get(request.headers.get("HX-Target", ""), next(iter(fragment.values())))


def wants_fragment(request: HttpRequest) -> bool:
    """True for htmx's own requests, but not for a boosted visit nor for a page restored from history."""
    headers = request.headers
    return (
        headers.get("HX-Request") == "true"
        and headers.get("HX-Boosted") != "true"
        and headers.get("HX-History-Restore-Request") != "true"
    )
