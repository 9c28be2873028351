"""The way into a running task, in all the ways that jobs are kept apart: a program inside, and a socket to a port."""

import asyncio
import json
import os
import signal
import socket

import pytest

from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.task import GpuShare
from runtimes.local import orphan_processes, processes
from runtimes.local.shim import cgroups
from tests.runtimes.contract.access_suite import (
    AccessContract,
    free_port,
    heard,
    output,
    read_all,
    running,
    serving,
)
from tests.runtimes.worlds import GID, UID, LocalWorld, wait_for


class TestLocalAccess(AccessContract):
    """In each of the ways."""


# programs


async def test_the_pty_can_be_opened_by_its_name(world):
    session = await world.access().exec(await running(world), ["sh", "-c", "echo named > $(tty)"], pty=PtySize(80, 24))
    assert "named" in await read_all(session.read)
    await session.close()


async def test_fifty_sessions_at_once(plain):
    uuid = await running(plain)
    wanted = [str(number) for number in range(50)]
    sessions = await asyncio.gather(*(plain.access().exec(uuid, ["cat"]) for _ in wanted))
    for session, text in zip(sessions, wanted, strict=True):
        await session.write(text.encode())
        await session.write_eof()
    assert await asyncio.gather(*(read_all(session.read) for session in sessions)) == wanted
    assert await asyncio.gather(*(session.wait() for session in sessions)) == [0] * 50
    for session in sessions:
        await session.close()


# what a program inside is and sees


async def test_a_session_has_the_jobs_account_environment_and_place(world):
    gpu = world.runtime.list_nodes()[0].gpus[0]
    uuid = await running(world, gpus=(GpuShare(gpu.uuid, 0, 8127, 25, False),), env={"MINE": "1"})
    text = await output(world, uuid, "id -u; id -g; pwd; env; grep -E 'NoNewPrivs|CapEff' /proc/self/status")
    job = world.task(uuid).read("spec.json")["plan"]
    account = (UID, GID) if world.runtime.machine.isolation.separate_uids else (os.geteuid(), os.getegid())
    assert text.split("\n")[:3] == [str(account[0]), str(account[1]), job["cwd"]]
    env = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    assert job["env"].items() <= env.items() and env["CUDA_VISIBLE_DEVICES"] == gpu.uuid and env["MINE"] == "1"
    assert "NoNewPrivs:\t1" in text


async def test_a_session_sees_the_jobs_files_and_processes(world):
    uuid = await running(world, "echo from the job > here; sleep 61")
    await asyncio.to_thread(wait_for, lambda: (world.scratch(uuid) / "work/here").exists())
    assert await output(world, uuid, "cat here; pgrep -fx 'sleep 61' | wc -l") == "from the job\n1\n"
    if world.runtime.machine.isolation.namespaces:
        assert await output(world, uuid, f"ls {world.base}/data {world.base}/run | grep -c door") == "0\n"


async def test_memory_is_limited_inside_and_ends_the_task(world):
    uuid = await running(world, memory_mib=100)
    session = await world.access().exec(uuid, ["sh", "-c", "head -c 300m /dev/zero | tail -c 300m | sleep 60"])
    assert await asyncio.wait_for(session.wait(), 30) != 0
    view = await asyncio.to_thread(world.until, uuid, "exited")
    assert view.cause == "out_of_memory"
    await session.close()


async def test_a_session_counts_among_the_tasks_processes_and_comes_in_when_there_are_too_many():
    world = LocalWorld(processes_most=20)
    if not world.runtime.machine.memory.pids_parent:
        pytest.skip("this kernel gives us no group for processes")
    bomb = "import os, time\ntry:\n  for _ in range(30): os.fork() or time.sleep(60)\nexcept OSError: time.sleep(60)"
    uuid = await running(world, f"exec /usr/bin/python3 -c '{bomb}'")
    await asyncio.to_thread(
        wait_for, lambda: cgroups.count_refused_forks(orphan_processes.list_task_groups(world.task(uuid))[-1])
    )
    assert await output(world, uuid, "echo inside; sleep 0; echo one more") == "inside\n"
    world.close()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
async def test_a_session_stays_on_the_jobs_cores(plain):
    uuid = await running(plain, cpu_milli=1000)
    cpus = plain.task(uuid).read("spec.json")["plan"]["cpus"]
    assert await output(plain, uuid, "nproc; taskset -cp $$ | grep -o '[0-9]*$'") == f"1\n{cpus[0]}\n"


# its end


async def test_when_the_shim_is_killed_sessions_end_and_nothing_is_left(world):
    uuid = await running(world)
    session = await world.access().exec(uuid, ["sh", "-c", "sleep 63"])
    await asyncio.to_thread(world.kill_shim, uuid)
    assert await asyncio.wait_for(session.wait(), 20) == -signal.SIGKILL
    assert (await asyncio.to_thread(world.until, uuid, "exited")).cause == "container_lost"
    await session.close()
    with pytest.raises(Rejected, match="ended"):
        await world.access().exec(uuid, ["true"])


async def test_who_is_not_here_cannot_be_entered(plain):
    with pytest.raises(Rejected, match="no such task"):
        await plain.access().exec("f" * 32, ["true"])
    with pytest.raises(Rejected, match="uuid"):
        await plain.access().dial("../../etc", 80)
    spec = plain.spec("true")
    plain.task(spec.uuid).create()
    with pytest.raises(Unavailable, match="starting"):
        await plain.access().exec(spec.uuid, ["true"])
    uuid = await running(plain, "sleep 0.3")
    await asyncio.to_thread(plain.until, uuid, "exited")
    with pytest.raises(Rejected, match="ended"):
        await plain.access().dial(uuid, 80)


