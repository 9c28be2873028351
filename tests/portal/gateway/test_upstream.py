"""The client of programs: each answer as it was sent, however it is cut, and nothing that is no answer."""

import asyncio
import socket

import pytest

from portal.gateway.http.relay import NotStarted, relay
from portal.gateway.http.scope import Request
from portal.gateway.http.upstream import pool as pools
from portal.gateway.http.upstream.connection import BrokenOff, ProgramConnection
from portal.gateway.http.upstream.pool import ConnectionPool

OK = b"HTTP/1.1 200 OK\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
LONG = b"X: " + b"x" * 70_000

WHOLE = {
    "with a length": (OK + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", True),
    "in chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n", 200, b"hello", True),
    "with trailers": (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", 200, b"", True),
    "without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b"", True),
    "after early hints": (HINTS + OK + b"Content-Length: 0\r\n\r\n", 200, b"", True),
    "that asks to close": (OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", False),
    "of an old server": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", False),
    "with bare line ends": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, b"hi", True),
    "until it closes": (OK + b"\r\nall that comes", 200, b"all that comes", False),
}
BROKEN = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "half a head": OK + b"Content-Le",
    "headers without an end": OK + LONG,
    "less than it said": OK + b"Content-Length: 9\r\n\r\nhello",
    "a chunk that is cut": OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhello",
    "no last chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nhi",
    "a length and chunks": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}
TARGET = type("Here", (), {"task": "a" * 32, "port": 1, "authorization": ""})()


@pytest.mark.parametrize("cut", [1, 7, 10_000])
@pytest.mark.parametrize(("sent", "status", "body", "is_kept"), WHOLE.values(), ids=WHOLE)
async def test_an_answer_comes_as_it_was_sent(sent, status, body, is_kept, cut):
    closes = not is_kept
    async with asking(sent, cut, closes=closes) as connection:
        assert (await read(connection), connection.status) == (body, status)
        assert connection.may_be_kept is is_kept
        assert not [name for name, _ in connection.headers if name == b"Link"]


@pytest.mark.parametrize("cut", [1, 10_000])
@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_whole_answer_is_told(sent, cut):
    async with asking(sent, cut if len(sent) < 1000 else 5000, closes=True) as connection:
        with pytest.raises(BrokenOff):
            await read(connection)
        assert not connection.may_be_kept


async def test_an_answer_to_head_has_no_body_whatever_it_says():
    async with asking(OK + b"Content-Length: 5\r\n\r\n", 99, method=b"HEAD") as connection:
        assert await read(connection) == b"" and not connection.may_be_kept


@pytest.mark.parametrize("again", [OK + b"Content-Length: 0\r\n\r\n", b"x"])
async def test_nothing_that_comes_unasked_is_an_answer(again):
    """Else the next request would get it, of whoever sent that."""
    async with asking(OK + b"Content-Length: 2\r\n\r\nhi" + again, 10_000) as connection:
        assert await read(connection) == b"hi" and not connection.may_be_kept
    async with asking(OK + b"Content-Length: 2\r\n\r\nhi", 10_000) as connection:
        assert await read(connection) == b"hi" and connection.may_be_kept
        connection.data_received(again)
        assert not connection.may_be_kept
    here, there = socket.socketpair()
    there.send(OK + b"Content-Length: 2\r\n\r\nhi")  # before it was asked
    async with connecting(here) as connection:
        await asyncio.sleep(0.05)
        assert not connection.may_be_kept
        connection.begin(b"GET / HTTP/1.1\r\n\r\n", to_head=False)
        with pytest.raises(BrokenOff):
            await read(connection)
    there.close()


@pytest.mark.parametrize(("method", "is_repeated"), [("GET", True), ("POST", False)])
async def test_only_what_changes_nothing_is_sent_again_where_a_kept_connection_was_closed(method, is_repeated):
    programs = Programs()
    pool = ConnectionPool(lambda: programs)
    assert await pass_on(pool, method) == b"1"
    assert await pass_on(pool, method) == b"2" and programs.dialled == 1
    programs.dies_on_next = True  # it has read the request, and closes
    if is_repeated:
        assert await pass_on(pool, method) == b"1" and programs.dialled == 2
    else:
        with pytest.raises(NotStarted):
            await pass_on(pool, method)
        assert programs.dialled == 1
    await programs.close(pool)


async def test_a_kept_connection_is_closed_when_it_is_old(monkeypatch):
    programs = Programs()
    monkeypatch.setattr(pools, "KEEP_S", 0.1)
    pool = ConnectionPool(lambda: programs)
    await asyncio.gather(*(pass_on(pool, "GET") for _ in range(3)))
    assert programs.dialled == 3 and len(programs.open) == 3
    await asyncio.sleep(0.4)
    assert not programs.open and not pool._kept
    await programs.close(pool)


class asking:
    """A connection whose program sends `sent` in pieces of `cut` bytes once it is asked."""

    def __init__(self, sent, cut, *, closes=False, method=b"GET"):
        self.sent, self.cut, self.closes, self.method = sent, cut, closes, method

    async def __aenter__(self):
        here, self.there = socket.socketpair()
        self.connecting = connecting(here)
        connection = await self.connecting.__aenter__()
        connection.begin(self.method + b" / HTTP/1.1\r\n\r\n", to_head=self.method == b"HEAD")
        self.saying = asyncio.create_task(self.say())
        return connection

    async def say(self):
        self.there.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_recv(self.there, 1000)
        for start in range(0, len(self.sent), self.cut):
            try:
                await loop.sock_sendall(self.there, self.sent[start : start + self.cut])
            except OSError:
                break
            await asyncio.sleep(0)
        if self.closes:
            self.there.close()

    async def __aexit__(self, *_):
        self.saying.cancel()
        await self.connecting.__aexit__()
        self.there.close()


class connecting:
    def __init__(self, here):
        self.here = here

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.transport, connection = await loop.create_connection(ProgramConnection, sock=self.here)
        return connection

    async def __aexit__(self, *_):
        self.transport.abort()
        await asyncio.sleep(0)


class Programs:
    """Access to one program that answers how many requests it got on the connection."""

    def __init__(self):
        self.dialled, self.dies_on_next, self.open, self.tasks = 0, False, set(), []

    async def dial(self, task, port):
        self.dialled += 1
        here, there = socket.socketpair()
        there.setblocking(False)
        self.tasks.append(asyncio.create_task(self.answer(there)))
        return here

    async def answer(self, there):
        loop, count = asyncio.get_running_loop(), 0
        self.open.add(there)
        while await loop.sock_recv(there, 65536):
            count += 1
            if self.dies_on_next:
                self.dies_on_next = False
                break
            await loop.sock_sendall(there, OK + b"Content-Length: 1\r\n\r\n%d" % count)
        self.open.discard(there)
        there.close()

    async def close(self, pool):
        pool.close()
        await asyncio.gather(*self.tasks)  # they end with their connections


async def read(connection) -> bytes:
    await connection.read_head()
    whole = b""
    while piece := await connection.read_piece():
        whole += piece
    return whole


async def pass_on(pool, method) -> bytes:
    said = []

    async def send(message):
        said.append(message.get("body", b""))

    async def receive():
        await asyncio.sleep(60)

    assert await relay(pool, TARGET, Request(method, "/", "", [(b"host", b"x")], "http", False), receive, send)
    return b"".join(said)
