"""Translate a Kubernetes Node into a NodeView. Pure.

Cards found here are simulated; real ones come only from agents' approved reports.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from runtimes.contract.node import IMAGE, GpuView, HeldView, NodeView, NumaView
from runtimes.gpu_sharing import SIMULATED
from runtimes.images.names import make_image_key
from runtimes.kubernetes.pods import names

Thing = Mapping[str, Any]

MIB = 1 << 20


def build_node_view(
    node: Thing, foreign: tuple[int, int] = (0, 0), tolerated: Sequence[str] = (), switch_labels: Sequence[str] = ()
) -> NodeView:
    """Build the view. foreign: (millicores, MiB) requested by foreign pods. switch_labels: the first that it has tells
    its network switch.
    """
    name, allocatable = node["metadata"]["name"], node["status"].get("allocatable", {})
    inventory = _read_inventory_annotation(node)
    gpus = _read_cards(inventory, name, allocatable)
    return NodeView(
        name=name,
        address=_read_address(node),
        boot_id=node["status"].get("nodeInfo", {}).get("bootID", ""),
        cpu_milli=max(round(parse_quantity(allocatable.get("cpu", "0")) * 1000) - foreign[0], 0),
        memory_mib=max(int(parse_quantity(allocatable.get("memory", "0"))) // MIB - foreign[1], 0),
        numa=tuple(_numa(each) for each in inventory.get("numa", ())),
        gpus=gpus,
        links=_read_links(inventory.get("links"), len(gpus)),
        ready=is_ready(node) and not node["spec"].get("unschedulable") and not _repels(node, tolerated),
        facts=_read_system_info(node) | _read_switch(node, switch_labels),
        pcie=tuple(tuple(row) for row in inventory.get("pcie", ())),
        held=_list_images(node),
    )


def _read_switch(node: Thing, labels: Sequence[str]) -> dict[str, str]:
    said = node["metadata"].get("labels") or {}
    return next(({"switch": said[label]} for label in labels if said.get(label)), {})


def is_ready(node: Thing) -> bool:
    return _read_readiness(node) == "True"


def is_silent(node: Thing) -> bool:
    """Return whether its kubelet is silent, so its pods' state is unknown."""
    return _read_readiness(node) == "Unknown"


def sum_foreign_requests(pods: Iterable[Thing]) -> dict[str, tuple[int, int]]:
    """Return {node: (millicores, MiB)} requested by these pods as kube-scheduler counts them; ended pods count 0."""
    asked: dict[str, tuple[int, int]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            cpu, memory = asked.get(node, (0, 0))
            more = _sum_requests(pod["spec"])
            asked[node] = (cpu + more[0], memory + more[1])
    return asked


def _sum_requests(spec: Thing) -> tuple[int, int]:
    first = list(spec.get("initContainers", ()))
    sidecars = [each for each in first if each.get("restartPolicy") == "Always"]
    beside = [_read_requests(each) for each in (*spec.get("containers", ()), *sidecars)]
    before = [_read_requests(each) for each in first if each not in sidecars]
    cpu, memory = (max(sum(each[i] for each in beside), *(each[i] for each in before), 0) for i in (0, 1))
    more_cpu, more_memory = _read_amounts(spec.get("overhead") or {})
    return cpu + more_cpu, memory + more_memory


def _read_requests(container: Thing) -> tuple[int, int]:
    return _read_amounts(container.get("resources", {}).get("requests") or {})


def _read_amounts(asked: Mapping[str, str]) -> tuple[int, int]:
    return round(parse_quantity(asked.get("cpu", "0")) * 1000), -(-int(parse_quantity(asked.get("memory", "0"))) // MIB)


def _read_inventory_annotation(node: Thing) -> dict[str, Any]:
    try:
        found = json.loads(node["metadata"].get("annotations", {}).get(names.ANNOTATION_INVENTORY, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_cards(inventory: Mapping[str, Any], node: str, allocatable: Mapping[str, str]) -> tuple[GpuView, ...]:
    if "gpus" in inventory:
        told = sorted(inventory["gpus"], key=lambda card: card["index"])
        return tuple(GpuView(**card | {"simulated": True, "mode": SIMULATED}) for card in told)
    units = {
        int(name.removeprefix(names.CARD_PREFIX)): int(count)
        for name, count in allocatable.items()
        if name.startswith(names.CARD_PREFIX) and name.removeprefix(names.CARD_PREFIX).isdecimal() and int(count)
    }
    words = "The node serves this card and tells nothing of it."
    return tuple(
        GpuView(
            uuid=f"GPU-{node}-{index}",
            index=index,
            model=f"GPU-{units[index] * names.CARD_UNIT_MIB * MIB // 10**9}GB",
            product="",
            memory_mib=units[index] * names.CARD_UNIT_MIB,
            reserved_mib=0,
            numa=None,
            bus="",
            simulated=True,
            mode=SIMULATED,
            evidence=words,
        )
        for index in sorted(units)
    )


def _list_images(node: Thing) -> tuple[HeldView, ...]:
    """List cached images by digest and tags: the kubelet reports its 50 largest."""
    told = node["status"].get("images") or ()
    return tuple(
        HeldView(IMAGE, make_image_key(name), image.get("sizeBytes", 0))
        for image in told
        for name in image.get("names") or ()
    )


def _numa(told: Thing) -> NumaView:
    return NumaView(told["id"], tuple(told["cpus"]), told["memory_mib"], told.get("socket"))


def _read_links(rows: list[list[str]] | None, size: int) -> tuple[tuple[str, ...], ...]:
    if rows:
        return tuple(tuple(row) for row in rows)
    return tuple(tuple("X" if i == j else "SYS" for j in range(size)) for i in range(size))


def _read_address(node: Thing) -> str:
    found = {each["type"]: each["address"] for each in node["status"].get("addresses", ())}
    return found.get("InternalIP") or found.get("Hostname", "")


def _read_readiness(node: Thing) -> str:
    conditions = node["status"].get("conditions", ())
    return next((each["status"] for each in conditions if each["type"] == "Ready"), "Unknown")


def _repels(node: Thing, tolerated: Sequence[str]) -> bool:
    """Return whether a taint repels our pods; node conditions are judged elsewhere."""
    known = {f"{names.DOMAIN}/managed", *tolerated}
    taints = {taint["key"] for taint in node["spec"].get("taints", ()) if taint["effect"] != "PreferNoSchedule"}
    return any(not key.startswith("node.kubernetes.io/") for key in taints - known)


NO_MPS = (
    "Containers get no MPS here: the programs of all teams on a card would share one daemon and one /dev/shm, and end "
    "with the daemon."
)


def _read_system_info(node: Thing) -> dict[str, str]:
    info = node["status"].get("nodeInfo", {})
    told = {
        "kernel": info.get("kernelVersion", ""),
        "system": info.get("osImage", ""),
        "kubelet": info.get("kubeletVersion", ""),
        "engine": info.get("containerRuntimeVersion", ""),
        "logs": "agent",  # delivers tasks' output
        "compute": "turns",
        "compute_words": NO_MPS,
    }
    return {name: words for name, words in told.items() if words}
