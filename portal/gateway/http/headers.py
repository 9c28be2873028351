"""Filters headers between browser and app. Pure functions.

Apps get no identity headers and no credentials of the portal; browsers no header that acts beyond the app's host.
"""

from portal.gateway.http.cookies import is_ours
from portal.gateway.http.cross_origin import Headers, cookies_of
from portal.gateway.http.tokens import read_authorization
from services.keys import PREFIX as SERVICE_KEY

HOP_BY_HOP = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
}  # fmt: skip
# Expect is answered by the web server; the rest carry identities set by proxies.
FROM_CLIENT = {
    b"expect", b"forwarded", b"via", b"remote-user", b"x-real-ip", b"x-client-ip", b"x-remote-user", b"x-user",
    b"true-client-ip", b"cf-connecting-ip", b"x-original-url", b"x-rewrite-url", b"x-cluster-client-ip",
}  # fmt: skip
CLIENT_PREFIXES = (
    b"x-forwarded-", b"x-auth-", b"x-tessera-", b"x-webauth-", b"x-authenticated-", b"x-ms-client-principal",
)  # fmt: skip
HANDSHAKE = {
    b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions", b"sec-websocket-protocol",
    b"sec-websocket-accept",
}  # fmt: skip
NOT_TO_PROGRAM = HOP_BY_HOP | FROM_CLIENT | HANDSHAKE
# Clear-Site-Data clears the portal's cookies too; others bind the host beyond this app.
NOT_TO_BROWSER = HOP_BY_HOP | {
    b"set-cookie", b"clear-site-data", b"strict-transport-security", b"alt-svc", b"public-key-pins", b"date",
}  # fmt: skip
# Added to the app's own: no other host may frame it, and document.domain cannot be widened.
ADDED = [(b"content-security-policy", b"frame-ancestors 'self'"), (b"origin-agent-cluster", b"?1")]
OURS = ("bearer tes_", f"bearer {SERVICE_KEY}")
"""How our API tokens and keys of services begin."""

Header = tuple[bytes, bytes]


def to_program(headers: Headers, scheme: str, authorization: str) -> list[Header]:
    """Return the headers for the app; `authorization` replaces the client's if set."""
    passing, cookies = _split(headers, NOT_TO_PROGRAM, b"cookie")
    kept = [
        (name, value)
        for name, value in passing
        if b"_" not in name
        and not name.startswith(CLIENT_PREFIXES)
        and (name != b"authorization" or _passes(value.decode("latin-1"), authorization))
    ]
    if cookies and (theirs := "; ".join(f"{name}={value}" for name, value in cookies_of(cookies) if _is_theirs(name))):
        kept.append((b"cookie", theirs.encode("latin-1")))
    if authorization:
        kept.append((b"authorization", authorization.encode("latin-1")))
    kept.append((b"x-forwarded-proto", scheme.encode("ascii")))
    return kept


def to_browser(headers: Headers) -> list[Header]:
    """Return an app's headers for a browser."""
    kept, cookies = _split(headers, NOT_TO_BROWSER, b"set-cookie")
    return kept + [cookie for cookie in cookies if _may_set(cookie[1].decode("latin-1"))] + ADDED


def _split(headers: Headers, dropped: set[bytes], apart: bytes) -> tuple[list[Header], list[Header]]:
    """Return the headers that pass, and those called `apart`, names in lower case.

    dropped: names that do not pass, beside those that Connection names (RFC 9110, 7.6.1).
    """
    passing: list[Header] = []
    those: list[Header] = []
    named: set[bytes] = set()
    for name, value in headers:
        name = name.lower()
        if name == apart:
            those.append((name, value))
        elif name == b"connection":
            named |= {word.strip().lower() for word in value.split(b",")}
        elif name not in dropped:
            passing.append((name, value))
    return [header for header in passing if header[0] not in named] if named else passing, those


def _is_theirs(cookie: str) -> bool:
    return bool(cookie) and not is_ours(cookie)


def _may_set(cookie: str) -> bool:
    """Return whether an app may set this cookie: only for its own host and not by our names."""
    pair, *attributes = cookie.split(";")
    name = pair.partition("=")[0].strip()
    return not is_ours(name) and not any(one.partition("=")[0].strip().lower() == "domain" for one in attributes)


def _passes(value: str, authorization: str) -> bool:
    ours = value.lower().startswith(OURS) or read_authorization(value)
    return not authorization and not ours
