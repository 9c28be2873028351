"""What the kubelet may give of this machine: each card in units of memory, and its RDMA adapters together."""

from dataclasses import dataclass, replace

from agent.gpu.cards import Card
from agent.kubelet.cdi import KIND, RDMA, list_device_names
from agent.kubelet.units import DOMAIN, list_unit_ids, resource_name
from agent.rdma import Hca

RDMA_RESOURCE = f"{DOMAIN}/rdma"
RDMA_TASKS = 256
"""How many tasks of a machine may have its adapters at once, which they share: more than there will be."""
GONE = "The driver does not tell of this card any more."
NO_HCA = "No RDMA adapter here has a link."


@dataclass(frozen=True)
class CardOffer:
    """real: NVIDIA's toolkit knows the card."""

    card: Card
    real: bool

    @property
    def resource(self) -> str:
        return resource_name(self.card.index)

    @property
    def fault(self) -> str:
        return self.card.fault

    @property
    def numa(self) -> int | None:
        return self.card.numa

    def list_ids(self) -> list[str]:
        return list_unit_ids(self.card)

    def list_cdi_names(self, ids: list[str]) -> list[str]:
        """Return the card's, and the slice's unless it got all units."""
        whole = set(ids) == set(self.list_ids())
        return list_device_names(self.card, whole=whole, real=self.real)

    def gone(self) -> "CardOffer":
        return replace(self, card=replace(self.card, fault=GONE))


@dataclass(frozen=True)
class RdmaOffer:
    """All adapters: a library opens them all, and NCCL_IB_HCA chooses."""

    hcas: tuple[Hca, ...]
    numa = None
    resource = RDMA_RESOURCE

    @property
    def fault(self) -> str:
        return "" if any(hca.active and hca.devices for hca in self.hcas) else NO_HCA

    def list_ids(self) -> list[str]:
        return [f"rdma:{number}" for number in range(RDMA_TASKS)]

    def list_cdi_names(self, ids: list[str]) -> list[str]:
        return [f"{KIND}={RDMA}"]

    def gone(self) -> "RdmaOffer":
        return RdmaOffer(())
