"""Rate limits of callers, in headers of draft-ietf-httpapi-ratelimit-headers-10.

Above the limit: 429 with Retry-After. Without the cache nobody is stopped.
"""

from django.conf import settings
from django.http import HttpResponseBase
from rest_framework.request import Request

from common.errors import TooManyRequests
from common.rates import Window, count_uses


def count_call(request: Request, policies: tuple[str, ...]) -> None:
    """Count a call; visitors are not counted. policies: in settings.TESSERA_RATES. Raises TooManyRequests."""
    if not request.user.is_authenticated:
        return
    caller = request.auth or request.user
    who = f"{type(caller).__name__}-{caller.pk}"
    limits = {f"api {name}": settings.TESSERA_RATES[name] for name in policies if settings.TESSERA_RATES[name][0]}
    windows = {what.removeprefix("api "): window for what, window in count_uses(limits, who).items()} if limits else {}
    request._request.rate_windows = windows  # type: ignore[attr-defined]
    if over := [window for window in windows.values() if window.used > window.limit]:
        raise TooManyRequests(retry_after_s=max(window.ends_in_s for window in over))


def add_rate_headers(request: Request, response: HttpResponseBase) -> None:
    windows: dict[str, Window] = getattr(request._request, "rate_windows", {})
    if windows:
        response["RateLimit-Policy"] = ", ".join(
            f'"{name}";q={window.limit};w={settings.TESSERA_RATES[name][1]}' for name, window in windows.items()
        )
    if known := {name: window for name, window in windows.items() if window.used}:
        response["RateLimit"] = ", ".join(
            f'"{name}";r={window.left};t={window.ends_in_s}' for name, window in known.items()
        )
