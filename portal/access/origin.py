"""Origin and session-cookie checks of pages, API and websocket."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from django.conf import settings

DEFAULT_PORTS = {"http": 80, "https": 443}


def get_portal_origin() -> str:
    return origin_of(settings.TESSERA_PUBLIC_URL)


def origin_of(url: str) -> str:
    """Return scheme://host[:port] as in Origin headers: lower case, no default port."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in {None, DEFAULT_PORTS.get(parts.scheme)} else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def count_session_cookies(cookie_header: str) -> int:
    """Count session cookies; two mean that another app on this host set one."""
    names = [pair.partition("=")[0].strip() for pair in cookie_header.split(";")]
    return names.count(settings.SESSION_COOKIE_NAME)


def comes_from_our_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Check a websocket handshake (ASGI headers): portal's origin, at most one session cookie."""
    pairs = [(name, value.decode("latin-1")) for name, value in headers]
    cookies = "; ".join(value for name, value in pairs if name == b"cookie")
    return dict(pairs).get(b"origin") == get_portal_origin() and count_session_cookies(cookies) < 2
