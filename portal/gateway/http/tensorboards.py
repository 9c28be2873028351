"""Starts a job's TensorBoard at its first visit."""

import asyncio
from collections.abc import Callable

from jobs.tensorboard import ensure_tensorboard
from portal.access.app_sessions import Visit
from runtimes.contract.access import Access

MOST_REMEMBERED = 1000


class TensorBoards:
    """Starts each task's TensorBoard once, again after `forget`."""

    def __init__(self, access: Callable[[], Access]):
        self._access = access
        self._up: dict[str, asyncio.Task[None]] = {}

    async def start_board(self, visit: Visit) -> None:
        """Wait until it answers. Raises common.errors.Unavailable with its last output, and as `Access`."""
        if not visit.board:
            return
        starting = self._up.get(visit.task)
        if starting is None:
            starting = asyncio.ensure_future(ensure_tensorboard(self._access(), visit.task, visit.board, visit.port))
            self._remember(visit.task, starting)
        try:
            await asyncio.shield(starting)  # a visitor's disconnect must not stop it
        except Exception:
            self.forget(visit)
            raise

    def forget(self, visit: Visit) -> None:
        self._up.pop(visit.task, None)

    def _remember(self, task: str, starting: asyncio.Task[None]) -> None:
        while len(self._up) >= MOST_REMEMBERED:
            self._up.pop(next(iter(self._up)))
        self._up[task] = starting
