"""Check that JupyterLab answers, with the task's secret, which proves that it is this task's."""

import asyncio

from jobs.models import Task
from jobs.task_access import derive_task_secret
from notebooks.job_spec import JUPYTER_PORT
from runtimes.contract.access import Access
from runtimes.contract.errors import Rejected, Unavailable

TIMEOUT_S = 2.0
NOT_YET = (ConnectionError, TimeoutError, OSError, Rejected, Unavailable)


async def is_jupyter_ready(access: Access, task: Task) -> bool:
    """Whether JupyterLab answers in a RUNNING task."""
    port = task.ports.get(str(JUPYTER_PORT))
    if port is None:
        return False
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await _get_status(access, task, port) == 200
    except NOT_YET:
        return False


async def open_request(
    access: Access, task: Task, port: int, path: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a GET with the task's secret; the caller reads the answer and closes."""
    reader, writer = await asyncio.open_connection(sock=await access.dial(task.uuid.hex, port))
    request = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n"
    writer.write(f"{request}Authorization: token {derive_task_secret(task.uuid)}\r\n\r\n".encode())
    return reader, writer


async def _get_status(access: Access, task: Task, port: int) -> int:
    """Return the status of GET /api/status; 0 if it is no HTTP."""
    reader, writer = await open_request(access, task, port, "/api/status")
    try:
        words = (await reader.readline()).split()
        return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit() else 0
    finally:
        writer.close()
