"""Middleware: host, origin, security headers, language and error pages."""

import logging
import re
import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _

from accounts.time_zones import zone_of
from common.errors import NotPermitted, PlatformError
from portal.access.origin import count_session_cookies, get_portal_origin
from portal.access.request_origin import mark_origin
from portal.error_pages import show_failure
from portal.health import PROBES, SCRAPED
from portal.pages.frame import language_of

log = logging.getLogger("tessera.portal")

GetResponse = Callable[[HttpRequest], HttpResponse]
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
LOOPBACK_NUMBERS = frozenset({"127.0.0.1", "[::1]"})
API = "/api/"
REQUEST_ID = re.compile(r"^[A-Za-z0-9_-]{8,64}$")


class LocalhostRedirectMiddleware:
    """Redirects 127.0.0.1 to localhost, so that cookies have one host. API calls pass."""

    def __init__(self, get_response: GetResponse):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        host = request.META.get("HTTP_HOST", "").rpartition(":")[0] or request.META.get("HTTP_HOST", "")
        wanted = urlsplit(settings.TESSERA_PUBLIC_URL).hostname == "localhost"
        if wanted and host in LOOPBACK_NUMBERS and request.method in {"GET", "HEAD"} and self._is_page(request.path):
            return HttpResponseRedirect(settings.TESSERA_PUBLIC_URL + request.get_full_path())
        return self.get_response(request)

    @staticmethod
    def _is_page(path: str) -> bool:
        return not path.startswith(API) and path not in PROBES and path not in SCRAPED


class SecurityHeadersMiddleware:
    """Sets a request id and a Content-Security-Policy that forbids inline and foreign content.

    A template with an inline script writes nonce="{{ request.csp_nonce }}".
    """

    def __init__(self, get_response: GetResponse):
        self.get_response = get_response
        self.connect = f"'self' {get_portal_origin().replace('http', 'ws', 1)}"

    def __call__(self, request: HttpRequest) -> HttpResponse:
        offered = request.headers.get("X-Request-ID", "")
        request_id = offered if REQUEST_ID.match(offered) else secrets.token_hex(8)
        nonce = Nonce()
        request.request_id, request.csp_nonce = request_id, nonce  # type: ignore[attr-defined]
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", self._policy(nonce))
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=(), usb=()")
        response["X-Request-ID"] = request_id
        response["X-Frame-Options"] = "DENY"
        if "Cache-Control" not in response and getattr(request, "user", None) is not None:
            response["Cache-Control"] = "no-store" if request.path.startswith(API) else "no-cache, private"
        return response

    def _policy(self, nonce: "Nonce") -> str:
        script = f"'self' 'nonce-{nonce}'" if nonce.used else "'self'"
        return (
            f"default-src 'none'; script-src {script}; style-src 'self'; img-src 'self' data:; font-src 'self'; "
            f"connect-src {self.connect}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )


class Nonce:
    """128 random bits, created when a template first needs them."""

    def __init__(self) -> None:
        self._text = ""

    @property
    def used(self) -> bool:
        return bool(self._text)

    def __str__(self) -> str:
        self._text = self._text or secrets.token_urlsafe(16)
        return self._text


class SameOriginMiddleware:
    """Refuses requests by other sites' pages.

    Besides Sec-Fetch-*, sent to https and localhost only, Origin is checked. Programs send neither.
    """

    def __init__(self, get_response: GetResponse):
        self.get_response = get_response
        self.origin = get_portal_origin()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if count_session_cookies(request.META.get("HTTP_COOKIE", "")) > 1:
            return HttpResponseBadRequest(_("Two session cookies were sent. Clear the cookies of this site."))
        if why := self._refusal(request):
            log.warning("refused %s %s: %s", request.method, request.path, why)
            with translation.override(language_of(request)):  # LookMiddleware runs later
                return show_failure(request, NotPermitted("foreign_origin"))
        return self.get_response(request)

    def _refusal(self, request: HttpRequest) -> str:
        """Return why the request is refused, or ""."""
        site = request.headers.get("Sec-Fetch-Site", "")
        mode = request.headers.get("Sec-Fetch-Mode", "")
        origin = request.headers.get("Origin", "")
        if request.method in SAFE_METHODS:
            return self._refusal_of_reading(request, site, mode)
        if mode == "no-cors":
            return "a request without CORS changes nothing here"
        if origin and origin != self.origin:
            return f"Origin {origin!r} is not {self.origin}"
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            if not origin:
                return "a cookie without an Origin"
            return "" if site in {"", "same-origin"} else f"Sec-Fetch-Site is {site!r}"
        return "" if site in {"", "same-origin", "none"} else f"Sec-Fetch-Site is {site!r}"

    @staticmethod
    def _refusal_of_reading(request: HttpRequest, site: str, mode: str) -> str:
        if site in {"", "same-origin", "none"}:
            return ""
        if request.path.startswith(API) or mode != "navigate":
            return f"Sec-Fetch-Site is {site!r}"
        return ""


class LookMiddleware:
    """Activates the user's language: setting, sign-in cookie or Accept-Language. And on pages the user's time zone:
    the API's times are in UTC for everybody.
    """

    def __init__(self, get_response: GetResponse):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        zone = None if request.path.startswith(API) else zone_of(getattr(request, "user", None))
        with translation.override(language_of(request)), timezone.override(zone):
            request.LANGUAGE_CODE = translation.get_language()
            response = self.get_response(request)
            response.headers.setdefault("Content-Language", request.LANGUAGE_CODE)
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
        return response


class OriginMiddleware:
    """Lets the signed-in person's acts say where the request came from, once the person is asked for."""

    def __init__(self, get_response: GetResponse):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        person = request.user
        request.user = SimpleLazyObject(lambda: mark_origin(person, request))  # type: ignore[assignment]
        return self.get_response(request)


class ErrorPagesMiddleware:
    """Renders PlatformError of pages; the API has its own handler."""

    def __init__(self, get_response: GetResponse):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return show_failure(request, error) if isinstance(error, PlatformError) else None
