"""The NetworkPolicy of a team's namespace. Pure."""

from collections.abc import Iterable

from runtimes.kubernetes.pods import names
from runtimes.private_networks import PRIVATE, PRIVATE_6, read_opened

PLATFORM = f"{names.DOMAIN}/platform"
"""Label of the namespace whose pods, the gateway's, may connect to tasks."""
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
    opened = read_opened(text)
    to = [{"ipBlock": {"cidr": opened.network}}]
    return {"to": to} if opened.port is None else {"to": to, "ports": _ports(opened.port)}


def _ports(port: int) -> list[dict]:
    return [{"protocol": protocol, "port": port} for protocol in PROTOCOLS]
