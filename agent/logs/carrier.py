"""Ships tasks' output from the kubelet's log folder to the platform, a piece of every task per request."""

import base64
import logging
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.client import Platform, PlatformUnavailable, Refused
from agent.logs.container import DONE, UNASKED, UNKNOWN, ContainerLog
from agent.periodic_thread import PeriodicThread
from agent.state import Identity

log = logging.getLogger("tessera.agent")

LOOK_S = 0.25
PIECE, BATCH = 1 << 14, 600_000
"""Bytes: of one task if many have output, and of all tasks in a request."""
MOST_TASKS = 256
"""Tasks in a request."""
FULL_S = 0.1
"""Shortest pause in seconds, after a full request."""
FIRST_S, LONGEST_S = 1.0, 30.0
"""Seconds of pause after a failure, doubled for each further one."""
ASK_STRANGERS_S = 60.0
"""Seconds between questions about tasks that the platform does not know."""
MAIN = "main"
"""The container's name in a task's pod."""


class Carrier(PeriodicThread):
    """Ships all logs below `pods`. install: part of namespaces' names. folder: for positions."""

    def __init__(self, platform: Platform, who: Callable[[], Identity], pods: Path, install: str, folder: Path):
        super().__init__("logs")
        self.platform, self.who, self.pods, self.folder = platform, who, pods, folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._named = re.compile(rf"{re.escape(install)}-team-\d+_t-([0-9a-f]{{32}})_[0-9a-f-]+")
        self.logs: dict[str, ContainerLog] = {}
        self._over: set[str] = set()  # done, folder still there
        self._asked_at: dict[str, float] = {}
        self._pause_s, self._ask_every_s, self._not_before = 0.5, 2.0, 0.0
        self._failures, self._turn = 0, 0
        self._tells_moments = False  # an older platform does not know them
        self._dice = random.SystemRandom()
        for note in folder.glob("*.json"):  # their pods may be gone
            self.logs[note.stem] = ContainerLog(note.stem, pods / "gone", note)

    def stop(self, patience_s: float | None = 5.0) -> None:
        super().stop(patience_s)
        self.close()

    def run_once(self) -> float:
        try:
            self.send_batch()
        except OSError as error:  # own disk; the platform drops duplicates
            log.error("logs are not noted here: %s", error)
            self._wait_longer(0)
        except Exception:
            # One unreadable log must not stop all others.
            log.exception("logs are not brought")
            self._wait_longer(0)
        return min(max(self._not_before - time.monotonic(), 0.02), LOOK_S)

    def close(self) -> None:
        for each in self.logs.values():
            each.close()

    def send_batch(self) -> None:
        """Read all logs; send a batch if due."""
        self._find()
        for each in self.logs.values():
            each.open_new()
        if time.monotonic() < self._not_before or not (identity := self.who()).node:
            return
        for each in self.logs.values():
            each.fill()
        batch = self._batch()
        if batch:
            self._send(identity, batch)

    def _find(self) -> None:
        found = {match[1]: name for name in _list_names(self.pods) if (match := self._named.fullmatch(name))}
        for task, name in found.items():
            known, folder = self.logs.get(task), self.pods / name / MAIN
            if task not in self._over and (known is None or (known.state == UNASKED and known.folder != folder)):
                self.logs[task] = ContainerLog(task, folder, self.folder / f"{task}.json")
        self._over &= found.keys()
        for task in [task for task, each in self.logs.items() if each.state == DONE]:
            del self.logs[task]
            self._asked_at.pop(task, None)
            if task in found:
                self._over.add(task)
        for task in [task for task, each in self.logs.items() if each.state == UNKNOWN and task not in found]:
            self.logs.pop(task).forget()

    def _batch(self) -> list[tuple[ContainerLog, int]]:
        """Return (log, bytes) of logs with output or due questions, rotating the first."""
        logs = list(self.logs.values())
        self._turn = (self._turn + 1) % max(len(logs), 1)
        batch: list[tuple[ContainerLog, int]] = []
        room, piece = BATCH, max(BATCH // max(sum(each.has_news for each in logs), 1), PIECE)
        for each in logs[self._turn :] + logs[: self._turn]:
            size = min(len(each.ready), piece, room) if each.has_news or each.closed else 0
            if size or (each.closed and not each.ready) or self._is_due(each):
                batch.append((each, size))
                room -= size
            if not room or len(batch) == MOST_TASKS:
                break
        return batch

    def _is_due(self, each: ContainerLog) -> bool:
        every_s = {UNASKED: 0.0, UNKNOWN: ASK_STRANGERS_S}.get(each.state, self._ask_every_s)
        return time.monotonic() - self._asked_at.get(each.task, float("-inf")) >= every_s

    def _send(self, identity: Identity, batch: list[tuple[ContainerLog, int]]) -> None:
        said = {"logs": [_describe(each, size, self._tells_moments) for each, size in batch]}
        try:
            answer = self.platform.send_logs(identity.node, identity.key, said)
        except (PlatformUnavailable, Refused) as error:
            self._wait_longer(getattr(error, "retry_after_s", 0))
            log.warning("%s (logs wait; next try in about %.0f s)", error, self._not_before - time.monotonic())
            return
        self._failures = 0
        now, self._tells_moments = time.monotonic(), bool(answer.get("moments"))
        self._pause_s, self._ask_every_s = float(answer["pause_s"]), float(answer["ask_every_s"])
        is_full = sum(size for _, size in batch) > BATCH // 2 or any(
            each.has_news and len(each.ready) > size for each, size in batch
        )
        self._not_before = now + (max(self._pause_s / 5, FULL_S) if is_full else self._pause_s)
        known = {each["task"]: each for each in answer["logs"]}
        for each, size in batch:
            told = known.get(each.task, {"state": UNKNOWN, "size": 0})
            self._asked_at[each.task] = now
            each.most = int(answer["most_bytes"])
            each.receive_answer(told["state"], int(told["size"]), size)

    def _wait_longer(self, at_least_s: float) -> None:
        pause = max(min(FIRST_S * 2 ** min(self._failures, 20), LONGEST_S), at_least_s)
        self._failures += 1
        self._not_before = time.monotonic() + pause * self._dice.uniform(0.8, 1)


def _describe(each: ContainerLog, size: int, tells_moments: bool) -> dict[str, Any]:
    content = base64.b64encode(each.ready[:size]).decode()
    end = each.end if size == len(each.ready) else ""
    behind_s = round(each.behind_s(size), 3)
    piece = {"task": each.task, "offset": each.offset, "content": content, "behind_s": behind_s, "end": end}
    return piece | ({"moments": each.list_moments(size)} if tells_moments and size else {})


def _list_names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
