"""What is refused at submit, and the nearest that could run."""

from dataclasses import replace

import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Policy, Role
from scheduler.core.placement.feasibility_when_empty import check_feasibility
from tests.worlds import build_ask, wants, world

CLUSTER = """
n1: V100-32GBx2 cores 16 memory 64000 | bob holds 2
n2: closed T4x4 cores 8 memory 32000
n3 train: A100x8
"""


def nearest(snapshot):
    return [
        (refusal.reason, *(refusal.params[key] for key in ("field", "asked", "largest")))
        for refusal in check_feasibility(snapshot, snapshot.waiting[0])
    ]


@pytest.mark.parametrize(
    "wish",
    [
        wants("ada", "2"),
        wants("ada", "1/4", gang=8),
        wants("ada", "T4:4", cores=8),
        wants("ada", "1", gang=6),
        wants("ada", "8", pool="train"),
        wants("ada", "cpu", cores=16, memory_mib=64000),
    ],
    ids=str,
)
def test_what_fits_on_an_empty_cluster_is_accepted_however_full_it_is(wish):
    assert nearest(world(CLUSTER, wish)) == []


@pytest.mark.parametrize(
    ("wish", "field", "asked", "largest"),
    [
        (wants("ada", "5"), "gpus", 5, 4),
        (wants("ada", "V100-32GB:3"), "gpus", 3, 2),
        (wants("ada", "H100:1"), "gpu_model", [], ["V100-32GB", "T4"]),
        (wants("ada", "A100:1"), "gpu_model", ["A100"], ["V100-32GB", "T4"]),
        (wants("ada", "40GB"), "gpu_memory_mib", 38147, 32510),
        (wants("ada", "1/2", pool="train"), "gpu_sharing", 500, 1000),
        (wants("ada", "T4:1", cores=9), "cpu_milli", 9000, 8000),
        (wants("ada", "1", memory_mib=64001), "memory_mib", 64001, 64000),
        (wants("ada", "cpu", cores=17), "cpu_milli", 17000, 16000),
        (wants("ada", "1", gang=7), "tasks", 7, 6),
    ],
    ids=str,
)
def test_what_could_never_run_names_the_field_and_the_nearest(wish, field, asked, largest):
    assert nearest(world(CLUSTER, wish)) == [("impossible", field, asked, largest)]


def test_an_ask_beyond_the_team_limit_is_refused_whatever_is_held():
    limit = {("ada", "dev"): {"gpu_milli": 1000}}
    assert nearest(world(CLUSTER, wants("ada", "1"), limit=limit)) == []
    assert nearest(world(CLUSTER, wants("ada", "2"), limit=limit)) == [("team_limit", "gpu_milli", 2000, 1000)]


def test_an_ask_beyond_the_user_limit_is_refused():
    snapshot = world(CLUSTER, wants("ada", "1", cores=4), user_limit={"ada": {"cpu_milli": 2000}})
    assert nearest(snapshot) == [("user_limit", "cpu_milli", 4000, 2000)]


def test_a_user_who_may_run_no_job_is_told_so():
    assert nearest(world(CLUSTER, wants("ada", "1"), jobs_limit={"ada": 0})) == [("rate_policy", "jobs", 1, 0)]


def test_a_pool_without_cards_has_none_to_give():
    assert nearest(world("c1: cpu", wants("ada", "1"))) == [("impossible", "gpus", 1, 0)]


def test_beside_tasks_with_cards_work_without_may_go_where_the_cards_are():
    snapshot = world("n1: A100x2\nn2 train: A100x2", wants("ada", "1", pool="train"))
    snapshot.node_pool[:] = 0  # train has cards and is no machine's home
    job = snapshot.waiting[0]
    alone = Role("head", 1, 1, build_ask(("A100",), "cpu"))
    beside = replace(alone, ask=replace(alone.ask, beside_cards=True))
    assert check_feasibility(snapshot, replace(job, gang=(alone, *job.gang)))[0].params["role"] == "head"
    started = replace(job, gang=(beside, *job.gang))
    assert check_feasibility(snapshot, started) == []
    snapshot = replace(snapshot, waiting=(started,))
    (start,) = run_cycle(snapshot, Policy(), 0.0).starts
    assert [(task.role, snapshot.node_name(task.node)) for task in start.tasks] == [("head", "n2"), ("worker", "n2")]
