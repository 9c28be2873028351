"""Share a card's compute between slices: by NVIDIA's MPS if allowed and tested, else in turns."""

import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agent.gpu.mps_daemon import CONTROL, Busy, Daemon, NoMps, build_client_env
from runtimes.contract.node import GpuView
from runtimes.contract.task import GpuShare
from runtimes.gpu_sharing import SLICE
from runtimes.local.config import NodeConfig
from runtimes.local.node.isolation_probe import Isolation
from runtimes.local.taskdir import list_live_records

log = logging.getLogger("tessera.mps")

MPS, TURNS = "mps", "turns"
CHECK_EVERY_S, AGAIN_AFTER_S = 15.0, 600.0
"""Between two checks of a daemon, and after a failed test (the card may only have been full)."""


@dataclass
class ComputeSharing:
    """Decides between MPS and turns, for each card. test: runs a program through the daemon, or raises OSError."""

    config: NodeConfig
    isolation: Callable[[], Isolation]
    test: Callable[[str, dict, Daemon], None]
    _found: dict[str, tuple[str, float]] = field(default_factory=dict)  # by uuid: hindrance, time
    _tried: dict[str, tuple[str, float]] = field(default_factory=dict)  # by driver: failure, time

    def of_task(self, shares: Sequence[GpuShare], cards: Mapping[str, GpuView], driver: str) -> dict | None:
        """Return the plan's "mps" for a task with one slice, None for turns. A daemon serves one card."""
        if len(shares) != 1 or shares[0].whole or cards[shares[0].uuid].mode != SLICE:
            return None
        (share,) = shares
        return None if self.hindrance(share.uuid, driver) else self._plan(share)

    def facts(self, cards: Mapping[str, GpuView], driver: str) -> dict[str, str]:
        """Return public node facts, {} without a card in mode `slice`; no task names."""
        found = {card: self.hindrance(card.uuid, driver) for card in cards.values() if card.mode == SLICE}
        if not found:
            return {}
        works = not all(found.values())
        hindered = {card: why for card, why in found.items() if why}
        same = len(set(found.values())) == 1
        words = [why if same else f"GPU {card.index}: {why}" for card, why in hindered.items()]
        return {"compute": MPS if works else TURNS, "compute_words": " ".join(dict.fromkeys(words))}

    def hindrance(self, uuid: str, driver: str) -> str:
        """Return why a card has no MPS, or ""."""
        known, at = self._found.get(uuid, ("", 0.0))
        if at and time.monotonic() - at < CHECK_EVERY_S:
            return known
        why = self._find_hindrance(uuid, driver)
        self._found[uuid] = why, time.monotonic()
        return why

    def _find_hindrance(self, uuid: str, driver: str) -> str:
        program = shutil.which(CONTROL)
        daemon = Daemon(uuid, self.config.run_dir / "mps" / uuid, self.isolation().separate_uids, program or "")
        if not self.config.mps:
            return self._leave(daemon)
        if program is None:
            return f"There is no {CONTROL} on this machine."
        failed, at = self._tried.get(driver, ("", 0.0))
        if failed and time.monotonic() - at < AGAIN_AFTER_S:
            return failed
        try:
            daemon.ensure(self._list_mps_tasks(uuid))
        except Busy as busy:
            if uuid not in self._found or not self._found[uuid][0]:
                log.warning("%s: %s", uuid, busy)
            return f"MPS {busy.why}. It is started anew when the tasks on it have ended; others take turns until then."
        except (NoMps, OSError) as error:
            return str(error)
        return self._try(uuid, driver, daemon)

    def _leave(self, daemon: Daemon) -> str:
        """End a daemon left from before."""
        if daemon.folder.exists():
            with suppress(NoMps, OSError):
                daemon.end(self._list_mps_tasks(daemon.uuid))
        return "MPS is not allowed on this machine."

    def _try(self, uuid: str, driver: str, daemon: Daemon) -> str:
        if self._tried.get(driver, ("not yet", 0.0))[0]:
            try:
                self.test(uuid, self._plan(GpuShare(uuid, 0, 0, 100, whole=False)), daemon)
                self._tried = {driver: ("", time.monotonic())}
            except OSError as error:
                self._tried = {driver: (f"MPS was tried: {error}", time.monotonic())}
                with suppress(NoMps, OSError):
                    daemon.end(self._list_mps_tasks(uuid))
        return self._tried[driver][0]

    def _list_mps_tasks(self, uuid: str) -> list[str]:
        """List the labels of running tasks with MPS on a card."""
        given = (
            record["spec"]
            for record in list_live_records(self.config.tasks_dir)
            if (record["plan"].get("mps") or {}).get("uuid") == uuid
        )
        return sorted(spec["label"] or spec["uuid"] for spec in given)

    def _plan(self, share: GpuShare) -> dict:
        pipe = str(self.config.run_dir / "mps" / share.uuid / "pipe")
        seen_at = str(self.config.run_dir / "mps") if self.isolation().namespaces else pipe
        return {
            "uuid": share.uuid,
            "pipe": pipe,
            "seen_at": seen_at,
            "limit_mib": share.memory_mib,
            "env": build_client_env(seen_at, share.memory_mib, share.compute_percent),
        }
