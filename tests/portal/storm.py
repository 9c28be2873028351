"""A storm of submits over many connections, and somebody else's page meanwhile."""

import asyncio
import json
import time
from dataclasses import dataclass, field


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Storm:
    """answers: of the submits. pages_s: how long each page took meanwhile; alone_s: and before."""

    answers: list[Answer] = field(default_factory=list)
    pages_s: list[float] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)
    took_s: float = 0.0


class Connection:
    """One kept-alive connection, opened again when the server closed it."""

    def __init__(self, port: int):
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        told = {"Host": f"localhost:{self.port}", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        found = dict(line.lower().split(": ", 1) for line in lines if line)
        content = await self._read_body(reader, found)
        if found.get("connection") == "close":
            self.close()
        return Answer(int(status_line.split()[1]), found, content)

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None

    @staticmethod
    async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await reader.readexactly(int(headers["content-length"]))
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body


async def raise_storm(port: int, tokens: list[str], cookie: str, *, connections: int) -> Storm:
    """Send a submit by each token over so many connections, all at once, and look at a page until all are answered.

    cookie: of somebody else's session.
    """
    storm, left = Storm(), list(enumerate(tokens))
    body = json.dumps({"run": "true", "gpu": "1/4"}).encode()

    async def submit() -> None:
        connection = Connection(port)
        while left:
            number, token = left.pop()
            named = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"storm-{number}"}
            named["Content-Type"] = "application/json"
            storm.answers.append(await connection.ask("POST", "/api/v1/jobs", named, body))
        connection.close()

    async def look() -> None:
        connection = Connection(port)
        while len(storm.answers) < len(tokens):
            storm.pages_s.append(await _time_page(connection, cookie))
            await asyncio.sleep(0.1)
        connection.close()

    alone = Connection(port)
    storm.alone_s = [await _time_page(alone, cookie) for _ in range(6)][1:]  # the first loads templates
    alone.close()
    began = time.monotonic()
    await asyncio.gather(look(), *(submit() for _ in range(connections)))
    storm.took_s = time.monotonic() - began
    return storm


async def _time_page(connection: Connection, cookie: str) -> float:
    began = time.monotonic()
    answer = await connection.ask("GET", "/", {"Cookie": cookie})
    assert answer.status == 200, answer.body
    return time.monotonic() - began
