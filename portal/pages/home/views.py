"""The home page: what needs the person, what is going, and what could start."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from portal.pages.home.capacity import Capacity
from portal.pages.home.desk import Desk
from portal.pages.request_guards import signed_in
from portal.partial import render_page

FRAGMENTS = {"work": "home/_work_live.html", "rail": "home/_rail_live.html"}


@require_safe
@signed_in
def home(request: HttpRequest) -> HttpResponse:
    """Show the page, whose rail loads behind it: what could start is asked of trial cycles, which take a while."""
    context = {"desk": Desk(request.user), "capacity": Capacity(request.user)}
    return render_page(request, "home.html", context, fragment=FRAGMENTS)
