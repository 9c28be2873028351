"""A snapshot that is written and read again gives the same plan."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.cycle_dump import CycleDump, InvalidDump, decode_dump, encode_dump, encode_value
from scheduler.core.model.topology import build_link_layout
from scheduler.core.model.types import LendingWindow, MaintenanceWindow, Policy
from scheduler.core.placement.fragmentation import find_typical_requests
from scheduler.core.placement.scores import SCORES, spread_scores, weigh_scores
from tests.worlds import wants, world

KEPT = sorted((Path(__file__).parent / "snapshots").glob("*.json"))
POOLS = Policy(pools=(Policy(scores=spread_scores(weigh_scores(links=7)), reservations=1), Policy(ageing_s=60.0)))


def busy():
    """A bit of all: links, usual asks, windows, closings, a job to stop, jobs that start and that wait."""
    snapshot = world(
        "n1: A100x2 | bob holds 1 until 500\nn2 train: A100x1 | bob holds 1 preemptible low\nn3: closed V100-32GBx2",
        wants("ada", "1", gang=2, time_s=60),
        wants("ada", "4GB", memory_mib=2048),
        wants("bob", "1", pool="train", priority="high"),
        wants("bob", "A100:1", pool="train", time_s=50, held=True),
        wants("bob", "1", time_s=50),
        limit={("ada", "dev"): {"gpu_milli": 3000}},
    )
    layout = build_link_layout((("X", "NV2"), ("NV2", "X")))
    return replace(
        snapshot,
        layouts=(layout, None, layout),
        typical=find_typical_requests([(snapshot.waiting[1].gang[0].ask, 3)], (40960, 32510)),
        windows=(LendingWindow((0,), 1, 0.0, 900.0),),
        closings=(MaintenanceWindow((2,), 700.0, 800.0),),
    )


def written(snapshot, policy=POOLS, **words):
    """What stands in the file."""
    return json.loads(
        json.dumps(encode_dump(CycleDump(100.0, snapshot, policy, run_cycle(snapshot, policy, 100.0)), **words))
    )


def test_the_same_snapshot_gives_the_same_plan():
    then = decode_dump(written(busy(), names=True))
    plan = run_cycle(then.snapshot, then.policy, then.at)
    assert plan.starts and plan.evictions and plan.refusals and encode_value(plan) == encode_value(then.plan)
    assert encode_value(plan) == encode_value(run_cycle(busy(), POOLS, 100.0))


def test_all_that_a_snapshot_holds_comes_back():
    snapshot = decode_dump(written(busy(), names=True)).snapshot
    assert encode_value(snapshot) == encode_value(busy())
    assert snapshot.layouts[0] is snapshot.layouts[2] and snapshot.waiting == busy().waiting


def test_a_policy_names_its_scores():
    data = written(busy())
    assert data["policy"]["pools"][0]["scores"][0] == ["spread_nodes", 5000.0]
    assert decode_dump(data).policy == POOLS and decode_dump(written(busy(), Policy(scores=SCORES))).policy == Policy(
        scores=SCORES
    )


def test_without_names_nobody_is_told_whose_it_is():
    data = written(busy())
    assert data["snapshot"]["node_names"] == [] and "A100" in data["snapshot"]["kind_names"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data.update(form=0), "no dump of form 1"),
        (lambda data: data.pop("plan"), "plan is missing"),
        (lambda data: data["snapshot"].pop("gpu_node"), "snapshot.gpu_node is missing"),
        (lambda data: data["snapshot"]["waiting"][0].update(user="x"), r"snapshot.waiting\[0\].user: invalid literal"),
        (lambda data: data["policy"]["pools"][0].update(scores=[["rm", 1]]), "rm is none of"),
    ],
)
def test_a_file_that_is_no_dump_is_refused_with_the_place(change, says):
    data = written(busy())
    change(data)
    with pytest.raises(InvalidDump, match=says):
        decode_dump(data)


def test_a_file_of_an_older_form_is_read_without_the_fields_that_came_later():
    data = written(busy())
    del data["snapshot"]["windows"], data["snapshot"]["waiting"][0]["preemptible"]
    assert decode_dump(data).snapshot.windows == ()


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_snapshot_gives_the_plan_that_was_found_right(path):
    then = decode_dump(json.loads(path.read_text()))
    assert encode_value(run_cycle(then.snapshot, then.policy, then.at)) == encode_value(then.plan)
