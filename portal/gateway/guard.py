"""Whose request is it? Judged by its headers alone, before any row is read. Pure functions.

A program of somebody's answers at each app host, so no host trusts another: what is not a visit (a navigation that
reads) must come from a page of this very host.
"""

from collections.abc import Iterable

Headers = Iterable[tuple[bytes, bytes]]

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
WHOLE_PAGE = {"", "document"}  # not a frame, an embed, an object


def value_of(headers: Headers, name: bytes) -> str:
    """The value; "" where there is none. One that came several times is joined, so that it equals nothing expected."""
    return ", ".join(value.decode("latin-1") for key, value in headers if key == name)


def cookies_of(headers: Headers) -> list[tuple[str, str]]:
    """(name, value) of every cookie, in the order that the browser sent."""
    pairs = [part.partition("=") for key, value in headers if key == b"cookie" for part in _text(value).split(";")]
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def is_visit(method: str, headers: Headers) -> bool:
    """Whether somebody opens a page: only then a redirect or a page in words is an answer."""
    mode, kind = value_of(headers, b"sec-fetch-mode"), value_of(headers, b"sec-fetch-dest")
    if mode:
        return method in {"GET", "HEAD"} and mode == "navigate" and kind in WHOLE_PAGE
    return method in {"GET", "HEAD"} and "text/html" in value_of(headers, b"accept")


def refusal(method: str, headers: Headers, origin: str) -> str:
    """Why this request to the app at `origin` may not pass; "" when it may. A websocket's method is "WEBSOCKET"."""
    site, said = value_of(headers, b"sec-fetch-site"), value_of(headers, b"origin")
    if method not in SAFE_METHODS:
        if said != origin:
            return f"Origin is {said!r}"
        return "" if site in {"", "same-origin"} else f"Sec-Fetch-Site is {site!r}"
    if said and said != origin:
        return f"Origin is {said!r}"
    if site in {"", "same-origin", "none"} or (value_of(headers, b"sec-fetch-mode") and is_visit(method, headers)):
        return ""
    return f"Sec-Fetch-Site is {site!r}"


def _text(value: bytes) -> str:
    return value.decode("latin-1")
