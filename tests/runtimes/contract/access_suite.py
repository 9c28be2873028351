"""What every way into a running task must keep. A subclass gives a fixture `world`: one of tests/runtimes/worlds.py.

A world gives `access()`, `holding(code)` (a program that holds a session, to be killed) and `python` (a task's own).
"""

import asyncio
import signal
import socket
import subprocess
import sys

import pytest

from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected
from tests.runtimes.worlds import wait_for

SERVER = (
    "import socket, sys\n"
    "s = socket.create_server(('127.0.0.1', {port}), backlog=64)\n"
    "print('up', flush=True)\n"
    "while True: c, _ = s.accept(); c.sendall(b'mine'); c.close()"
)


async def running(world, run: str = "sleep 60", **fields) -> str:
    """The uuid of a task that may be entered."""
    spec = world.spec(run, **fields)
    await asyncio.to_thread(world.runtime.start, spec)
    await asyncio.to_thread(world.until, spec.uuid, "running")
    await asyncio.to_thread(wait_for, lambda: world.is_open(spec.uuid))
    return spec.uuid


async def read_all(read) -> str:
    text = b""
    while data := await asyncio.wait_for(read(), 20):
        text += data
    return text.decode()


async def output(world, uuid: str, command: str, **options) -> str:
    """What a shell command wrote to its standard output inside the task."""
    session = await world.access().exec(uuid, ["sh", "-c", command], **options)
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


def living(*files: str) -> str:
    """Shell text: which of these files names a process that lives."""
    return f"for each in {' '.join(files)}; do kill -0 $(cat $each) 2>/dev/null && printf '%s ' $each; done"


def until_gone(*files: str) -> str:
    return f'while [ -n "$({living(*files)})" ]; do sleep 0.02; done'


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


async def serving(world, port: int, **fields) -> str:
    program, more = world.python
    uuid = await running(world, f'exec {program} -c "{SERVER.format(port=port)}"', **more, **fields)
    await asyncio.to_thread(wait_for, lambda: "up" in str(world.log(uuid)))
    return uuid


async def heard(connected: socket.socket) -> bytes:
    with connected:
        assert connected.getblocking() is False
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(connected, 100), 20)


