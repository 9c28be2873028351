"""The NetworkPolicy of a team's namespace. Pure."""

import re
from collections.abc import Iterable
from ipaddress import ip_network

from runtimes.kubernetes.pods import names

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
"""Networks of nodes, services, pods and cloud metadata, closed to tasks. Sources: RFC 1918, 6598, 3927."""
PRIVATE_6 = ("fc00::/7", "fe80::/10")
PLATFORM = f"{names.DOMAIN}/platform"
"""Label of the namespace whose pods, the gateway's, may connect to tasks."""
WITH_PORT = re.compile(r"(?:\[([0-9A-Fa-f:]+(?:/\d+)?)\]|([0-9.]+(?:/\d+)?)):(\d{1,5})")
PROTOCOLS = ("UDP", "TCP")


def build_network_policy(install: str, private: Iterable[str]) -> dict:
    """Return the policy's spec: the gateway, own pods, DNS, public and `private` networks. Raises ValueError."""
    own = {"podSelector": {"matchLabels": {names.LABEL_INSTALL: install}}}
    gateway = {"namespaceSelector": {"matchLabels": {PLATFORM: install}}}
    world = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(PRIVATE)}},
        {"ipBlock": {"cidr": "::/0", "except": list(PRIVATE_6)}},
    ]
    name_servers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    ours = [{"to": [name_servers], "ports": _ports(53)}, {"to": [own]}, {"to": world}]
    return {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [gateway, own]}],
        "egress": [*ours, *map(build_egress_rule, private)],
    }


def build_egress_rule(text: str) -> dict:
    """Return the egress rule for `10.1.2.3:443`, `10.20.0.0/16` or `[fd00::5]:443`. Raises ValueError."""
    found = WITH_PORT.fullmatch(text)
    network = ip_network(found[1] or found[2] if found else text)
    to = [{"ipBlock": {"cidr": str(network)}}]
    if not found:
        return {"to": to}
    if not 0 < int(found[3]) < 1 << 16:
        raise ValueError(f"{found[3]} is no port")
    return {"to": to, "ports": _ports(int(found[3]))}


def _ports(port: int) -> list[dict]:
    return [{"protocol": protocol, "port": port} for protocol in PROTOCOLS]
