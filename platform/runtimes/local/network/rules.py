"""What a job's network reaches: rules of routing, the options of pasta, and the files that name hosts. Pure.

The task has the same few addresses on each machine, so that all of the machine's own are outside, and closed. Few
imports, for the holder.
"""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from runtimes.private_networks import PRIVATE, PRIVATE_6, Opened

INTERFACE = "net0"
ADDRESS, PREFIX, GATEWAY = "192.0.0.2", "29", "192.0.0.1"
"""Of a task's side. Source: RFC 7335, addresses for use between a host and a translator of its own."""
ADDRESS_6, GATEWAY_6 = "fd74:6573:7365::2", "fe80::1"
NAME_SERVER = "192.0.0.3"
"""Where tasks ask for names if the machine's own name server is on its loopback: pasta passes the questions on."""
ITS_OWN = ("192.0.0.0/29", "0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4")
"""Closed besides: pasta would send these to the machine's network."""
ITS_OWN_6 = ("ff00::/8",)
TCP, UDP = 6, 17
DNS = 53
LOCALHOST = "127.0.0.1"


class Rule(NamedTuple):
    """What packets to a network may do. protocol, port: for all without a port."""

    network: str
    allowed: bool
    protocol: int | None = None
    port: int | None = None


class Portal(NamedTuple):
    """Where the platform's web server is, for a job with a token. addresses: of the host."""

    host: str
    port: int
    addresses: tuple[str, ...]


class HostNetwork(NamedTuple):
    """The machine's network. addresses: its own. name_servers: of its resolv.conf. routes, routes_6: whether it has a
    default route. interface: one that has an address and no route, "" for none.
    """

    name: str
    addresses: tuple[str, ...]
    name_servers: tuple[str, ...]
    routes: bool
    routes_6: bool
    interface: str = ""


def build_rules(machine: HostNetwork, opened: Iterable[Opened], portal: Portal | None) -> list[Rule]:
    """Return the rules in their order: what is open, then what is closed. All else is open."""
    found = [Rule(_alone(NAME_SERVER), True, UDP, DNS)]
    for address in machine.name_servers:
        if not is_loopback(address):
            found += [Rule(_alone(address), True, protocol, DNS) for protocol in (UDP, TCP)]
    for network, port in opened:
        ways = (None,) if port is None else (TCP, UDP)
        found += [Rule(network, True, protocol, port) for protocol in ways]
    if portal is not None:
        found += [Rule(_alone(each), True, TCP, portal.port) for each in portal.addresses if not is_loopback(each)]
    own = [_alone(address) for address in machine.addresses if not is_loopback(address)]
    closed = (*PRIVATE, *PRIVATE_6, *ITS_OWN, *ITS_OWN_6, *own)
    return [*dict.fromkeys(found), *(Rule(network, False) for network in dict.fromkeys(closed))]


def build_pasta(program: str, machine: HostNetwork, portal: Portal | None, pid: int) -> list[str]:
    """Return pasta's command for the namespaces of a process, [] where the machine leads nowhere.

    It forwards nothing by itself: no port in either direction but the portal's, if that is on the machine's loopback.
    """
    if not (machine.routes or machine.routes_6 or machine.interface):
        return []
    command = [program, "--foreground", "--quiet", "--stderr", "--config-net", "--ns-ifname", INTERFACE]
    command += ["--no-map-gw", "--no-dhcp", "--no-dhcpv6", "--no-ra"]
    command += ["--tcp-ports", "none", "--udp-ports", "none", "--udp-ns", "none"]
    relayed = portal is not None and any(map(is_loopback, portal.addresses))
    command += ["--tcp-ns", str(portal.port) if portal is not None and relayed else "none"]
    if machine.routes or machine.interface:
        command += ["--address", ADDRESS, "--netmask", PREFIX, "--gateway", GATEWAY]
        if any(map(is_loopback, machine.name_servers)):  # else answers of the first would seem to come from it
            command += ["--dns-forward", NAME_SERVER]
        command += [] if machine.routes else ["--interface", machine.interface]
    if machine.routes_6:
        command += ["--address", ADDRESS_6, "--gateway", GATEWAY_6]
    if not (machine.routes_6 and (machine.routes or machine.interface)):
        command += ["--ipv6-only" if machine.routes_6 else "--ipv4-only"]
    return [*command, str(pid)]


def read_name_servers(resolv_conf: str) -> tuple[str, ...]:
    """Return the addresses of a resolv.conf's name servers, without the interface of a link-local one."""
    words = (line.split() for line in resolv_conf.splitlines())
    found = [word[1].partition("%")[0] for word in words if len(word) > 1 and word[0] == "nameserver"]
    return tuple(address for address in found if _is_address(address))


def build_resolv_conf(text: str) -> str:
    """Return a resolv.conf for tasks: name servers on the machine's loopback are asked through pasta."""
    kept = [line for line in text.splitlines() if not any(map(is_loopback, read_name_servers(line)))]
    passed_on = [f"nameserver {NAME_SERVER}"] if len(kept) < len(text.splitlines()) else []
    return "".join(f"{line}\n" for line in [*passed_on, *kept])


def build_hosts(text: str, machine: HostNetwork, portal: Portal | None) -> str:
    """Return /etc/hosts for tasks, where the machine's name is the task's own, and so is a portal's on the loopback."""
    names = [machine.name]
    if portal is not None and any(map(is_loopback, portal.addresses)) and not _is_address(portal.host):
        names.append(portal.host)
    own = [name for name in dict.fromkeys(names) if name and name != "localhost"]
    return "".join(f"{LOCALHOST}\t{name}\n" for name in own) + text


def read_default_routes(route: str, ipv6_route: str) -> tuple[bool, bool]:
    """Return whether /proc/net/route and /proc/net/ipv6_route have a default route."""
    four = (line.split() for line in route.splitlines()[1:])
    six = (line.split() for line in ipv6_route.splitlines())
    is_way_out = any(fields[1] == fields[7] == "00000000" for fields in four)
    return is_way_out, any(fields[0] == "0" * 32 and fields[1] == "00" and fields[-1] != "lo" for fields in six)


def choose_interface(route: str) -> str:
    """Return the first interface of /proc/net/route, "" for none."""
    lines: Sequence[str] = route.splitlines()[1:]
    return lines[0].split()[0] if lines else ""


def is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _alone(address: str) -> str:
    found = ip_address(address)
    return f"{found}/{found.max_prefixlen}"
