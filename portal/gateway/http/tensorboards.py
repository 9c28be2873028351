"""Starts a job's TensorBoard at its first visit."""

import asyncio
from collections.abc import Callable

from jobs.tensorboard import ensure_tensorboard
from portal.access.app_sessions import AppGrant
from runtimes.contract.access import Access

MOST_REMEMBERED = 1000


class TensorBoards:
    """Starts each task's TensorBoard once, again after `forget`."""

    def __init__(self, access: Callable[[], Access]):
        self._access = access
        self._up: dict[str, asyncio.Task[None]] = {}

    async def start_board(self, grant: AppGrant) -> None:
        """Wait until it answers. Raises common.errors.Unavailable with its last output, and as `Access`."""
        if not grant.board:
            return
        starting = self._up.get(grant.task)
        if starting is None:
            starting = asyncio.ensure_future(ensure_tensorboard(self._access(), grant.task, grant.board, grant.port))
            self._remember(grant.task, starting)
        try:
            await asyncio.shield(starting)  # a visitor's disconnect must not stop it
        except Exception:
            self.forget(grant)
            raise

    def forget(self, grant: AppGrant) -> None:
        self._up.pop(grant.task, None)

    def _remember(self, task: str, starting: asyncio.Task[None]) -> None:
        while len(self._up) >= MOST_REMEMBERED:
            self._up.pop(next(iter(self._up)))
        self._up[task] = starting
