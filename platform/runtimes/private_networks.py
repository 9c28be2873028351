"""Private networks, which jobs do not reach, and what an administrator opens of them. Pure; few imports."""

import re
from collections.abc import Iterable
from ipaddress import ip_network
from typing import NamedTuple

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
"""Networks of machines, services, pods and cloud metadata, closed to jobs. Sources: RFC 1918, 6598, 3927."""
PRIVATE_6 = ("fc00::/7", "fe80::/10")
WITH_PORT = re.compile(r"(?:\[([0-9A-Fa-f:]+(?:/\d+)?)\]|([0-9.]+(?:/\d+)?)):(\d{1,5})")
FORM = "separate networks and hosts such as 10.20.0.0/16, 10.1.2.3:443 or [fd00::5]:443 by commas."


class Opened(NamedTuple):
    """A private network that jobs may reach. port: None for all."""

    network: str
    port: int | None


def read_opened(text: str) -> Opened:
    """Read `10.1.2.3:443`, `10.20.0.0/16` or `[fd00::5]:443`. Raises ValueError."""
    found = WITH_PORT.fullmatch(text)
    network = str(ip_network(found[1] or found[2] if found else text))
    if not found:
        return Opened(network, None)
    if not 0 < int(found[3]) < 1 << 16:
        raise ValueError(f"{found[3]} is no port")
    return Opened(network, int(found[3]))


def read_all_opened(texts: Iterable[str]) -> list[Opened]:
    """Read the setting. Raises ValueError that names it."""
    return [_read_of_setting(text) for text in texts]


def _read_of_setting(text: str) -> Opened:
    try:
        return read_opened(text)
    except ValueError as why:
        raise ValueError(f"TESSERA_JOBS_PRIVATE has {text!r}: {why}; {FORM}") from None
