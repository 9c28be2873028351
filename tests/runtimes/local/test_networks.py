"""A network of its own for each job: what it reaches, and what is left of it. On a machine in a namespace."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from runtimes.contract.task import Peer
from runtimes.local.network import network_probe
from runtimes.local.processes import Process, is_alive, list_descendants, list_processes, send_signal
from tests.runtimes.contract.access_suite import free_port, heard, serving
from tests.runtimes.local.network_world import OWN, SERVICE, WEB, ask_on_machine, make_network_world
from tests.runtimes.worlds import command_line, wait_for

OUTSIDE = {"public": "neighbour", "public by IPv6": "neighbour", "names": "names"}


@pytest.fixture
def world():
    world = make_network_world()
    if words := world.runtime.machine.networks.words:
        world.close()
        pytest.skip(words)
    yield world
    world.close()


def test_a_job_reaches_the_world_and_nothing_of_its_machine_or_private_networks():
    said = ask_on_machine(networks=True)
    assert said == {"works": "", "reached": OUTSIDE, "dialled": "bob"}


def test_without_networks_of_their_own_it_reaches_all_of_it():
    """So the test above would find it."""
    said = ask_on_machine(networks=False)
    assert set(said["reached"]) >= {
        "private",
        "link-local",
        "unique local",
        "web",
        "database",
        "web at the machine's address",
        "another's declared port",
        "another's declared port at the machine's address",
    }
    assert said["works"].startswith("Jobs share the machine's network")


def test_what_the_setting_opens_is_open_by_its_port_alone_and_a_token_reaches_the_portal():
    places = {"private's other port": ("10.77.0.1", SERVICE + 1)}
    said = ask_on_machine(networks=True, private=["10.77.0.1:7000"], url=f"http://localhost:{WEB}", places=places)
    assert said["reached"] == OUTSIDE | {"private": "neighbour", "web": "web"}


def test_a_token_reaches_the_portal_at_the_machines_own_address():
    said = ask_on_machine(networks=True, url=f"http://{OWN}:{WEB}")
    assert said["reached"] == OUTSIDE | {"web at the machine's address": "web"}


async def test_two_jobs_listen_on_one_port_and_each_is_reached(world):
    port = free_port()
    for uuid in [await serving(world, port), await serving(world, port)]:
        assert await heard(await world.access().dial(uuid, port)) == b"mine"


def test_tasks_of_a_gang_meet_on_the_loopback_and_the_last_takes_the_network_along(world):
    first, second = (world.spec("") for _ in range(2))
    peers = tuple(Peer("127.0.0.1", uuid=spec.uuid) for spec in (first, second))
    serve = "python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 2222)); s.accept()[0].sendall(b'met')\""
    ask = "until exec 3<>/dev/tcp/127.0.0.1/2222; do sleep 0.05; done 2>/dev/null; cat <&3"
    world.runtime.start(replace(first, run=f"{serve}; sleep 60", peers=peers))
    world.runtime.start(replace(second, run=ask, peers=peers, rank=1))
    world.until(second.uuid, "exited")
    assert world.log(second.uuid) == "met"
    folder = world.runtime.config.networks_dir / first.uuid
    assert find_holders(folder)  # the first goes on
    world.runtime.stop(first.uuid, 0, epoch=5)
    world.until(first.uuid, "exited")
    wait_for(lambda: not find_holders(folder) and not folder.exists())


def test_tasks_of_a_gang_that_start_at_once_make_one_network(world):
    specs = [world.spec("readlink /proc/self/ns/net; sleep 0.5") for _ in range(4)]
    peers = tuple(Peer("127.0.0.1", uuid=spec.uuid) for spec in specs)
    gang = [replace(spec, peers=peers, rank=rank) for rank, spec in enumerate(specs)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(world.runtime.start, gang))
    for spec in gang:
        world.until(spec.uuid, "exited")
    assert len({world.log(spec.uuid) for spec in gang}) == 1
    assert os.readlink("/proc/self/ns/net") not in world.log(gang[0].uuid)


@pytest.mark.parametrize("whom", ["the shim", "all of it"])
def test_nothing_is_left_of_a_network_whose_task_is_killed(world, whom):
    spec = world.spec("sleep 60")
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    (holder,) = find_holders(folder := world.runtime.config.networks_dir / spec.uuid)
    below = list_descendants({holder.pid}, list_processes())
    assert any(b"pasta" in command_line(process.pid)[0] for process in below)
    for process in [world.shim(spec.uuid)] + ([holder] if whom == "all of it" else []):
        send_signal(process, signal.SIGKILL)
    wait_for(lambda: not any(is_alive(process.pid, process.start) for process in (holder, *below)))
    world.until(spec.uuid, "exited")
    world.runtime.forget(spec.uuid)
    assert not folder.exists()


def test_a_machine_without_pasta_says_what_to_install(world, monkeypatch):
    monkeypatch.setattr(network_probe, "PATH", "/nowhere")
    without = world.another_runtime()
    assert "apt install passt" in without.list_nodes()[0].facts["network"]


def test_a_machine_where_pasta_fails_says_why_and_jobs_run_all_the_same(world, monkeypatch):
    (pasta := world.base / "pasta").write_text("#!/bin/sh\necho No luck >&2\nexit 1\n")
    pasta.chmod(0o755)
    monkeypatch.setattr(network_probe, "PATH", str(world.base))
    world.runtime = world.another_runtime()
    assert "could not be made: No luck." in world.runtime.list_nodes()[0].facts["network"]
    assert world.run("true").exit_code == 0


def find_holders(folder: Path) -> list[Process]:
    """The process that holds a network: the topmost with its folder as an argument."""
    found = {process.pid: process for process in list_processes() if str(folder).encode() in command_line(process.pid)}
    return [process for process in found.values() if process.parent not in found]
