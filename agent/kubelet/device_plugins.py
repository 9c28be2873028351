"""All device plugins of a machine; re-registers them after a kubelet restart, which removes all sockets."""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import grpc

from agent.gpu.cards import Card, Cards
from agent.kubelet.cdi import NOTHING, Keeper, read_vendor, write_spec
from agent.kubelet.device_plugin import KUBELET, DevicePlugin, Offer
from agent.kubelet.offers import CardOffer, RdmaOffer
from agent.kubelet.units import CardIndexMap
from agent.periodic_thread import PeriodicThread
from agent.rdma import Hca

log = logging.getLogger("tessera.agent")

LOOK_S = 1.0
NOT_KNOWN = "The platform does not know yet that this card is in this place."
NO_TOOLKIT = (
    "NVIDIA's container toolkit has no CDI spec here, so no container could use the card. Run: "
    "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
)
CUT_SINCE = (
    "The CDI spec of NVIDIA's container toolkit here is older than this instance. Run: "
    "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
)


class DevicePlugins(PeriodicThread):
    """Serves all cards to the kubelet. cdi: folder of our spec; vendor: of NVIDIA's. simulated: needs no toolkit."""

    def __init__(
        self,
        folder: Path,
        cdi: Path,
        places: Path,
        *,
        vendor: Iterable[Path] = (),
        keeper: Callable[[Cards], Keeper] = lambda seen: NOTHING,
        simulated: bool = False,
    ):
        super().__init__("kubelet", LOOK_S)
        self.folder, self.cdi, self.vendor = folder, cdi, [cdi, *vendor]
        self.keeper, self.simulated = keeper, simulated
        self.places = CardIndexMap(places)
        self.plugins: dict[str, DevicePlugin] = {}
        """By resource."""
        self._described: set[str] = set()  # uuids in our spec
        self._keeper, self._hcas = NOTHING, tuple[Hca, ...]()  # as in our spec
        self._lock = threading.Lock()
        self._kubelet: tuple[int, int] | None = None  # the socket we registered with

    def stop(self, patience_s: float | None = None) -> None:
        super().stop(patience_s)
        for plugin in self.plugins.values():
            plugin.stop()
            plugin.socket.unlink(missing_ok=True)

    def run_once(self) -> float:
        with self._lock:
            self._register_where_needed()
        return LOOK_S

    def update(self, seen: Cards) -> Cards:
        """Update plugins from a reading; return it with local hindrances as faults. Missing cards become unhealthy."""
        keeper = self.keeper(seen)
        vendor = "" if self.simulated else read_vendor(self.vendor)
        judged = replace(seen, cards=tuple(self._judged(card, vendor) for card in seen.cards))
        with self._lock:
            cards = [self._placed(card) for card in judged.offered().cards]
            now = keeper, tuple(replace(hca, near=()) for hca in seen.hcas)
            if {card.uuid for card in cards} - self._described or now != (self._keeper, self._hcas):
                self._describe(cards, *now)
            rdma = [RdmaOffer(now[1])] if now[1] else []
            self._offer([*(CardOffer(card, real=not self.simulated) for card in cards), *rdma])
        return judged

    def acknowledge(self, seen: Cards) -> None:
        """Record that the platform acknowledged these cards."""
        self.places.record(seen.cards)
        self.update(seen)

    def _judged(self, card: Card, vendor: str) -> Card:
        """vendor: NVIDIA's specs."""
        if self.simulated or card.fault:
            return card
        stale = bool(card.part_of) and card.uuid not in vendor  # cut later
        return replace(card, fault=NO_TOOLKIT if not vendor else CUT_SINCE if stale else "")

    def _placed(self, card: Card) -> Card:
        return card if self.places.knows(card) else replace(card, fault=card.fault or NOT_KNOWN)

    def _offer(self, offers: Iterable[Offer]) -> None:
        """Offer these alone: of what was offered before, nothing is given any more."""
        named = {offer.resource: offer for offer in offers}
        for resource in sorted(named.keys() - self.plugins.keys()):
            self.plugins[resource] = DevicePlugin(self.folder, named[resource])
            self._kubelet = None  # registers all again
        for resource, plugin in self.plugins.items():
            plugin.update(named.get(resource) or plugin.offer.gone())

    def _describe(self, cards: Iterable[Card], keeper: Keeper, hcas: tuple[Hca, ...]) -> None:
        write_spec(self.cdi, cards, keeper, hcas, simulated=self.simulated)
        self._described, self._keeper, self._hcas = {card.uuid for card in cards}, keeper, hcas

    def _register_where_needed(self) -> None:
        now = self._find_kubelet()
        if now is None or (now == self._kubelet and all(plugin.socket.exists() for plugin in self.plugins.values())):
            return
        try:
            for plugin in self.plugins.values():
                plugin.serve()
        except (OSError, grpc.RpcError) as error:
            log.warning("the kubelet does not take the cards yet: %s", _describe_error(error))
            return
        self._kubelet = now

    def _find_kubelet(self) -> tuple[int, int] | None:
        try:
            told = os.stat(self.folder / KUBELET)
        except OSError:
            return None
        return told.st_ino, told.st_ctime_ns


def _describe_error(error: Exception) -> str:
    return str(error.details()) if isinstance(error, grpc.Call) else str(error)
