"""Render a whole page, or the fragment that htmx asks for.

    def jobs(request):
        return render_page(request, "jobs/list.html", {"jobs": ...}, fragment="jobs/_rows.html")

The page's template includes the fragment. For several, give a dict of target id to template; the first is the default.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers


def render_page(
    request: HttpRequest, page: str, context: dict, *, fragment: str | dict[str, str] = "", status: int = 200
) -> HttpResponse:
    template = pick_fragment(request, fragment) or page
    response = render(request, template, context, status=status)
    patch_vary_headers(response, ("HX-Request", "HX-Target"))
    return response


def pick_fragment(request: HttpRequest, fragment: str | dict[str, str]) -> str:
    if not wants_fragment(request) or not fragment:
        return ""
    if isinstance(fragment, str):
        return fragment
    return fragment.get(request.headers.get("HX-Target", ""), next(iter(fragment.values())))


def wants_fragment(request: HttpRequest) -> bool:
    """True for htmx requests except boosted visits and history restores."""
    headers = request.headers
    return (
        headers.get("HX-Request") == "true"
        and headers.get("HX-Boosted") != "true"
        and headers.get("HX-History-Restore-Request") != "true"
    )
