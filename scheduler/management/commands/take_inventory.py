"""Store this machine's nodes and cards, and print them."""

from typing import Any

from django.core.management.base import BaseCommand

from cluster.models import Gpu
from scheduler.inventory.nodes import record_inventory
from scheduler.runtime import get_runtime


class Command(BaseCommand):
    help = "Take the inventory of the runtime's nodes."

    def handle(self, *args: Any, **options: Any) -> None:
        for node in record_inventory(get_runtime().list_nodes()):
            cards = list(Gpu.objects.present().filter(node=node).order_by("index"))
            simulated = " (simulated)" if any(card.simulated for card in cards) else ""
            models = ", ".join(f"{card.model} in {card.pool.name}" for card in cards) or "no GPU"
            cores, memory = node.cpu_milli // 1000, node.memory_mib // 1024
            self.stdout.write(f"{node.name}: {cores} cores, {memory} GiB, {models}{simulated}")
