"""Requests that are too large or too slow before anybody is asked, on a real socket."""

import asyncio
import re
import socket
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvicorn

from config import http_protocol
from config.http_protocol import HEAD_BYTES, BoundedHttp
from tests.gateway_server import Server

ROOT = Path(__file__).resolve().parents[2]
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
PATIENCE_S = 15  # other tests run at the same time


async def application(scope, receive, send):
    """Read the body and answer; at /early without reading it."""
    while scope["path"] != "/early" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(application, http=BoundedHttp, log_level="error", lifespan="off", timeout_keep_alive=60)
    server = Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield listener.getsockname()[1]
    server.should_exit = server.force_exit = True
    await serving


@asynccontextmanager
async def connection(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def answer_to(port, *pieces):
    """All that comes until the server closes."""
    async with connection(port) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.01)
        return await asyncio.wait_for(reader.read(), PATIENCE_S)


def cookie(size):
    return b"Cookie: a=" + b"x" * size + b"\r\n"


@pytest.mark.parametrize("upgrade", [b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"])
@pytest.mark.parametrize(
    "pieces",
    [
        [GET + cookie(HEAD_BYTES) + b"\r\n"],
        [GET, *[b"X-%02d: %s\r\n" % (number, b"x" * 1000) for number in range(66)]],
        [GET, b"Cookie: a=", *[b"x" * 30_000] * 3],  # it does not even end
        [b"GET /", *[b"x" * 30_000] * 3],
    ],
)
async def test_headers_end_at_64_kib(port, pieces, upgrade):
    answer = await answer_to(port, pieces[0].replace(GET, GET + upgrade), *pieces[1:])
    assert answer.startswith(b"HTTP/1.1 431 ") and b"64 KiB" in answer


@pytest.mark.parametrize("chunks", [1, 2])
async def test_the_headers_of_a_later_request_end_there_too(port, chunks):
    large = GET + cookie(HEAD_BYTES) + b"\r\n"
    first = GET + b"Content-Length: 3\r\n\r\nabc"
    answer = await answer_to(port, *([first + large] if chunks == 1 else [first, large]))
    assert b"HTTP/1.1 431 " in answer


async def test_headers_below_the_limit_go_through(port):
    close = b"Connection: close\r\n\r\n"
    assert (await answer_to(port, GET + cookie(HEAD_BYTES - 200) + close)).endswith(b"ok")
    assert (await answer_to(port, *[bytes([byte]) for byte in GET], close)).endswith(b"ok")


async def test_a_large_body_is_no_header(port):
    said = b"Connection: close\r\nContent-Length: 300000\r\n\r\n"
    assert (await answer_to(port, GET + said, *[b"x" * 100_000] * 3)).endswith(b"ok")


@pytest.mark.parametrize("sent", [b"G", GET, GET + b"X-", GET + b"\r\n" + GET])
async def test_headers_that_do_not_end_are_answered_and_closed(port, sent, monkeypatch):
    monkeypatch.setattr(http_protocol, "PATIENCE_S", 0.1)
    async with connection(port) as (reader, writer):
        writer.write(sent)
        await writer.drain()
        writer.write(b"E")
        assert b"HTTP/1.1 408 " in await asyncio.wait_for(reader.read(), PATIENCE_S)


async def test_empty_lines_after_a_request_hold_no_connection(port, monkeypatch):
    monkeypatch.setattr(http_protocol, "PATIENCE_S", 0.1)
    async with connection(port) as (reader, writer):
        writer.write(GET + b"\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        writer.write(b"\r\n")
        assert b"HTTP/1.1 408 " in await asyncio.wait_for(reader.read(), PATIENCE_S)


async def test_a_connection_without_a_request_is_closed_without_a_word(port, monkeypatch):
    monkeypatch.setattr(http_protocol, "PATIENCE_S", 0.1)
    assert await answer_to(port) == b""


async def test_a_body_that_goes_on_after_its_answer_is_cut_off(port, monkeypatch):
    monkeypatch.setattr(http_protocol, "PATIENCE_S", 0.1)
    async with connection(port) as (reader, writer):
        writer.write(GET.replace(b"/", b"/early", 1) + b"Content-Length: 1000000\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        with pytest.raises((ConnectionError, TimeoutError)):
            async with asyncio.timeout(PATIENCE_S):
                while not reader.at_eof():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.02)
                raise ConnectionResetError


async def test_a_connection_serves_one_request_after_the_other(port):
    async with connection(port) as (reader, writer):
        for _ in range(3):
            writer.write(GET + b"Content-Length: 3\r\n\r\nabc")
            assert (await asyncio.wait_for(reader.readuntil(b"ok"), PATIENCE_S)).startswith(b"HTTP/1.1 200 ")


def test_the_image_serves_with_it():
    [command] = re.findall(r"^CMD \[(.*)\]$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert f'"--http", "{BoundedHttp.__module__}:{BoundedHttp.__name__}"' in command
