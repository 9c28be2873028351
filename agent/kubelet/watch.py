"""Reports slices' GPU memory use to the platform, which ends tasks above theirs.

Our hook keeps accounts in home/tasks/CONTAINER. Mapping processes to containers needs hostPID. Not run on hardware.
"""

import json
import logging
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pynvml

from agent.client import Platform, PlatformUnavailable, Refused
from agent.gpu.cards import NoAnswer, decode_text, open_nvml
from agent.gpu.memory_by_process import read_memory_by_process
from agent.gpu.policy import GpuPolicy
from agent.periodic_thread import PeriodicThread
from agent.state import Identity

log = logging.getLogger("tessera.agent")

LOOK_S, AGAIN_S, LONGEST_S = 2.0, 60.0, 60.0
"""Seconds: between readings, between full reports, and the longest pause after failures."""
MOST = 256
"""Tasks in a request."""
PARTS = 100
"""Changes below this part of a slice are not reported."""
WITHIN_S = 10.0
TASK = re.compile(r"[0-9a-f]{32}")
CONTAINER = re.compile(r"[0-9a-f]{64}")

Use = dict[str, dict[str, Any]]  # by card: as GpuPolicy has it, and "over"


class SliceWatch(PeriodicThread):
    """Watches all slices. control: slicectl. above_s: seconds a task may exceed its slice."""

    def __init__(
        self,
        platform: Platform,
        who: Callable[[], Identity],
        home: Path,
        control: Path,
        above_s: float,
        proc: Path = Path("/proc"),
    ):
        super().__init__("slices", LOOK_S)
        self.platform, self.who, self.home, self.control, self.proc = platform, who, home, control, proc
        self.samples = max(1, round(above_s / LOOK_S))
        self.policies: dict[str, GpuPolicy] = {}  # by container
        self.over: dict[str, str] = {}  # by container: why it must end; permanent
        self._told: dict[str, Use] = {}  # by task
        self._told_at = 0.0
        self._pause_s = LOOK_S

    def run_once(self) -> float:
        try:
            self.report(self.read_uses())
            self._pause_s = LOOK_S
        except (PlatformUnavailable, Refused, OSError, subprocess.SubprocessError) as error:
            self._pause_s = min(max(2 * self._pause_s, getattr(error, "retry_after_s", 0)), LONGEST_S)
            log.warning("what slices use is not told: %s (next try in %.0f s)", error, self._pause_s)
        except Exception:  # keep the thread alive
            self._pause_s = min(2 * self._pause_s, LONGEST_S)
            log.exception("what slices use is not seen (next try in %.0f s)", self._pause_s)
        return self._pause_s

    def read_uses(self) -> dict[str, Use]:
        """Return each sliced task's use."""
        found = {folder.name: folder for folder in self.home.glob("tasks/*") if (folder / "task").is_file()}
        for gone in self.policies.keys() - found.keys():
            del self.policies[gone]
            self.over.pop(gone, None)
        held = read_memory_by_container(found.keys(), self.proc) if found else {}
        uses = {}
        for name, folder in found.items():
            task, account = (folder / "task").read_text(), self._account(folder / "slice")
            if account is not None and TASK.fullmatch(task):
                uses[task] = self._evaluate(name, account, held.get(name, {}))
        return uses

    def report(self, uses: Mapping[str, Use]) -> None:
        """Send what changed. Raises PlatformUnavailable, Refused."""
        who = self.who()
        if not who.node:
            return
        if time.monotonic() - self._told_at > AGAIN_S:
            self._told, self._told_at = {}, time.monotonic()
        news = {task: use for task, use in uses.items() if has_changed(self._told.get(task, {}), use)}
        for tasks in (list(news)[n : n + MOST] for n in range(0, len(news), MOST)):
            said = [{"task": task, "cards": [{"uuid": u, **card} for u, card in news[task].items()]} for task in tasks]
            self.platform.report_slices(who.node, who.key, {"slices": said})
            self._told |= {task: news[task] for task in tasks}
        self._told = {task: use for task, use in self._told.items() if task in uses}

    def _account(self, folder: Path) -> dict[str, dict[str, int]] | None:
        """Return {uuid: limit_mib, counted_mib, refused}; None if the container ended or its files are broken."""
        words = [str(self.control), "show", str(folder), "--json"]
        done = subprocess.run(words, env={}, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        if done.returncode != 0:
            return None
        return {
            card["uuid"]: {
                "limit_mib": card["limit_bytes"] >> 20,
                "counted_mib": card["used_bytes"] >> 20,
                "refused": card["refused"],
            }
            for card in json.loads(done.stdout)["cards"]
        }

    def _evaluate(self, name: str, account: dict[str, dict[str, int]], held: dict[str, int]) -> Use:
        limits = {uuid: card["limit_mib"] for uuid, card in account.items()}
        if name not in self.policies:
            self.policies[name] = GpuPolicy(limits, self.samples, kept=True, guarded=True)
        policy = self.policies[name]
        _, verdict = policy.evaluate({uuid: card | {"used_mib": held.get(uuid, 0)} for uuid, card in account.items()})
        over = self.over.setdefault(name, verdict) if verdict else self.over.get(name, "")
        return {uuid: {**card, "over": over} for uuid, card in policy.cards.items()}


def read_memory_by_container(names: Any, proc: Path) -> dict[str, dict[str, int]]:
    """Return the driver's {container: {uuid: MiB}}; failing cards count nothing."""
    found: dict[str, dict[str, int]] = {}
    try:
        with open_nvml() as answers:
            handles = (
                [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())] if answers else []
            )
            for handle in handles:
                uuid = decode_text(pynvml.nvmlDeviceGetUUID(handle))
                for pid, mib in read_memory_by_process(handle).items():
                    if (name := find_container(pid, proc)) in names:
                        cards = found.setdefault(name, {})
                        cards[uuid] = cards.get(uuid, 0) + mib
    except (NoAnswer, pynvml.NVMLError):
        pass  # reported elsewhere
    return found


def find_container(pid: int, proc: Path) -> str:
    """Return the container id in a process's cgroup path (containerd, CRI-O, Docker), or ""."""
    try:
        ids = CONTAINER.findall((proc / str(pid) / "cgroup").read_text())
    except OSError:
        return ""
    return ids[-1] if ids else ""


def has_changed(old: Use, new: Use) -> bool:
    return old.keys() != new.keys() or any(_moved(old[uuid], new[uuid]) for uuid in new)


def _moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    step = max(new["limit_mib"] // PARTS, 1)
    if any(abs(new[name] - old[name]) >= step for name in ("used_mib", "peak_mib")):
        return True
    return any(new[name] != old[name] for name in ("limit_mib", "refused", "over", "watched"))
