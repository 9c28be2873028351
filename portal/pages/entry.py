"""Who may come in: the guard of every page but sign-in, and where a person comes from and goes to."""

from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse
from django.utils.http import url_has_allowed_host_and_scheme

from common.errors import NotSignedIn


def signed_in(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """The view, for people who are signed in. Others go to the sign-in page and come back (portal/failures.py)."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **named: object) -> HttpResponse:
        if not request.user.is_authenticated:
            raise NotSignedIn()
        return view(request, *args, **named)

    return guarded


def safe_path(wanted: str) -> str:
    """`wanted` where it is a path of this portal, else "/". Never another host, scheme or a script."""
    same_origin = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return wanted if same_origin else "/"


def address_of(request: HttpRequest) -> str:
    """The visitor's address as the server saw it. A proxy's headers are the web server's business, not ours."""
    return request.META.get("REMOTE_ADDR", "")