# ports


async def test_a_port_that_another_task_took_over_is_refused(world):
    first = await serving(world, port := free_port(), cpu_milli=100)
    assert await heard(await world.access().dial(first, port)) == b"mine"
    second = await running(world, cpu_milli=100)
    with pytest.raises(ConnectionRefusedError):
        await world.access().dial(second, port)
    await asyncio.to_thread(world.runtime.stop, first, 0, epoch=5)
    await asyncio.to_thread(world.until, first, "exited")
    third = await serving(world, port, cpu_milli=100)
    with pytest.raises(ConnectionRefusedError):
        await world.access().dial(second, port)
    assert await heard(await world.access().dial(third, port)) == b"mine"


@pytest.mark.parametrize("host", ["::1", "::", "0.0.0.0"])
async def test_dial_finds_whatever_address_it_listens_on(plain, host):
    port = free_port()
    serve = (
        "import socket\n"
        f"s = socket.create_server(('{host}', {port}), family=socket.{'AF_INET6' if ':' in host else 'AF_INET'})\n"
        "print('up', flush=True)\nwhile True: s.accept()[0].sendall(b'mine')"
    )
    uuid = await running(plain, f'exec /usr/bin/python3 -c "{serve}"')
    await asyncio.to_thread(wait_for, lambda: "up" in plain.log(uuid))
    assert await heard(await plain.access().dial(uuid, port)) == b"mine"


# the door


async def test_the_door_is_the_platforms_alone(world):
    uuid = await running(world)
    door = os.stat(world.task(uuid) / "door")
    assert (door.st_mode & 0o777, door.st_uid) == (0o600, os.geteuid())
    if world.runtime.machine.isolation.separate_uids:
        door = world.task(uuid) / "door"
        knock = f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('{door}')"
        session = await world.access().exec(uuid, ["/usr/bin/python3", "-c", knock])
        assert await session.wait() == 1 and "Error" in await read_all(session.read_error)
        await session.close()


async def test_nonsense_at_the_door_is_answered_and_changes_nothing(plain):
    uuid = await running(plain)
    for message in (b"no json", b"[]", b"{}", json.dumps({"exec": ["true"], "pty": True}).encode(), b'{"dial": "x"}'):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as conn:
            conn.settimeout(20)
            conn.connect(plain.task(uuid) / "door")
            conn.send(message)
            assert "error" in json.loads(conn.recv(4096))
    assert await output(plain, uuid, "echo fine") == "fine\n" and plain.view(uuid).phase == "running"


async def test_no_descriptor_of_the_shim_is_open_inside(world):
    uuid = await running(world)
    assert (await output(world, uuid, "ls /proc/self/fd | tr '\\n' ' '")).split() == ["0", "1", "2", "3"]
    shim = world.shim(uuid)
    before = len(os.listdir(f"/proc/{shim.pid}/fd"))
    for _ in range(5):
        await output(world, uuid, "true")
    await asyncio.to_thread(wait_for, lambda: len(os.listdir(f"/proc/{shim.pid}/fd")) <= before)
    assert processes.is_alive(shim.pid, shim.start)


async def come_and_go(world, uuid: str, port: int) -> None:
    """In all the ways that there are: to the end, by a failure, left in the middle, to a port and to none."""
    access = world.access()
    assert await output(world, uuid, "echo here") == "here\n"
    with pytest.raises(Rejected):
        await access.exec(uuid, ["no-such-thing"])
    left = await access.exec(uuid, ["sleep", "60"], pty=PtySize(80, 24))
    await left.close()
    assert await heard(await access.dial(uuid, port)) == b"mine"
    with pytest.raises(ConnectionRefusedError):
        await access.dial(uuid, 1)


async def test_two_hundred_guests_leave_no_descriptor_and_no_zombie(plain):
    uuid = await serving(plain, port := free_port())
    shim = plain.shim(uuid)

    def held() -> tuple[int, int]:
        """(descriptors of the shim, its children, dead ones too)"""
        pids = (int(pid) for pid in os.listdir("/proc") if pid.isdigit())
        children = [process for pid in pids if (process := processes.read_process(pid))]
        return len(os.listdir(f"/proc/{shim.pid}/fd")), sum(child.parent == shim.pid for child in children)

    before, ours = held(), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await asyncio.gather(*(come_and_go(plain, uuid, port) for _ in range(8)))  # five knocks each
    await asyncio.to_thread(wait_for, lambda: held() == before)
    assert len(os.listdir("/proc/self/fd")) <= ours and plain.view(uuid).phase == "running"


async def test_who_comes_in_while_the_task_ends_gets_an_answer_and_changes_nothing(world):
    uuid = await running(world, "while [ ! -e ../work/stop ]; do sleep 0.01; done; exit 5")
    (world.scratch(uuid) / "work/stop").touch()

    async def knock() -> str:
        while True:
            try:
                session = await world.access().exec(uuid, ["true"])
                await asyncio.wait_for(session.wait(), 20)
                await session.close()
            except Unavailable:
                await asyncio.sleep(0)
            except Rejected as refused:
                return str(refused)

    answers = await asyncio.wait_for(asyncio.gather(*(knock() for _ in range(8))), 60)
    view = await asyncio.to_thread(world.until, uuid, "exited")
    assert (view.exit_code, view.cause) == (5, "") and set(answers) <= {"This task has ended.", "This task is ending."}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives jobs accounts of their own")
async def test_an_account_that_the_machine_does_not_know_has_a_name_inside(plain):
    assert (await output(plain, await running(plain), "id -un")).strip() == plain.spec("true").user
