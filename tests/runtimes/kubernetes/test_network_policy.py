"""What a team's NetworkPolicy lets through. That a cluster takes and keeps it: test_rights.py."""

from ipaddress import ip_address, ip_network

import pytest

from runtimes.kubernetes.cluster.network_policy import build_egress_rule, build_network_policy


def lets_out(spec: dict, address: str, port: int) -> bool:
    """Whether a rule of egress for addresses has this one, by plain sets."""
    host = ip_address(address)
    for rule in spec["egress"]:
        if port not in {each["port"] for each in rule.get("ports", [{"port": port}])}:
            continue
        for block in (each["ipBlock"] for each in rule["to"] if "ipBlock" in each):
            inside = host in ip_network(block["cidr"])
            if inside and not any(host in ip_network(each) for each in block.get("except", ())):
                return True
    return False


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "172.20.1.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "fd00::1"]
)
def test_private_networks_are_closed_and_the_world_is_open(address):
    spec = build_network_policy("tessera", ())
    assert not lets_out(spec, address, 443)
    assert lets_out(spec, "93.184.216.34", 443) and lets_out(spec, "2606:2800::1", 443)


def test_what_is_named_is_open_and_nothing_beside_it():
    spec = build_network_policy("tessera", ["10.20.0.0/16", "10.1.2.3:443", "[fd00::5]:9000", "fd01::/64"])
    for address, port in (("10.20.9.9", 22), ("10.1.2.3", 443), ("fd00::5", 9000), ("fd01::7", 80)):
        assert lets_out(spec, address, port), address
    for address, port in (("10.21.0.1", 22), ("10.1.2.3", 22), ("10.1.2.4", 443), ("fd00::5", 443), ("fd00::6", 9000)):
        assert not lets_out(spec, address, port), address


def test_only_pods_of_the_namespace_and_the_gateways_come_in():
    (rule,) = build_network_policy("lab", ())["ingress"]
    gateway, own = rule["from"]
    assert gateway == {"namespaceSelector": {"matchLabels": {"tessera.sh/platform": "lab"}}}
    assert own == {"podSelector": {"matchLabels": {"tessera.sh/install": "lab"}}}


@pytest.mark.parametrize("text", ["mirror.corp", "10.1.2:3", "fd00::5]:1", "10.0.0.0/33", ""])
def test_what_is_no_network_is_refused(text):
    with pytest.raises(ValueError, match="does not appear to be"):
        build_egress_rule(text)


@pytest.mark.parametrize(
    ("text", "words"), [("10.1.2.3/16", "host bits"), ("10.1.2.3:0", "0 is no port"), ("10.1.2.3:70000", "no port")]
)
def test_what_is_almost_one_is_told_why(text, words):
    with pytest.raises(ValueError, match=words):
        build_egress_rule(text)
