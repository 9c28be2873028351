import asyncio
import signal
import socket

import pytest

from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected
from tests.fakes.runtime import FakeAccess

TASK, OTHER = "a" * 32, "b" * 32


async def read_all(read) -> str:
    text = b""
    while data := await asyncio.wait_for(read(), 20):
        text += data
    return text.decode()


async def test_a_program_runs_through_pipes():
    session = await FakeAccess(tasks=[TASK]).exec(TASK, ["sh", "-c", "cat; echo $TESSERA_TASK >&2; exit 4"])
    await session.write(b"in")
    await session.write_eof()
    assert await read_all(session.read) == "in" and await read_all(session.read_error) == f"{TASK}\n"
    assert await session.wait() == 4
    await session.close()


async def test_a_program_runs_on_a_pty_that_is_resized():
    session = await FakeAccess(tasks=[TASK]).exec(TASK, ["sh"], pty=PtySize(101, 33))
    session.resize(PtySize(120, 40))
    await session.write(b"stty size; tty; exit 3\n")
    text = await read_all(session.read)
    assert "40 120" in text and "/dev/pts/" in text and await session.wait() == 3
    await session.close()


async def test_closing_kills_and_a_tasks_end_ends_its_sessions():
    access = FakeAccess(tasks=[TASK])
    first, second = [await access.exec(TASK, ["sleep", "60"]) for _ in range(2)]
    await first.close()
    assert await first.wait() == -signal.SIGHUP
    await access.end(TASK)
    assert await second.wait() == -signal.SIGKILL
    await second.close()
    with pytest.raises(Rejected):
        await access.exec(TASK, ["true"])


async def test_a_port_leads_where_the_test_says():
    with socket.create_server(("127.0.0.1", 0)) as server:
        access = FakeAccess({(TASK, 8888): server.getsockname()[1]}, tasks=[OTHER])
        with await access.dial(TASK, 8888) as connected:
            accepted, address = server.accept()
            accepted.close()
            assert address == connected.getsockname() and not connected.getblocking()
        for uuid, port in ((TASK, 9999), (OTHER, 8888)):
            with pytest.raises(ConnectionRefusedError):
                await access.dial(uuid, port)


async def test_a_program_that_is_not_there_is_rejected():
    with pytest.raises(Rejected, match="no-such-thing"):
        await FakeAccess(tasks=[TASK]).exec(TASK, ["no-such-thing"])
