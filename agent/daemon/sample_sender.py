"""Sends the ticks of this machine's cards and tasks; while the platform is away they wait, the newest half hour."""

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from agent.client import Platform, PlatformUnavailable, Refused
from agent.gpu.meter import Meter
from agent.health.checker import Checker
from agent.periodic_thread import PeriodicThread
from agent.state import Identity
from agent.usage.task_reader import join_tasks

log = logging.getLogger("tessera.agent.samples")

EVERY_S, LEAST_S, MOST_S = 10.0, 1.0, 600.0
KEPT_S = 30 * 60
MOST_BYTES = 60_000
"""Of the ticks of one body, which the platform takes up to 64 KiB."""
UNKNOWN_THERE = (404, 405)
"""An older platform takes no samples."""


class SampleSender(PeriodicThread):
    """Takes ticks of the meter, adds what tasks and the machine use, and sends them, with checks as they are made."""

    def __init__(
        self,
        platform: Platform,
        identity: Callable[[], Identity],
        meter: Meter,
        clock: Callable[[], float] = time.monotonic,
        read_tasks: Callable[[], list[dict[str, Any]]] = list,
        read_machine: Callable[[], dict[str, Any]] = dict,
        checker: Checker | None = None,
    ):
        super().__init__("samples")
        self._read_tasks, self._read_machine = read_tasks, read_machine
        self._checker, self._checked = checker, 0
        self._platform, self._identity, self._meter, self._clock = platform, identity, meter, clock
        self._waiting: deque[tuple[float, dict[str, Any]]] = deque()
        self._every_s, self._next_at = EVERY_S, 0.0
        self._told = ""

    def run_once(self) -> float:
        """Take a tick when it is time, and send the oldest of those that wait."""
        now = self._clock()
        if now >= self._next_at:
            self._next_at = now + self._every_s
            self._waiting.append(self._take())
        while self._waiting and now - self._waiting[0][0] > KEPT_S:
            self._waiting.popleft()
        pause_s = self._send() if self._identity().node else LEAST_S
        return min(max(pause_s, LEAST_S), max(self._next_at - self._clock(), LEAST_S))

    def _take(self) -> tuple[float, dict[str, Any]]:
        at, tick = self._meter.take()
        return at, tick | {"tasks": join_tasks(tick["tasks"], self._read_tasks()), "node": self._read_machine()}

    def _send(self) -> float:
        """Send one body; return the seconds until the next."""
        now, identity = self._clock(), self._identity()
        checked, checks = self._take_checks()
        aged = (tick | {"age_ms": round(1000 * (now - at))} for at, tick in self._waiting)
        ticks = choose_oldest(aged, MOST_BYTES - len(json.dumps(checks)))
        if not ticks:
            return self._every_s
        said = {"run": self._meter.run, "first": ticks[0]["seq"], "ticks": ticks, **checks}
        try:
            answer = self._platform.send_samples(identity.node, identity.key, said)
        except Refused as refused:
            self._tell(str(refused))
            if refused.status in UNKNOWN_THERE:
                self._waiting.clear()
                self._next_at = self._clock() + MOST_S
            return MOST_S
        except PlatformUnavailable as away:
            self._tell(str(away))
            return max(away.retry_after_s, self._every_s)
        self._tell("")
        self._checked = checked
        self._every_s = min(max(float(answer.get("every_s", EVERY_S)), LEAST_S), MOST_S)
        self._next_at = min(self._next_at, self._clock() + self._every_s)  # at once, where somebody watches now
        for _ in ticks:
            self._waiting.popleft()
        return LEAST_S

    def _take_checks(self) -> tuple[int, dict[str, Any]]:
        """Return (their round, the part of the body): nothing if the newest were sent."""
        if self._checker is None or self._checker.round == self._checked:
            return self._checked, {}
        return self._checker.round, {"checks": self._checker.tell()}

    def _tell(self, words: str) -> None:
        """Log a trouble once, until it is another or over."""
        if words and words != self._told:
            log.warning("samples wait: %s", words)
        self._told = words


def choose_oldest(ticks: Iterable[dict[str, Any]], most: int = MOST_BYTES) -> list[dict[str, Any]]:
    """Return the first ones that fit into a body, at least one."""
    chosen: list[dict[str, Any]] = []
    size = 0
    for tick in ticks:
        size += len(json.dumps(tick))
        if chosen and size > most:
            break
        chosen.append(tick)
    return chosen
