"""Whose request is it: exact origins, and one session cookie. Pages, API and the socket ask the same questions."""

from urllib.parse import urlsplit

from django.conf import settings

DEFAULT_PORTS = {"http": 80, "https": 443}


def own_origin() -> str:
    return origin_of(settings.TESSERA_PUBLIC_URL)


def origin_of(url: str) -> str:
    """scheme://host[:port] of `url`, as browsers write it in Origin: lower case, no default port."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in {None, DEFAULT_PORTS.get(parts.scheme)} else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def count_session_cookies(cookie_header: str) -> int:
    """How many cookies carry the session's name. Two mean that another host of this machine tossed one at us."""
    names = [pair.partition("=")[0].strip() for pair in cookie_header.split(";")]
    return names.count(settings.SESSION_COOKIE_NAME)
