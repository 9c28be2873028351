"""Ask the program of a running task whether it answers."""

import asyncio
from collections.abc import Mapping

from jobs.models import Task
from runtimes.contract.access import Access
from runtimes.contract.errors import Rejected, Unavailable

TIMEOUT_S = 2.0
NOT_YET = (ConnectionError, TimeoutError, OSError, Rejected, Unavailable)


async def get_status(access: Access, task: Task, port: int, path: str, headers: Mapping[str, str] = {}) -> int:
    """Return the status of a GET at a task's real port; 0 if nothing answers in time, or what does is no HTTP."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await open_request(access, task, port, path, headers)
            try:
                words = (await reader.readline()).split()
            finally:
                writer.close()
    except NOT_YET:
        return 0
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit() else 0


async def is_listening(access: Access, task: Task, port: int) -> bool:
    """Whether something listens at a task's real port."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            (await access.dial(task.uuid.hex, port)).close()
    except NOT_YET:
        return False
    return True


async def open_request(
    access: Access, task: Task, port: int, path: str, headers: Mapping[str, str] = {}
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a GET; the caller reads the answer and closes. Raises NOT_YET."""
    reader, writer = await asyncio.open_connection(sock=await access.dial(task.uuid.hex, port))
    said = {"Host": f"localhost:{port}", "Connection": "close", **headers}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
    writer.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
    return reader, writer
