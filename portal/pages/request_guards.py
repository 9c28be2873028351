"""Sign-in guard and safe redirects."""

from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse
from django.utils.http import url_has_allowed_host_and_scheme

from common.errors import NotSignedIn


def signed_in(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorate a view for signed-in users; others are sent to sign in and back."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **named: object) -> HttpResponse:
        if not request.user.is_authenticated:
            raise NotSignedIn()
        return view(request, *args, **named)

    return guarded


def safe_path(wanted: str) -> str:
    """Return `wanted` if a path of this portal, else "/"."""
    same_origin = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return wanted if same_origin else "/"
