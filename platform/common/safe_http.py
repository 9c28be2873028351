"""HTTP requests to addresses that people chose, safe against SSRF (OWASP cheat sheet).

The name is resolved once, every address is checked, and the connection goes to a checked one: this defeats DNS
rebinding. No redirects, no proxy.
"""

import base64
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from common.errors import FieldError, InvalidInput

MAX_URL = 500
WITHIN_S = 5.0
MAX_ANSWER = 64 * 1024
PORTS = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Answer:
    """status: None without answer. error: "", forbidden_address, unresolved, timeout, tls or unreachable. body: cut."""

    status: int | None
    error: str
    took_ms: int
    body: bytes = b""


@dataclass(frozen=True)
class Target:
    scheme: str
    host: str
    port: int
    path: str

    @property
    def header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True)
class Reply:
    """headers: in lower case. body: cut."""

    status: int
    headers: dict[str, str]
    body: bytes


class Forbidden(Exception):
    """The address or port may not be reached."""


class Unreached(Exception):
    def __init__(self, why: str):
        super().__init__(why)
        self.why = why


def check_url(url: str, allowed: Iterable[str], pointer: str = "/url") -> str:
    """Return `url` if it may be called. Raises InvalidInput.

    allowed: further networks ("10.0.0.0/8"). Names are checked at each call.
    """
    target = read_url(url)
    if target is None:
        raise InvalidInput([FieldError(pointer, "bad_url", {"max": MAX_URL})])
    literal = _literal(target.host)
    try:
        if literal:
            _judge(literal, target.port, _networks(allowed))
    except Forbidden:
        raise InvalidInput([FieldError(pointer, "forbidden_address")]) from None
    return url


def read_url(url: str) -> Target | None:
    """Parse an http or https URL; None for anything else."""
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname or "@" in parts.netloc or "#" in url or "%" in parts.netloc:
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, parts.hostname.rstrip("."), PORTS[parts.scheme] if port is None else port, path)


def post_body(url: str, body: bytes, headers: dict[str, str], allowed: Iterable[str]) -> Answer:
    """Send `body`, return the answer; never raises."""
    began = time.monotonic()
    status, error, said = None, "", b""
    try:
        reply = send_request("POST", url, headers, allowed, body=body)
        status, said = reply.status, reply.body
    except Unreached as unreached:
        error = unreached.why
    return Answer(status, error, round(1000 * (time.monotonic() - began)), said)


def send_request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    allowed: Iterable[str],
    *,
    body: bytes | None = None,
    most: int = MAX_ANSWER,
    authority: str = "",
    within_s: float | None = None,
) -> Reply:
    """Send one request, for at most within_s (WITHIN_S) after resolving. Raises Unreached.

    most: bytes to read. authority: a file of further CA certificates.
    """
    began, within_s = time.monotonic(), within_s or WITHIN_S
    try:
        target = read_url(url)
        if target is None:
            raise Forbidden
        tls = ssl.create_default_context()
        if authority:
            tls.load_verify_locations(authority)
        address = _resolve(target, _networks(allowed))
        return _exchange(method, target, address, body, headers, most, tls, within_s)
    except Forbidden:
        why = "forbidden_address"
    except socket.gaierror:
        why = "unresolved"
    except ssl.SSLError:
        why = "tls"
    except TimeoutError:
        why = "timeout"
    except (OSError, http.client.HTTPException, UnicodeError):
        why = "timeout" if time.monotonic() - began >= within_s else "unreachable"
    raise Unreached(why)


def authorize_basic(login: str) -> dict[str, str]:
    """Return the header that signs in. login: user:password."""
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def is_public(address: Address) -> bool:
    """Return whether an address is public, by an embedded IPv4 address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in NAT64 or int(address) >> 32 == 0:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _resolve(target: Target, allowed: list[Network]) -> Address:
    """Return the address. Raises Forbidden if any of the name's is."""
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    for address in addresses:
        _judge(address, target.port, allowed)
    return addresses[0]


def _judge(address: Address, port: int, allowed: list[Network]) -> None:
    """Allow public addresses on usual ports, and allowed networks."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if any((mapped or address) in network for network in allowed):
        return
    if not is_public(address) or port not in PORTS.values():
        raise Forbidden


def _literal(host: str) -> Address | None:
    """Parse an address in any spelling (2130706433, 0x7f.1); None for a name."""
    if host == "localhost" or host.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        return None
    return ipaddress.ip_address(str(found[0][4][0]).partition("%")[0])


def _networks(allowed: Iterable[str]) -> list[Network]:
    return [ipaddress.ip_network(text) for text in allowed]


def _exchange(
    method: str,
    target: Target,
    address: Address,
    body: bytes | None,
    headers: Mapping[str, str],
    most: int,
    tls: ssl.SSLContext,
    within_s: float,
) -> Reply:
    """Send the request, bounded by a timer: slow answers never meet socket timeouts. Raises TimeoutError by it.

    The timer has the socket itself: http.client takes it from the connection once an answer began that ends with it.
    """
    until = time.monotonic() + within_s
    connection = http.client.HTTPConnection(target.host, target.port, timeout=within_s)
    connection.sock = socket.create_connection((str(address), target.port), timeout=within_s)
    open_sockets = [connection.sock]
    timer = threading.Timer(max(until - time.monotonic(), 0), _shut, [open_sockets])
    timer.start()
    try:
        if target.scheme == "https":
            secured = tls.wrap_socket(connection.sock, server_hostname=target.host, do_handshake_on_connect=False)
            connection.sock = secured
            open_sockets.append(secured)
            secured.do_handshake()
        connection.request(method, target.path, body, {"Host": target.header, "Connection": "close", **headers})
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        reply = Reply(answer.status, found, answer.read(most))
        if time.monotonic() >= until:
            raise TimeoutError  # what came is cut off
        return reply
    finally:
        timer.cancel()
        connection.close()


def _shut(open_sockets: list[socket.socket]) -> None:
    """Shut the newest: TLS takes the descriptor of the one below it."""
    try:
        open_sockets[-1].shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already