class AccessContract:
    # programs

    async def test_what_is_written_comes_back_through_pipes(self, world):
        session = await world.access().exec(await running(world), ["cat"])
        await session.write(b"hello")
        await session.write_eof()
        assert await read_all(session.read) == "hello" and await session.wait() == 0
        await session.close()

    async def test_errors_come_apart_and_the_exit_code_is_kept(self, world):
        session = await world.access().exec(await running(world), ["sh", "-c", "echo out; echo err >&2; exit 7"])
        assert await read_all(session.read) == "out\n" and await read_all(session.read_error) == "err\n"
        assert await session.wait() == 7
        await session.close()

    async def test_a_signal_is_told_as_a_negative_number(self, world):
        session = await world.access().exec(await running(world), ["sleep", "60"])
        session.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(session.wait(), 20) == -signal.SIGTERM
        await session.close()

    async def test_a_pty_has_its_size_and_is_resized(self, world):
        session = await world.access().exec(await running(world), ["sh"], pty=PtySize(101, 33))
        await session.write(b"stty size; tty\n")
        assert "33 101" in await until_seen(session, "/dev/pts/")
        session.resize(PtySize(120, 40))  # goes another way than what is typed
        await session.write(b'until [ "$(stty size)" = "40 1""20" ]; do sleep 0.1; done; stty size; exit 3\n')
        assert "40 120" in await read_all(session.read) and await session.wait() == 3
        assert await session.read_error() == b""
        await session.close()

    async def test_ctrl_c_on_a_pty_interrupts_what_is_in_front(self, world):
        session = await world.access().exec(await running(world), ["yes"], pty=PtySize(80, 24))
        await until_seen(session, "y")
        await session.write(b"\x03")
        reading = asyncio.create_task(read_all(session.read))  # as a terminal does: who reads nothing hears no end
        assert await asyncio.wait_for(session.wait(), 20) == -signal.SIGINT
        await reading
        await session.close()

    async def test_a_program_that_cannot_be_started_is_rejected_with_words(self, world):
        uuid = await running(world)
        with pytest.raises(Rejected, match="no-such-thing"):
            await world.access().exec(uuid, ["no-such-thing"])
        with pytest.raises(Rejected, match="sh"):
            await world.access().exec(uuid, ["sh"], cwd="nowhere")
        assert await output(world, uuid, "echo still here") == "still here\n"

    async def test_a_program_that_reads_nothing_holds_up_the_writer_and_nobody_else(self, world):
        uuid = await running(world)
        stuck = await world.access().exec(uuid, ["sleep", "60"])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stuck.write(bytes(64 << 20)), 2)
        loud = await world.access().exec(uuid, ["sh", "-c", "yes"])  # nobody reads it
        assert await output(world, uuid, "echo free") == "free\n"
        await stuck.close()
        await loud.close()

    async def test_a_megabyte_goes_in_and_comes_out_whole(self, world):
        session = await world.access().exec(await running(world), ["cat"])
        writing = asyncio.create_task(session.write(bytes(range(256)) * 4096))
        text = b""
        while len(text) < 1 << 20:
            text += await asyncio.wait_for(session.read(), 20)
        await writing
        assert text == bytes(range(256)) * 4096
        await session.close()

    # what a program inside is and sees

    async def test_a_session_has_the_tasks_account_place_and_environment(self, world):
        look = "id -u; id -g; pwd; env | grep -Ev '^(_|SHLVL|OLDPWD|PWD)=' | sort"
        uuid = await running(world, f"({look}) >seen; sleep 60", env={"MINE": "1 $(HOME)"})
        there = "until grep -q USER= seen; do sleep 0.02; done"
        told = await output(world, uuid, f"{there}; {look}; echo =; cat seen")
        own, tasks = told.split("\n=\n")
        assert own.splitlines() == tasks.splitlines() and "MINE=1 $(HOME)" in own

    async def test_an_environment_may_be_added_but_not_what_would_widen_the_slice(self, world):
        uuid = await running(world)
        env = {"LANG": "de_DE.UTF-8", "CUDA_VISIBLE_DEVICES": "all", "TESSERA_TASK": "other", "LD_PRELOAD": "/evil.so"}
        text = await output(world, uuid, "echo $LANG,$CUDA_VISIBLE_DEVICES,$TESSERA_TASK,$LD_PRELOAD", env=env)
        assert text == f"de_DE.UTF-8,,{uuid},\n"

    async def test_a_session_starts_where_it_is_told(self, world):
        uuid = await running(world)
        home = await output(world, uuid, "cd; pwd -P")
        assert await output(world, uuid, "pwd -P", cwd="~") == home
        assert await output(world, uuid, "pwd", cwd="/") == "/\n"

    # its end

    async def test_a_session_ends_when_its_task_is_stopped(self, world):
        uuid = await running(world)
        session = await world.access().exec(uuid, ["sh", "-c", "trap '' TERM HUP; while :; do sleep 0.05; done"])
        await asyncio.to_thread(world.runtime.stop, uuid, 1, epoch=5)
        assert await asyncio.wait_for(session.wait(), 40) in {-signal.SIGHUP, -signal.SIGKILL}  # whichever comes first
        assert (await asyncio.to_thread(world.until, uuid, "exited")).cause == "stopped"
        await session.close()

    async def test_a_session_keeps_no_task_alive_and_is_not_taken_for_it(self, world):
        uuid = await running(world, "until [ -e stop ]; do sleep 0.05; done; exit 5", grace_s=30)
        stubborn = "trap '' TERM HUP; sleep 1; touch stop; while :; do sleep 0.05; done"
        session = await world.access().exec(uuid, ["sh", "-c", stubborn])
        view = await asyncio.to_thread(world.until, uuid, "exited")
        assert (view.exit_code, view.cause) == (5, "")
        assert await asyncio.wait_for(session.wait(), 20) == -signal.SIGKILL
        await session.close()

    async def test_a_sessions_end_is_not_the_tasks_end(self, world):
        uuid = await running(world)
        for command in ("exit 9", "kill -9 $$", "sleep 0.01 & exit 0"):
            await output(world, uuid, command)
        assert world.view(uuid).phase == "running"

    async def test_closing_hangs_up_and_then_kills(self, world):
        uuid = await running(world)
        wait = "exec 2>/dev/null; echo up; while :; do sleep 0.05; done"
        polite = await world.access().exec(uuid, ["sh", "-c", f"echo $$ >polite; trap 'touch hung; exit' HUP; {wait}"])
        stubborn = await world.access().exec(uuid, ["sh", "-c", f"echo $$ >stubborn; trap '' HUP TERM; {wait}"])
        for session in (polite, stubborn):
            await until_seen(session, "up")
            await session.close()
            await session.close()
        assert await polite.read() == b"" and await polite.wait() < 0
        assert "hung" in await output(world, uuid, f"{until_gone('polite', 'stubborn')}; ls")

    async def test_closing_ends_what_holds_the_sessions_streams_and_nothing_else(self, world):
        """A server that an editor leaves behind has streams of its own, though neither a session nor a group."""
        uuid = await running(world)
        script = (
            "sleep 65 >log 2>&1 </dev/null & echo $! >own; (trap '' HUP; exec sleep 66) & echo $! >stubborn;"
            " sleep 67 & echo $! >shared; echo up; wait"
        )
        session = await world.access().exec(uuid, ["sh", "-c", script])
        await until_seen(session, "up")
        assert await output(world, uuid, living("own", "stubborn", "shared")) == "own stubborn shared "
        await session.close()
        await output(world, uuid, until_gone("stubborn", "shared"))
        assert await output(world, uuid, living("own")) == "own "

    async def test_what_a_program_left_with_the_sessions_streams_talks_on_and_ends_with_the_session(self, world):
        uuid = await running(world)
        script = "(sleep 0.2; echo later; exec sleep 68) & echo $! >left; exit 7"
        session = await world.access().exec(uuid, ["sh", "-c", script])
        assert await asyncio.wait_for(session.wait(), 20) == 7
        assert await session.read() == b"later\n"
        await session.close()
        await output(world, uuid, until_gone("left"))

    async def test_killing_the_one_who_holds_a_session_hangs_it_up(self, world):
        uuid = await running(world)
        code = (
            f"import sys, asyncio; sys.path[:0] = {sys.path!r}\n"
            f"{world.make_access}\n"
            "async def main():\n"
            f"    s = await access().exec('{uuid}', ['sh', '-c', 'echo $$ >me; echo up; sleep 62'])\n"
            "    print(await s.read(), flush=True); await asyncio.sleep(60)\n"
            "asyncio.run(main())"
        )
        holder = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
        assert b"up" in await holder.stdout.readline()
        assert await output(world, uuid, living("me")) == "me "
        holder.kill()
        await holder.wait()
        await output(world, uuid, until_gone("me"))

    async def test_who_is_not_here_cannot_be_entered(self, world):
        with pytest.raises(Rejected, match="no such task"):
            await world.access().exec("f" * 32, ["true"])
        with pytest.raises(Rejected, match="uuid"):
            await world.access().dial("../../etc", 80)
        uuid = await running(world, "sleep 2")
        await asyncio.to_thread(world.until, uuid, "exited")
        with pytest.raises(Rejected, match="ended"):
            await world.access().exec(uuid, ["true"])
        with pytest.raises(Rejected, match="ended"):
            await world.access().dial(uuid, 8080)

    # ports

    async def test_dial_reaches_the_tasks_own_listener(self, world):
        uuid = await serving(world, port := free_port())
        assert [await heard(await world.access().dial(uuid, port)) for _ in range(3)] == [b"mine"] * 3

    async def test_dial_reaches_what_a_session_serves(self, world):
        program, more = world.python
        uuid, port = await running(world, **more), free_port()
        session = await world.access().exec(uuid, [program, "-c", SERVER.format(port=port)])
        await until_seen(session, "up")
        assert await heard(await world.access().dial(uuid, port)) == b"mine"
        await session.close()

    async def test_dial_is_refused_where_nobody_or_somebody_else_listens(self, world):
        uuid = await running(world)
        with pytest.raises(ConnectionRefusedError):
            await world.access().dial(uuid, free_port())
        with socket.create_server(("127.0.0.1", 0)) as strangers, pytest.raises(ConnectionRefusedError):
            await world.access().dial(uuid, strangers.getsockname()[1])

    async def test_a_port_that_another_task_has_is_refused(self, world):
        first = await serving(world, port := free_port(), cpu_milli=100)
        assert await heard(await world.access().dial(first, port)) == b"mine"
        second = await running(world, cpu_milli=100)
        with pytest.raises(ConnectionRefusedError):
            await world.access().dial(second, port)
