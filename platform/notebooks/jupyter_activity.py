"""Ask JupyterLab whether a kernel works, and when a kernel or a terminal last said something."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from jobs.models import Task
from jobs.probing.http_status import NOT_YET, TIMEOUT_S, open_request
from notebooks.job_spec import JUPYTER_PORT
from notebooks.jupyter_ready import authorize
from runtimes.contract.access import Access

LARGEST_ANSWER = 1024 * 1024
AT_REST = frozenset({"idle", "dead", "terminating"})


@dataclass(frozen=True)
class JupyterActivity:
    """busy: a kernel works, or is starting. active_at: the last sign of a kernel or terminal."""

    busy: bool
    active_at: datetime | None


async def ask_jupyters(access: Access, tasks: Sequence[Task]) -> dict[int, JupyterActivity]:
    """Return what the JupyterLabs of tasks answer, by the task's id. Who does not answer is not there."""
    found = await asyncio.gather(*(_ask(access, task) for task in tasks))
    return {task.pk: answer for task, answer in zip(tasks, found, strict=True) if answer is not None}


async def _ask(access: Access, task: Task) -> JupyterActivity | None:
    port = task.ports.get(str(JUPYTER_PORT))
    if port is None:
        return None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            kernels, terminals = [await _get_list(access, task, port, path) for path in ("kernels", "terminals")]
    except (*NOT_YET, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    return read_activity(kernels, terminals)


def read_activity(kernels: list[dict], terminals: list[dict]) -> JupyterActivity:
    """Read the answers of /api/kernels and /api/terminals."""
    times = [parse_datetime(str(one.get("last_activity", ""))) for one in (*kernels, *terminals)]
    busy = any(kernel.get("execution_state") not in AT_REST for kernel in kernels)
    return JupyterActivity(busy, max((at for at in times if at is not None), default=None))


async def _get_list(access: Access, task: Task, port: int, what: str) -> list[dict[str, Any]]:
    """Return the objects of an API's list. Raises ValueError for anything else."""
    reader, writer = await open_request(access, task, port, f"/api/{what}", authorize(task))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(head[:40])
        found = json.loads(await reader.readexactly(_read_length(head)))
    finally:
        writer.close()
    if not isinstance(found, list):
        raise ValueError(what)
    return [one for one in found if isinstance(one, dict)]


def _read_length(head: bytes) -> int:
    """Return the length that an answer tells. Raises ValueError."""
    lines = (line.partition(b":") for line in head.splitlines())
    found = [value.strip() for name, _, value in lines if name.strip().lower() == b"content-length"]
    if not found or not 0 <= (length := int(found[0])) <= LARGEST_ANSWER:
        raise ValueError("length")
    return length
