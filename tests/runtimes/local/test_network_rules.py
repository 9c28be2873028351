"""What a job's network is open to, as rules, options and files."""

import pytest

from runtimes.local.config import NodeConfig
from runtimes.local.network.joining import build_settings
from runtimes.local.network.rules import (
    TCP,
    UDP,
    HostNetwork,
    Portal,
    Rule,
    build_hosts,
    build_pasta,
    build_resolv_conf,
    build_rules,
    choose_interface,
    read_default_routes,
    read_name_servers,
)
from runtimes.private_networks import Opened

MACHINE = HostNetwork("gpu1", ("127.0.0.1", "10.1.2.3", "8.8.4.4", "::1"), ("10.1.2.53",), routes=True, routes_6=False)
ROUTE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
LOCAL_6 = f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200       lo\n"


def test_what_is_opened_comes_before_what_is_closed():
    rules = build_rules(MACHINE, [Opened("10.20.0.0/16", None), Opened("10.1.2.9/32", 443)], None)
    opened = [rule for rule in rules if rule.allowed]
    assert rules[: len(opened)] == opened
    assert opened[1:] == [
        Rule("10.1.2.53/32", True, UDP, 53),
        Rule("10.1.2.53/32", True, TCP, 53),
        Rule("10.20.0.0/16", True, None, None),
        Rule("10.1.2.9/32", True, TCP, 443),
        Rule("10.1.2.9/32", True, UDP, 443),
    ]
    closed = {rule.network for rule in rules if not rule.allowed}
    assert closed >= {"10.0.0.0/8", "169.254.0.0/16", "fc00::/7", "fe80::/10", "8.8.4.4/32"}


def test_a_portal_is_reached_by_a_rule_or_by_a_relay_of_its_one_port():
    there, here = Portal("gpu1", 443, ("10.1.2.3",)), Portal("localhost", 8470, ("127.0.0.1", "::1"))
    assert Rule("10.1.2.3/32", True, TCP, 443) in build_rules(MACHINE, (), there)
    assert relayed(build_pasta("pasta", MACHINE, there, 7)) == relayed(build_pasta("pasta", MACHINE, None, 7)) == "none"
    assert relayed(build_pasta("pasta", MACHINE, here, 7)) == "8470"
    assert not any(rule.port == 8470 for rule in build_rules(MACHINE, (), here))


def relayed(command: list[str]) -> str:
    return command[command.index("--tcp-ns") + 1]


def test_pasta_forwards_nothing_and_asks_only_where_the_machine_does():
    command = build_pasta("/usr/bin/pasta", MACHINE, None, 7)
    assert "--no-map-gw" in command and "--ipv4-only" in command and "--dns-forward" not in command
    assert build_pasta("pasta", MACHINE._replace(routes=False), None, 7) == []
    lone = MACHINE._replace(routes=False, interface="eth0", name_servers=("127.0.0.53",))
    assert {"--interface", "--dns-forward"} <= set(build_pasta("pasta", lone, None, 7))


def test_a_name_server_on_the_loopback_is_asked_through_pasta():
    text = "search lab\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\noptions edns0\n"
    assert read_name_servers(text) == ("127.0.0.53", "fe80::1")
    said = build_resolv_conf(text)
    assert said == "nameserver 192.0.0.3\nsearch lab\nnameserver fe80::1%eth0\noptions edns0\n"
    assert build_resolv_conf("nameserver 1.1.1.1\n") == "nameserver 1.1.1.1\n"


def test_the_machines_name_is_the_tasks_own():
    here = Portal("tessera.lab", 8470, ("127.0.1.1",))
    assert build_hosts("::1 localhost\n", MACHINE, here) == "127.0.0.1\tgpu1\n127.0.0.1\ttessera.lab\n::1 localhost\n"


def test_routes_are_read_as_the_kernel_tells_them():
    assert read_default_routes(ROUTE, LOCAL_6) == (True, False)
    assert read_default_routes("", LOCAL_6.replace("      lo", "    eth0")) == (False, True)
    assert choose_interface(ROUTE) == "eth0" and choose_interface(ROUTE.splitlines()[0]) == ""


def test_a_bad_setting_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"TESSERA_JOBS_PRIVATE has 'mirror\.corp'.*10\.20\.0\.0/16"):
        NodeConfig(tmp_path, tmp_path, tmp_path, private=["mirror.corp"])


def test_a_holder_is_told_the_portals_port():
    assert build_settings("pasta", (), "https://tessera.lab")["portal"] == ["tessera.lab", 443]
    assert build_settings("pasta", (), "http://localhost:8470")["portal"] == ["localhost", 8470]
    assert build_settings("pasta", ())["portal"] is None
