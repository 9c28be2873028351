"""What a node and the pods of others mean for what we may promise there."""

import json
from dataclasses import asdict, replace
from decimal import Decimal

import pytest

from runtimes.gpu_sharing import SIMULATED
from runtimes.kubernetes.cluster.nodes import build_node_view, is_silent, sum_foreign_requests
from runtimes.kubernetes.pods import names
from tests.runtimes.kubernetes.specs import CARDS


def node(ready="True", *, allocatable=(), notes=(), **spec):
    return {
        "metadata": {"name": "n1", "annotations": dict(notes)},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "15500m", "memory": "64Gi", **dict(allocatable)},
            "conditions": [{"type": "Ready", "status": ready}],
            "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"bootID": "b-1", "kernelVersion": "6.1", "kubeletVersion": "v1.34.4"},
        },
    }


def pod(*containers, phase="Running", node="n1", before=(), **spec):
    def box(cpu, memory, **more):
        return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}

    boxes = {"containers": [box(*each) for each in containers], "initContainers": [box(*each) for each in before]}
    return {"spec": {"nodeName": node, **boxes, **spec}, "status": {"phase": phase}}


def test_a_node_is_what_others_leave_of_it():
    view = build_node_view(node(), (500, 1024))
    assert (view.cpu_milli, view.memory_mib, view.address, view.boot_id) == (15000, 63 * 1024, "10.0.0.1", "b-1")
    assert view.ready and view.facts["kubelet"] == "v1.34.4"
    assert view.facts["compute"] == "turns" and "no MPS" in view.facts["compute_words"]


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_not_ready_takes_nothing(ready):
    assert not build_node_view(node(ready)).ready and is_silent(node(ready)) is (ready == "Unknown")


def test_a_cordon_and_a_taint_that_we_do_not_tolerate_keep_us_away():
    tainted = node(taints=[{"key": "maintenance", "effect": "NoSchedule"}])
    assert not build_node_view(node(unschedulable=True)).ready and not build_node_view(tainted).ready
    assert build_node_view(tainted, tolerated=("maintenance",)).ready
    assert build_node_view(node(taints=[{"key": "tessera.sh/managed", "effect": "NoSchedule"}])).ready


def test_cards_are_what_the_inventory_says_and_never_real_by_the_nodes_own_word():
    told = {"gpus": [asdict(card) for card in CARDS.values()], "links": [["X", "NV12"], ["NV12", "X"]]}
    view = build_node_view(node(notes={names.ANNOTATION_INVENTORY: json.dumps(told)}))
    simulated = {"simulated": True, "mode": SIMULATED}
    assert view.gpus == tuple(replace(card, **simulated) for card in CARDS.values()) and view.links[0][1] == "NV12"


def test_a_node_that_tells_nothing_shows_the_cards_that_it_serves():
    view = build_node_view(node(allocatable={"tessera.sh/g-1": "320", "tessera.sh/g-0": "320", "tessera.sh/g-7": "0"}))
    assert [(gpu.uuid, gpu.memory_mib, gpu.simulated) for gpu in view.gpus] == [
        ("GPU-n1-0", 81920, True),
        ("GPU-n1-1", 81920, True),
    ]
    assert view.links == (("X", "SYS"), ("SYS", "X"))


def test_an_inventory_that_is_broken_shows_no_cards():
    assert build_node_view(node(notes={names.ANNOTATION_INVENTORY: "{"})).gpus == ()


def test_pods_of_others_ask_as_the_scheduler_counts():
    pods = [
        pod(("100m", "64Mi"), ("1", "1Gi")),
        pod(("100m", "64Mi"), before=(("2", "32Mi"),)),
        pod(("4", "4Gi"), phase="Succeeded"),
        pod(("4", "4Gi"), node=""),
        {"spec": {"nodeName": "n2", "containers": [{}]}, "status": {}},
    ]
    assert sum_foreign_requests(pods) == {"n1": (1100 + 2000, 1088 + 64), "n2": (0, 0)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", "1"), ("250m", "0.25"), ("1Gi", "1073741824"), ("1k", "1000"), ("1e3", "1000"), ("1.5", "1.5"), (8, "8")],
)
def test_amounts_are_read_as_kubernetes_writes_them(text, expected):
    assert sum_foreign_requests([pod((text, "0"))]) == {"n1": (Decimal(expected) * 1000, 0)}


def test_a_node_tells_which_images_it_holds():
    there = node()
    images = [{"names": ["busybox@sha256:0a", "busybox:1.36"], "sizeBytes": 4_000_000}, {"names": None}]
    there["status"]["images"] = images
    library = "image:docker.io/library/busybox"
    held = [(view.kind, view.key, view.bytes) for view in build_node_view(there).held]
    assert held == [("image", f"{library}@sha256:0a", 4_000_000), ("image", f"{library}:1.36", 4_000_000)]
