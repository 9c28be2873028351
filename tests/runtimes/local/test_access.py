"""The way into a running task, in all the ways that jobs are kept apart: a program inside, and a socket to a port."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from runtimes.base import GpuShare, PtySize, Rejected, Unavailable
from runtimes.local import leftovers, limits, processes
from runtimes.local.access import LocalAccess
from tests.runtimes.worlds import GID, UID, LocalWorld, wait_for


def enter(world) -> LocalAccess:
    return LocalAccess(data_dir=world.base / "data", log_dir="ignored", gpus_text="ignored")


async def running(world, run: str = "sleep 60", **fields) -> str:
    """The uuid of a task that may be entered."""
    spec = world.spec(run, **fields)
    await asyncio.to_thread(world.runtime.start, spec)
    await asyncio.to_thread(world.until, spec.uuid, "running")
    await asyncio.to_thread(wait_for, lambda: os.path.exists(world.task(spec.uuid) / "door"))
    return spec.uuid


async def read_all(read) -> str:
    text = b""
    while data := await asyncio.wait_for(read(), 20):
        text += data
    return text.decode()


async def output(world, uuid: str, command: str, **options) -> str:
    """What a shell command wrote to its standard output inside the task."""
    session = await enter(world).exec(uuid, ["sh", "-c", command], **options)
    try:
        return await read_all(session.read)
    finally:
        await session.close()


async def until_seen(session, text: str) -> str:
    seen = ""
    while text not in seen:
        data = await asyncio.wait_for(session.read(), 20)
        assert data, f"it ended after {seen!r}"
        seen += data.decode(errors="replace")
    return seen


# programs


async def test_what_is_written_comes_back_through_pipes(world):
    session = await enter(world).exec(await running(world), ["cat"])
    await session.write(b"hello")
    await session.write_eof()
    assert await read_all(session.read) == "hello" and await session.wait() == 0
    await session.close()


async def test_errors_come_apart_and_the_exit_code_is_kept(world):
    session = await enter(world).exec(await running(world), ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert await read_all(session.read) == "out\n" and await read_all(session.read_error) == "err\n"
    assert await session.wait() == 7
    await session.close()


async def test_a_signal_is_told_as_a_negative_number(world):
    session = await enter(world).exec(await running(world), ["sleep", "60"])
    session.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(session.wait(), 20) == -signal.SIGTERM
    await session.close()


async def test_a_pty_has_its_size_and_is_resized(world):
    session = await enter(world).exec(await running(world), ["sh"], pty=PtySize(101, 33))
    await session.write(b"stty size; tty\n")
    assert "33 101" in await until_seen(session, "/dev/pts/")
    session.resize(PtySize(120, 40))
    await session.write(b"stty size; exit 3\n")
    assert "40 120" in await read_all(session.read) and await session.wait() == 3
    assert await session.read_error() == b""
    await session.close()


async def test_the_pty_can_be_opened_by_its_name(world):
    session = await enter(world).exec(await running(world), ["sh", "-c", "echo named > $(tty)"], pty=PtySize(80, 24))
    assert "named" in await read_all(session.read)
    await session.close()


async def test_ctrl_c_on_a_pty_interrupts_what_is_in_front(world):
    session = await enter(world).exec(await running(world), ["yes"], pty=PtySize(80, 24))
    await until_seen(session, "y")
    await session.write(b"\x03")
    assert await asyncio.wait_for(session.wait(), 20) == -signal.SIGINT
    await session.close()


async def test_a_program_that_cannot_be_started_is_rejected_with_words(world):
    uuid = await running(world)
    with pytest.raises(Rejected, match="no-such-thing"):
        await enter(world).exec(uuid, ["no-such-thing"])
    with pytest.raises(Rejected, match="sh"):
        await enter(world).exec(uuid, ["sh"], cwd="nowhere")
    assert await output(world, uuid, "echo still here") == "still here\n"


async def test_a_program_that_reads_nothing_holds_up_the_writer_and_nobody_else(world):
    uuid = await running(world)
    stuck = await enter(world).exec(uuid, ["sleep", "60"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stuck.write(b"x" * (1 << 20)), 0.2)
    loud = await enter(world).exec(uuid, ["sh", "-c", "yes"])  # nobody reads it
    assert await output(world, uuid, "echo free") == "free\n"
    await stuck.close()
    await loud.close()


async def test_a_megabyte_goes_in_and_comes_out_whole(world):
    session = await enter(world).exec(await running(world), ["cat"])
    writing = asyncio.create_task(session.write(bytes(range(256)) * 4096))
    text = b""
    while len(text) < 1 << 20:
        text += await asyncio.wait_for(session.read(), 20)
    await writing
    assert text == bytes(range(256)) * 4096
    await session.close()


async def test_fifty_sessions_at_once(plain):
    uuid = await running(plain)
    wanted = [str(number) for number in range(50)]
    sessions = await asyncio.gather(*(enter(plain).exec(uuid, ["cat"]) for _ in wanted))
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
    account = (UID, GID) if world.runtime.isolation.own_uid else (os.geteuid(), os.getegid())
    assert text.split("\n")[:3] == [str(account[0]), str(account[1]), job["cwd"]]
    env = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    assert job["env"].items() <= env.items() and env["CUDA_VISIBLE_DEVICES"] == gpu.uuid and env["MINE"] == "1"
    assert "NoNewPrivs:\t1" in text


async def test_an_environment_may_be_added_but_not_what_would_widen_the_slice(world):
    uuid = await running(world)
    env = {"LANG": "de_DE.UTF-8", "CUDA_VISIBLE_DEVICES": "all", "TESSERA_TASK": "other", "LD_PRELOAD": "/evil.so"}
    text = await output(world, uuid, "echo $LANG,$CUDA_VISIBLE_DEVICES,$TESSERA_TASK,$LD_PRELOAD", env=env)
    assert text == f"de_DE.UTF-8,,{uuid},\n"


async def test_a_session_sees_the_jobs_files_and_processes(world):
    uuid = await running(world, "echo from the job > here; sleep 61")
    await asyncio.to_thread(wait_for, lambda: (world.scratch(uuid) / "work/here").exists())
    assert await output(world, uuid, "cat here; pgrep -fx 'sleep 61' | wc -l") == "from the job\n1\n"
    if world.runtime.isolation.namespaces:
        assert await output(world, uuid, f"ls {world.base}/data {world.base}/run | grep -c door") == "0\n"


async def test_a_session_starts_where_it_is_told(world):
    uuid = await running(world)
    home = await output(world, uuid, "cd; pwd -P")
    assert (
        await output(world, uuid, "pwd", cwd="~") == home and await output(world, uuid, "pwd", cwd="/tmp") == "/tmp\n"
    )


async def test_memory_is_limited_inside_and_ends_the_task(world):
    uuid = await running(world, memory_mib=100)
    session = await enter(world).exec(uuid, ["sh", "-c", "head -c 300m /dev/zero | tail -c 300m | sleep 60"])
    assert await asyncio.wait_for(session.wait(), 30) != 0
    view = await asyncio.to_thread(world.until, uuid, "exited")
    assert view.cause == "out_of_memory"
    await session.close()


async def test_a_session_counts_among_the_tasks_processes_and_comes_in_when_there_are_too_many():
    world = LocalWorld(processes_most=20)
    if not world.runtime.memory.pids_parent:
        pytest.skip("this kernel gives us no group for processes")
    bomb = "import os, time\ntry:\n  for _ in range(30): os.fork() or time.sleep(60)\nexcept OSError: time.sleep(60)"
    uuid = await running(world, f"exec /usr/bin/python3 -c '{bomb}'")
    await asyncio.to_thread(wait_for, lambda: limits.refused_processes(leftovers.groups(world.task(uuid))[-1]))
    assert await output(world, uuid, "echo inside; sleep 0; echo one more") == "inside\n"
    world.close()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
async def test_a_session_stays_on_the_jobs_cores(plain):
    uuid = await running(plain, cpu_milli=1000)
    cpus = plain.task(uuid).read("spec.json")["plan"]["cpus"]
    assert await output(plain, uuid, "nproc; taskset -cp $$ | grep -o '[0-9]*$'") == f"1\n{cpus[0]}\n"


# its end


async def test_a_session_ends_when_its_task_is_stopped(world):
    uuid = await running(world)
    session = await enter(world).exec(uuid, ["sh", "-c", "trap '' TERM HUP; while :; do sleep 0.05; done"])
    await asyncio.to_thread(world.runtime.stop, uuid, 1, epoch=5)
    assert await asyncio.wait_for(session.wait(), 20) in {-signal.SIGHUP, -signal.SIGKILL}  # whichever comes first
    assert (await asyncio.to_thread(world.until, uuid, "exited")).cause == "stopped"
    await session.close()


async def test_a_session_keeps_no_task_alive_and_is_not_taken_for_it(world):
    uuid = await running(world, "while [ ! -e ../work/stop ]; do sleep 0.05; done; exit 5", grace_s=30)
    session = await enter(world).exec(uuid, ["sh", "-c", "trap '' TERM HUP; touch stop; while :; do sleep 0.05; done"])
    view = await asyncio.to_thread(world.until, uuid, "exited")  # in 20 s: less than its grace
    assert (view.exit_code, view.cause) == (5, "")
    assert await session.wait() == -signal.SIGKILL
    await session.close()


async def test_a_sessions_end_is_not_the_tasks_end(world):
    uuid = await running(world)
    for command in ("exit 9", "kill -9 $$", "sleep 0.01 & exit 0"):
        await output(world, uuid, command)
    assert world.view(uuid).phase == "running"


async def test_closing_hangs_up_and_then_kills(world):
    uuid = await running(world)
    wait = "exec 2>/dev/null; echo up; while :; do sleep 0.05; done; : marker"
    polite = await enter(world).exec(uuid, ["sh", "-c", f"trap 'touch hung; exit' HUP; {wait}"])
    stubborn = await enter(world).exec(uuid, ["sh", "-c", f"trap '' HUP TERM; {wait}"])
    for session in (polite, stubborn):
        await until_seen(session, "up")
        await session.close()
        await session.close()
    assert await polite.read() == b"" and await polite.wait() < 0
    look = "while pgrep -f '[m]arker' >/dev/null; do sleep 0.02; done; ls"
    assert "hung" in await output(world, uuid, look)


async def test_closing_ends_what_holds_the_sessions_streams_and_nothing_else(world):
    """A server that an editor leaves behind has streams of its own, though neither a session nor a group."""
    uuid = await running(world)
    own, stubborn, shared = (f"{seconds}.{int(uuid[:6], 16)}" for seconds in (65, 66, 67))  # other tests sleep too
    script = f"sleep {own} >log 2>&1 </dev/null & (trap '' HUP; sleep {stubborn}) & sleep {shared} & wait"
    session = await enter(world).exec(uuid, ["sh", "-c", script])
    sleeping = f"pgrep -fx 'sleep ({own}|{stubborn}|{shared})'"
    await output(world, uuid, f"until [ $({sleeping} | wc -l) = 3 ]; do sleep 0.02; done")
    await session.close()
    await output(world, uuid, f"until [ $({sleeping} | wc -l) = 1 ]; do sleep 0.02; done")
    assert await output(world, uuid, f"pgrep -fx 'sleep {own}' | wc -l") == "1\n"


async def test_what_a_program_left_with_the_sessions_streams_talks_on_and_ends_with_the_session(world):
    uuid = await running(world)
    left = f"sleep 68.{int(uuid[:6], 16)}"
    session = await enter(world).exec(uuid, ["sh", "-c", f"(sleep 0.2; echo later; {left}) & exit 7"])
    assert await session.wait() == 7
    assert await session.read() == b"later\n"
    await session.close()
    await output(world, uuid, f"while pgrep -fx '{left}' >/dev/null; do sleep 0.02; done")


async def test_killing_the_one_who_holds_a_session_hangs_it_up(plain):
    uuid = await running(plain)
    code = (
        f"import sys, asyncio; sys.path[:0] = {sys.path!r}\n"
        "from runtimes.local.access import LocalAccess\n"
        "async def main():\n"
        f"    s = await LocalAccess('{plain.base}/data').exec('{uuid}', ['sh', '-c', 'echo up; sleep 62'])\n"
        "    print(await s.read(), flush=True); await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
    assert b"up" in await holder.stdout.readline()
    assert await output(plain, uuid, "pgrep -fx 'sleep 62' | wc -l") == "1\n"
    holder.kill()
    await holder.wait()
    await output(plain, uuid, "while pgrep -fx 'sleep 62'; do sleep 0.02; done")


async def test_when_the_shim_is_killed_sessions_end_and_nothing_is_left(world):
    uuid = await running(world)
    session = await enter(world).exec(uuid, ["sh", "-c", "sleep 63"])
    await asyncio.to_thread(world.kill_shim, uuid)
    assert await asyncio.wait_for(session.wait(), 20) == -signal.SIGKILL
    assert (await asyncio.to_thread(world.until, uuid, "exited")).cause == "container_lost"
    await session.close()
    with pytest.raises(Rejected, match="ended"):
        await enter(world).exec(uuid, ["true"])


async def test_who_is_not_here_cannot_be_entered(plain):
    with pytest.raises(Rejected, match="no such task"):
        await enter(plain).exec("f" * 32, ["true"])
    with pytest.raises(Rejected, match="uuid"):
        await enter(plain).dial("../../etc", 80)
    spec = plain.spec("true")
    plain.task(spec.uuid).create()
    with pytest.raises(Unavailable, match="starting"):
        await enter(plain).exec(spec.uuid, ["true"])
    uuid = await running(plain, "sleep 0.3")
    await asyncio.to_thread(plain.until, uuid, "exited")
    with pytest.raises(Rejected, match="ended"):
        await enter(plain).dial(uuid, 80)


# ports

SERVER = (
    "import socket, sys\n"
    "s = socket.create_server(('127.0.0.1', {port}), backlog=64)\n"
    "print('up', flush=True)\n"
    "while True: c, _ = s.accept(); c.sendall(b'mine'); c.close()"
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


async def serving(world, port: int, **fields) -> str:
    uuid = await running(world, f'exec /usr/bin/python3 -c "{SERVER.format(port=port)}"', **fields)
    await asyncio.to_thread(wait_for, lambda: "up" in world.log(uuid))
    return uuid


async def heard(connected: socket.socket) -> bytes:
    with connected:
        assert connected.getblocking() is False
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(connected, 100), 20)


async def test_dial_reaches_the_tasks_own_listener(world):
    uuid = await serving(world, port := free_port())
    assert [await heard(await enter(world).dial(uuid, port)) for _ in range(3)] == [b"mine"] * 3


async def test_dial_reaches_what_a_session_serves(world):
    uuid, port = await running(world), free_port()
    session = await enter(world).exec(uuid, ["/usr/bin/python3", "-c", SERVER.format(port=port)])
    await until_seen(session, "up")
    assert await heard(await enter(world).dial(uuid, port)) == b"mine"
    await session.close()


async def test_dial_is_refused_where_nobody_or_somebody_else_listens(world):
    uuid = await running(world)
    with pytest.raises(ConnectionRefusedError):
        await enter(world).dial(uuid, free_port())
    with socket.create_server(("127.0.0.1", 0)) as strangers, pytest.raises(ConnectionRefusedError):
        await enter(world).dial(uuid, strangers.getsockname()[1])


async def test_a_port_that_another_task_took_over_is_refused(world):
    first = await serving(world, port := free_port(), cpu_milli=100)
    assert await heard(await enter(world).dial(first, port)) == b"mine"
    second = await running(world, cpu_milli=100)
    with pytest.raises(ConnectionRefusedError):
        await enter(world).dial(second, port)
    await asyncio.to_thread(world.runtime.stop, first, 0, epoch=5)
    await asyncio.to_thread(world.until, first, "exited")
    third = await serving(world, port, cpu_milli=100)
    with pytest.raises(ConnectionRefusedError):
        await enter(world).dial(second, port)
    assert await heard(await enter(world).dial(third, port)) == b"mine"


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
    assert await heard(await enter(plain).dial(uuid, port)) == b"mine"


# the door


async def test_the_door_is_the_platforms_alone(world):
    uuid = await running(world)
    door = os.stat(world.task(uuid) / "door")
    assert (door.st_mode & 0o777, door.st_uid) == (0o600, os.geteuid())
    if world.runtime.isolation.own_uid:
        door = world.task(uuid) / "door"
        knock = f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('{door}')"
        session = await enter(world).exec(uuid, ["/usr/bin/python3", "-c", knock])
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
    access = enter(world)
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
        children = [process for pid in os.listdir("/proc") if pid.isdigit() and (process := processes.look(int(pid)))]
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
                session = await enter(world).exec(uuid, ["true"])
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
