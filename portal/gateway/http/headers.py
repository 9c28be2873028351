"""Filters headers between browser and app. Pure functions.

Apps get no identity headers and no credentials of the portal; browsers no header that acts beyond the app's host.
"""

from portal.gateway.http.cookies import is_ours
from portal.gateway.http.cross_origin import Headers, cookies_of
from portal.gateway.http.tokens import read_authorization
from services.keys import PREFIX as SERVICE_KEY

HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip
# Expect is answered by the web server; the rest carry identities set by proxies.
FROM_CLIENT = {
    "cookie", "expect", "forwarded", "via", "remote-user", "x-real-ip", "x-client-ip", "x-remote-user", "x-user",
    "true-client-ip", "cf-connecting-ip", "x-original-url", "x-rewrite-url", "x-cluster-client-ip",
}  # fmt: skip
CLIENT_PREFIXES = ("x-forwarded-", "x-auth-", "x-tessera-", "x-webauth-", "x-authenticated-", "x-ms-client-principal")
HANDSHAKE = {
    "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol",
    "sec-websocket-accept",
}  # fmt: skip
# Clear-Site-Data clears the portal's cookies too; others bind the host beyond this app.
FROM_PROGRAM = {"set-cookie", "clear-site-data", "strict-transport-security", "alt-svc", "public-key-pins", "date"}
# Added to the app's own: no other host may frame it, and document.domain cannot be widened.
ADDED = [(b"content-security-policy", b"frame-ancestors 'self'"), (b"origin-agent-cluster", b"?1")]
OURS = ("bearer tes_", f"bearer {SERVICE_KEY}")
"""How our API tokens and keys of services begin."""


def to_program(headers: Headers, scheme: str, authorization: str) -> list[tuple[str, str]]:
    """Return the headers for the app; `authorization` replaces the client's if set."""
    headers = list(headers)
    dropped = HOP_BY_HOP | FROM_CLIENT | HANDSHAKE | _named_by_connection(headers)
    kept = [
        (name, value)
        for name, value in _texts(headers)
        if name not in dropped and "_" not in name and not name.startswith(CLIENT_PREFIXES)
    ]
    kept = [(name, value) for name, value in kept if name != "authorization" or _passes(value, authorization)]
    if cookies := "; ".join(f"{name}={value}" for name, value in cookies_of(headers) if name and not is_ours(name)):
        kept.append(("cookie", cookies))
    if authorization:
        kept.append(("authorization", authorization))
    return [*kept, ("x-forwarded-proto", scheme)]


def to_browser(headers: Headers) -> list[tuple[bytes, bytes]]:
    headers = [(name.lower(), value) for name, value in headers]
    dropped = HOP_BY_HOP | FROM_PROGRAM | _named_by_connection(headers)
    kept = [(name, value) for name, value in headers if name.decode("latin-1") not in dropped]
    kept += [(name, value) for name, value in headers if name == b"set-cookie" and _may_set(value.decode("latin-1"))]
    return kept + ADDED


def _may_set(cookie: str) -> bool:
    """Return whether an app may set this cookie: only for its own host and not by our names."""
    pair, *attributes = cookie.split(";")
    name = pair.partition("=")[0].strip()
    return not is_ours(name) and not any(one.partition("=")[0].strip().lower() == "domain" for one in attributes)


def _passes(value: str, authorization: str) -> bool:
    ours = value.lower().startswith(OURS) or read_authorization(value)
    return not authorization and not ours


def _named_by_connection(headers: Headers) -> set[str]:
    """Return hop-by-hop headers named by Connection (RFC 9110, 7.6.1)."""
    values = [value for name, value in _texts(headers) if name == "connection"]
    return {word.strip().lower() for value in values for word in value.split(",")}


def _texts(headers: Headers) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
