"""Cross-origin checks by a request's headers. Pure functions.

Apps run somebody's code, so hosts do not trust each other: all but plain navigations must be same-origin.
"""

from collections.abc import Iterable

Headers = Iterable[tuple[bytes, bytes]]

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
WHOLE_PAGE = {"", "document"}  # not a frame, embed or object


def value_of(headers: Headers, name: bytes) -> str:
    """Return a header's value or ""; repeated ones are joined, to match nothing expected."""
    return ", ".join(value.decode("latin-1") for key, value in headers if key == name)


def cookies_of(headers: Headers) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for key, value in headers if key == b"cookie" for part in _text(value).split(";")]
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def is_visit(method: str, headers: Headers) -> bool:
    """Return whether the request is a page navigation."""
    mode, kind = value_of(headers, b"sec-fetch-mode"), value_of(headers, b"sec-fetch-dest")
    if mode:
        return method in {"GET", "HEAD"} and mode == "navigate" and kind in WHOLE_PAGE
    return method in {"GET", "HEAD"} and "text/html" in value_of(headers, b"accept")


def refusal(method: str, headers: Headers, origin: str) -> str:
    """Return why a request to the app at `origin` is refused, or ""."""
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
