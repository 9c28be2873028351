"""What each task takes of the cards: processes are found by the driver, and their tasks by the kubelet's folders.

A process's control group names its pod, and the kubelet's folder of logs the task of a pod. Needs hostPID.
"""

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

from agent.gpu.busy_total import MEASURED
from agent.gpu.cards import NoAnswer, decode_text, open_nvml
from agent.gpu.memory_by_process import read_memory_by_process
from agent.gpu.share_busy import CardShares, add_shares, read_process_samples
from agent.periodic_thread import PeriodicThread

log = logging.getLogger("tessera.agent.shares")

LOOK_S = 1.0
POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
"""In a control group's path; systemd's have underscores."""


class ShareWatch(PeriodicThread):
    """Counts each second. list_tasks: tasks by the uid of their pod."""

    def __init__(
        self,
        list_tasks: Callable[[], dict[str, str]],
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.time,
    ):
        super().__init__("shares")
        self._list_tasks, self._proc, self._clock = list_tasks, proc, clock
        self._cards: dict[str, CardShares] = {}
        self._used: dict[str, dict[str, int]] = {}  # MiB by card and task
        self._others: dict[str, dict[int, int]] = {}

    def run_once(self) -> float:
        try:
            self.look()
        except NoAnswer as error:
            log.debug("nothing of processes is told: %s", error)
        return LOOK_S

    def look(self) -> None:
        """Read the processes of all cards, and move the totals on."""
        tasks = self._list_tasks()
        with open_nvml() as answers:
            for index in range(pynvml.nvmlDeviceGetCount() if answers else 0):
                try:
                    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                    self._look_at(handle, decode_text(pynvml.nvmlDeviceGetUUID(handle)), tasks)
                except pynvml.NVMLError:
                    continue  # the report shows it
        for card in self._cards.values():
            card.busy_ms = {task: busy for task, busy in card.busy_ms.items() if task in set(tasks.values())}

    def list_shares(self) -> list[dict[str, Any]]:
        """Return tasks with their shares, as in a tick. One without a process on a card has none there."""
        shares: dict[str, list[dict[str, Any]]] = {}
        for uuid, card in list(self._cards.items()):
            for task, busy_ms in list(card.busy_ms.items()):
                share = {"uuid": uuid, "busy_ms": int(busy_ms), "source": card.source}
                shares.setdefault(task, []).append(share | {"used_mib": self._used.get(uuid, {}).get(task, 0)})
        for uuid, used in list(self._used.items()):
            for task, mib in used.items() if uuid not in self._cards else ():
                shares.setdefault(task, []).append({"uuid": uuid, "used_mib": mib, "source": MEASURED})
        return [{"task": task, "shares": found} for task, found in sorted(shares.items())]

    def list_others(self) -> dict[str, dict[int, int]]:
        """Return {uuid: {pid: MiB}} of processes that are of no task."""
        return dict(self._others)

    def _look_at(self, handle: Any, uuid: str, tasks: dict[str, str]) -> None:
        now_us, card = round(self._clock() * 1e6), self._cards.get(uuid)
        held = read_memory_by_process(handle)
        samples = read_process_samples(handle, card.until_us if card else now_us - round(LOOK_S * 1e6))
        pids = [*held, *(sample.pid for sample in samples or ())]
        owners = {pid: tasks.get(self._find_pod(pid), "") for pid in pids}
        used: dict[str, int] = {}
        for pid, mib in held.items():
            if owners[pid]:
                used[owners[pid]] = used.get(owners[pid], 0) + mib
        self._used[uuid] = used
        self._others[uuid] = {pid: mib for pid, mib in held.items() if not owners[pid]}
        if samples is None:
            self._cards.pop(uuid, None)
        elif card is None:
            self._cards[uuid] = CardShares(now_us)
        else:
            known = {-number: task for number, task in enumerate(card.busy_ms, 1)}  # whose processes ended
            add_shares(card, samples, owners | known, now_us)

    def _find_pod(self, pid: int) -> str:
        try:
            found = POD.search((self._proc / str(pid) / "cgroup").read_text())
        except OSError:
            return ""
        return found[1].replace("_", "-") if found else ""
