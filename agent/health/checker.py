"""Checks the machine and its cards each minute. Drivers and file servers may hang for ever: threads ask them."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.gpu.counters.dcgm import DcgmWatch
from agent.health.card_checks import HOT_C, CardLook, check_bus, check_card
from agent.health.check import Check
from agent.health.driver_looks import DriverLook, look_at_driver
from agent.health.host_looks import ask_engine, look_at_disks, look_at_homes, read_oom_kills
from agent.health.lately import Lately
from agent.health.machine_checks import MachineLook, check_machine
from agent.health.patient_look import PatientLook
from agent.periodic_thread import PeriodicThread

log = logging.getLogger("tessera.agent.health")

EVERY_S = 60.0
PATIENCE_S = 30.0
"""How long a driver or a file server may take."""


@dataclass(frozen=True)
class Places:
    """written: the agent's own folder. disks: others that are looked at. homes: what has to be mounted. engine: the
    socket of the container engine, None: none is asked.
    """

    written: Path
    disks: Sequence[Path] = ()
    homes: Sequence[Path] = ()
    engine: Path | None = None


class Checker(PeriodicThread):
    """list_expected: uuids of cards seen since boot. read_xids, list_others: as in check_card, by card. read_skew: of
    the clock. dcgm: of which memory errors are taken where NVML tells none.
    """

    def __init__(
        self,
        places: Places,
        list_expected: Callable[[], Collection[str]],
        read_xids: Callable[[], Mapping[str, Counter[int]] | None],
        list_others: Callable[[], Mapping[str, Mapping[int, int]] | None],
        read_skew: Callable[[], float | None],
        dcgm: DcgmWatch | None = None,
    ):
        super().__init__("health")
        self._places, self._list_expected = places, list_expected
        self._read_xids, self._list_others, self._read_skew = read_xids, list_others, read_skew
        self._dcgm = dcgm
        own = (Path("/"), places.written)
        self._driver_look = PatientLook("health-driver", look_at_driver)
        self._homes_look = PatientLook("health-homes", lambda: look_at_homes(places.homes, own))
        self._driver = ""
        self._hot: Counter[str] = Counter()
        self._lately = Lately()
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
        found, silent_s = self._driver_look.ask(PATIENCE_S)
        found, expected = found or DriverLook(), self._list_expected()
        self._driver = self._driver or found.driver
        homes, homes_silent_s = self._homes_look.ask(PATIENCE_S) if self._places.homes else (None, 0.0)
        kills = read_oom_kills()
        machine = MachineLook(
            cards=None if found.cards is None else len(found.cards),
            expected=len(expected),
            driver=found.driver,
            driver_before=self._driver,
            mismatch=found.mismatch,
            nvml_silent_s=silent_s,
            skew_s=self._read_skew(),
            oom_kills=kills,
            oom_kills_new=self._lately.add("oom", kills),
            disks=look_at_disks(self._places.written, self._places.disks),
            engine=ask_engine(self._places.engine) if self._places.engine else None,
            dcgm=self._dcgm.trouble if self._dcgm else None,
            homes=homes,
            homes_silent_s=homes_silent_s,
        )
        return [*check_machine(machine), *self._check_cards(found, expected)]

    def _check_cards(self, found: DriverLook, expected: Collection[str]) -> list[Check]:
        if found.cards is None:
            return []
        xids, others = self._read_xids(), self._list_others()
        checks = check_bus(expected, {look.uuid for look in found.cards}, xids or {})
        for look in found.cards:
            checks += check_card(
                self._look_back(look),
                None if xids is None else xids.get(look.uuid, Counter()),
                None if others is None else others.get(look.uuid, {}),
            )
        return checks

    def _look_back(self, look: CardLook) -> CardLook:
        """Add what only several looks show, and what only dcgm-exporter tells."""
        if look.ecc_uncorrected is None and self._dcgm is not None:
            look = replace(look, ecc_uncorrected=self._dcgm.read_newest().ecc.get(look.uuid))
        hot = look.temperature_c is not None and look.temperature_c >= HOT_C
        self._hot[look.uuid] = self._hot[look.uuid] + 1 if hot else 0
        replays, recoveries = look.link_errors or (None, None)
        fresh = self._lately.add((look.uuid, "replays"), replays), self._lately.add((look.uuid, "trained"), recoveries)
        return replace(look, hot_looks=self._hot[look.uuid], link_errors_new=fresh)
