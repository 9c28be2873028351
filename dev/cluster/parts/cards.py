"""Simulated cards on the real node, as an annotation and a node capacity; nothing computes there.

A device plugin with real cards replaces them.
"""

import http.client
import json
from contextlib import closing

from dev.cluster.parts.api import MERGE_PATCH, Api
from dev.cluster.paths import NODE_NAME, ClusterPaths, Refusal

INVENTORY = "tessera.sh/inventory"
COUNT, MEMORY_MIB, RESERVED_MIB, UNIT_MIB = 2, 32768, 258, 256  # Tesla V100-SXM2-32GB by NVML


def add_simulated_cards(paths: ClusterPaths) -> None:
    """Advertise simulated cards unless the node has others. Raise Refusal."""
    path = f"/api/v1/nodes/{NODE_NAME}"
    with closing(Api(paths)) as api:
        node = api.ask("GET", path)[1]
        served = any(int(node["status"]["allocatable"].get(name, "0")) for name in units())
        if node["metadata"].get("annotations", {}).get(INVENTORY, build_inventory()) != build_inventory() or served:
            return
        for where, body in (
            (path, {"metadata": {"annotations": {INVENTORY: build_inventory()}}}),
            (f"{path}/status", {"status": {"capacity": units(), "allocatable": units()}}),
        ):
            status, answer = api.ask("PATCH", where, body, content=MERGE_PATCH)
            if status != http.client.OK:
                raise Refusal(f"The API server refused simulated cards for {NODE_NAME}: {json.dumps(answer)}")


def units() -> dict[str, str]:
    """Return the node's capacity in device plugin units, rounded down."""
    return {f"tessera.sh/g-{index}": str((MEMORY_MIB - RESERVED_MIB) // UNIT_MIB) for index in range(COUNT)}


def build_inventory() -> str:
    cards = [
        {
            "uuid": f"GPU-{NODE_NAME}-{index}",
            "index": index,
            "model": "V100-32GB",
            "product": "Tesla V100-SXM2-32GB",
            "memory_mib": MEMORY_MIB,
            "reserved_mib": RESERVED_MIB,
            "numa": None,
            "bus": "",
            "evidence": "bin/cluster simulates this card.",
        }
        for index in range(COUNT)
    ]
    links = [["X" if row == column else "PHB" for column in range(COUNT)] for row in range(COUNT)]
    return json.dumps({"gpus": cards, "links": links})
