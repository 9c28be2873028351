"""Who may come in: pages are for people who are signed in. Whose rows they see is the view's own first step."""

from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse

from common.errors import NotSignedIn

View = Callable[..., HttpResponse]


def signed_in(view: View) -> View:
    """Raises NotSignedIn for a visitor: portal.failures sends a visit, and htmx's own requests, to the sign-in page."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if not request.user.is_authenticated or not request.user.is_active:
            raise NotSignedIn
        return view(request, *args, **kwargs)

    return guarded
