"""Checks the machine and its cards each minute. The driver is asked in a thread of its own: it may hang for ever."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.health.checks import HOT_C, Check, MachineLook, check_card, check_machine
from agent.health.looks import DriverLook, look_at_disks, look_at_driver, read_oom_kills
from agent.periodic_thread import PeriodicThread

log = logging.getLogger("tessera.agent.health")

EVERY_S = 60.0
PATIENCE_S = 30.0
"""How long the driver may take."""
LATELY_LOOKS = 10


class Checker(PeriodicThread):
    """paths: as of look_at_disks. count_expected: cards seen since boot. read_xids, list_others: as in check_card, by
    card. read_skew: of the clock.
    """

    def __init__(
        self,
        paths: tuple[Path, Sequence[Path]],
        count_expected: Callable[[], int],
        read_xids: Callable[[], Mapping[str, Counter[int]] | None],
        list_others: Callable[[], Mapping[str, Mapping[int, int]] | None],
        read_skew: Callable[[], float | None],
    ):
        super().__init__("health")
        self._paths, self._count_expected = paths, count_expected
        self._read_xids, self._list_others, self._read_skew = read_xids, list_others, read_skew
        self._asked: threading.Thread | None = None
        self._asked_at, self._found = 0.0, DriverLook()
        self._driver = ""
        self._hot: Counter[str] = Counter()
        self._oom_kills: list[int] = []
        self._newest: list[Check] = []
        self.round = 0
        """Grows with each list of checks."""

    def run_once(self) -> float:
        try:
            self._newest = self.check()
            self.round += 1
        except Exception:  # keep the thread alive
            log.exception("the machine is not checked")
        return EVERY_S

    def tell(self) -> list[dict[str, Any]]:
        """Return the newest checks, as they are sent."""
        return [check.tell() for check in self._newest]

    def check(self) -> list[Check]:
        silent_s = self._ask_driver()
        found = self._found if not silent_s else DriverLook()
        self._driver = self._driver or found.driver
        kills = read_oom_kills()
        self._oom_kills = [*self._oom_kills, kills][-LATELY_LOOKS:] if kills is not None else []
        machine = MachineLook(
            cards=None if found.cards is None else len(found.cards),
            expected=self._count_expected(),
            driver=found.driver,
            driver_before=self._driver,
            mismatch=found.mismatch,
            nvml_silent_s=silent_s,
            skew_s=self._read_skew(),
            oom_kills=kills,
            oom_kills_new=self._oom_kills[-1] - self._oom_kills[0] if self._oom_kills else 0,
            disks=look_at_disks(*self._paths),
        )
        return [*check_machine(machine), *self._check_cards(found)]

    def _check_cards(self, found: DriverLook) -> list[Check]:
        xids, others = self._read_xids(), self._list_others()
        checks: list[Check] = []
        for look in found.cards or ():
            hot = look.temperature_c is not None and look.temperature_c >= HOT_C
            self._hot[look.uuid] = self._hot[look.uuid] + 1 if hot else 0
            checks += check_card(
                replace(look, hot_looks=self._hot[look.uuid]),
                None if xids is None else xids.get(look.uuid, Counter()),
                None if others is None else others.get(look.uuid, {}),
            )
        return checks

    def _ask_driver(self) -> float:
        """Look at the cards; return how long the driver has been silent, 0 if it answers."""
        if self._asked is None or not self._asked.is_alive():
            self._asked_at = time.monotonic()
            self._asked = threading.Thread(target=self._look, name="health-driver", daemon=True)
            self._asked.start()
        self._asked.join(PATIENCE_S)
        return time.monotonic() - self._asked_at if self._asked.is_alive() else 0.0

    def _look(self) -> None:
        self._found = look_at_driver()
