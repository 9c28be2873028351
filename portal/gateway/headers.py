"""Which headers pass, both ways. Pure functions.

Of the client nothing passes that says who it is (the program would believe it) and nothing of ours; of the program
nothing that reaches beyond its own host.
"""

from portal.gateway.cookies import is_ours
from portal.gateway.guard import Headers, cookies_of

HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip
# Expect is answered by the web server. The rest are names by which proxies say whom they let in.
FROM_CLIENT = {
    "cookie", "expect", "forwarded", "via", "remote-user", "x-real-ip", "x-client-ip", "x-remote-user", "x-user",
    "true-client-ip", "cf-connecting-ip", "x-original-url", "x-rewrite-url", "x-cluster-client-ip",
}  # fmt: skip
CLIENT_PREFIXES = ("x-forwarded-", "x-auth-", "x-tessera-", "x-webauth-", "x-authenticated-", "x-ms-client-principal")
HANDSHAKE = {
    "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol",
    "sec-websocket-accept",
}  # fmt: skip
# Clear-Site-Data empties cookies of the whole domain, the portal's too; the others bind the host beyond this program.
FROM_PROGRAM = {"set-cookie", "clear-site-data", "strict-transport-security", "alt-svc", "public-key-pins", "date"}
# One of our own on top of the program's: both hold. No other host frames it, and document.domain cannot be widened.
ADDED = [(b"content-security-policy", b"frame-ancestors 'self'"), (b"origin-agent-cluster", b"?1")]
OUR_TOKEN = "bearer tes_"  # noqa: S105 - how our API tokens begin


def to_program(headers: Headers, scheme: str, authorization: str) -> list[tuple[str, str]]:
    """What the program gets. authorization: replaces the client's; "" leaves it, unless it is a token of ours."""
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
    """What the browser gets: the program's own policy stays, ours is added."""
    headers = [(name.lower(), value) for name, value in headers]
    dropped = HOP_BY_HOP | FROM_PROGRAM | _named_by_connection(headers)
    kept = [(name, value) for name, value in headers if name.decode("latin-1") not in dropped]
    kept += [(name, value) for name, value in headers if name == b"set-cookie" and _may_set(value.decode("latin-1"))]
    return kept + ADDED


def _may_set(cookie: str) -> bool:
    """Only a cookie of the app's own host and of no name of ours."""
    pair, *attributes = cookie.split(";")
    name = pair.partition("=")[0].strip()
    return not is_ours(name) and not any(one.partition("=")[0].strip().lower() == "domain" for one in attributes)


def _passes(value: str, authorization: str) -> bool:
    return not authorization and not value.lower().startswith(OUR_TOKEN)


def _named_by_connection(headers: Headers) -> set[str]:
    """Connection may name more headers that are for one hop only (RFC 9110, 7.6.1)."""
    values = [value for name, value in _texts(headers) if name == "connection"]
    return {word.strip().lower() for value in values for word in value.split(",")}


def _texts(headers: Headers) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
