"""Who listens, as the kernel's diagnosis and as the files of /proc tell it: the same."""

import os
import socket

import pytest

from runtimes.local.access import listeners
from runtimes.local.access.listeners import V4, V6, list_listeners, list_listening_ports


@pytest.fixture(params=["diagnosis", "files"])
def source(request, monkeypatch):
    def refuses(family):
        raise OSError("no such protocol")

    if request.param == "files":
        monkeypatch.setattr(listeners, "_asked", refuses)


@pytest.fixture
def sockets():
    opened = []
    yield opened
    for one in opened:
        one.close()


def listen(sockets, address, family=socket.AF_INET, both=False) -> tuple[int, int]:
    """(port, inode)"""
    sockets.append(server := socket.create_server((address, 0), family=family, dualstack_ipv6=both))
    return server.getsockname()[1], inode_of(server)


def inode_of(one):
    return os.fstat(one.fileno()).st_ino


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_listener_of_version_4_is_found(source, sockets, address):
    port, inode = listen(sockets, address)
    assert list_listeners(port) == [(V4, {inode}), (V6, set())]


def test_a_listener_on_both_versions_takes_what_comes_to_either(source, sockets):
    port, inode = listen(sockets, "::", socket.AF_INET6, both=True)
    assert list_listeners(port) == [(V4, {inode}), (V6, {inode})]


def test_a_listener_of_version_6_is_found(source, sockets):
    port, inode = listen(sockets, "::1", socket.AF_INET6)
    assert list_listeners(port) == [(V4, set()), (V6, {inode})]


def test_connections_are_no_listeners(source, sockets):
    port, inode = listen(sockets, "127.0.0.1")
    sockets += [client := socket.create_connection(("127.0.0.1", port)), sockets[0].accept()[0]]
    assert list_listeners(client.getsockname()[1]) == [(V4, set()), (V6, set())]
    assert list_listeners(port)[0] == (V4, {inode})


def test_an_address_that_is_not_loopbacks_does_not_count(source, sockets):
    port, _ = listen(sockets, "127.0.0.2")
    assert list_listeners(port) == [(V4, set()), (V6, set())]


def test_all_held_ports_are_listed_once_each_and_without_those_of_connections(source, sockets):
    port, _ = listen(sockets, "127.0.0.2")
    other, _ = listen(sockets, "::1", socket.AF_INET6)
    sockets += [client := socket.create_connection(("127.0.0.2", port))]
    found = list_listening_ports()
    assert {port, other} <= found and client.getsockname()[1] not in found
