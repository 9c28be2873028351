"""A job that names no pool waits in all that suit, and starts in the first with room: what each answer says of it."""

import time

import pytest

from cluster.models import HighPriority, Pool
from jobs.control import retry_job
from jobs.models import Job
from quotas.models import Quota
from tests import make
from tests.one_cycle import decide, perform

pytestmark = pytest.mark.django_db


def cycle() -> int:
    return perform(decide(time.time()))


@pytest.fixture
def full(cast):
    """eve has both cards; ada's job of one card waits in train, where she prefers it, and in dev."""
    cast.taken = {pool: make.job(cast.eve, gpu="1", pool=pool, time="1h") for pool in ("train", "dev")}
    for job in cast.taken.values():
        make.start(job)
    return cast


def free(job: Job) -> None:
    make.end(job)


def submit(ada, **spec) -> dict:
    answer = ada.post("jobs", {"run": "true", "gpu": "1", **spec})
    assert answer.status_code == 201, answer.json()
    return answer.json()


def test_whether_it_may_be_stopped_is_told_of_the_pool_where_it_is(ada, cast):
    Pool.objects.filter(name="train").update(batch_is_preemptible=True)
    make.start(make.job(cast.eve, gpu="1", pool="train", time="1h"))
    job = submit(ada)
    assert (job["pools"], job["preemptible"], job["spec"]["preemptible"]) == (["train", "dev"], True, None)
    assert cycle() == 1
    ran = ada.get(f"jobs/{job['id']}").json()
    assert (ran["pool"], ran["preemptible"], ran["spec"]["preemptible"]) == ("dev", False, None)


def test_beside_a_full_pool_it_starts_in_the_next_one_in_the_next_cycle(ada, cast):
    make.start(make.job(cast.eve, gpu="1", pool="train"))
    job = submit(ada)
    assert (job["pool"], job["pools"]) == ("train", ["train", "dev"])
    assert "pool" not in job["spec"] or job["spec"]["pool"] is None
    assert cycle() == 1
    job = ada.get(f"jobs/{job['id']}").json()
    assert (job["state"], job["pool"], job["pools"]) == ("starting", "dev", ["dev"])


def test_it_starts_when_one_of_them_gets_free(ada, full):
    job = submit(ada)
    assert cycle() == 0
    free(full.taken["dev"])
    assert cycle() == 1
    assert ada.get(f"jobs/{job['id']}").json()["pool"] == "dev"


def test_what_is_told_while_it_waits_is_of_one_pool_and_names_the_others(ada, full):
    job = submit(ada)
    cycle()
    wait = ada.get(f"jobs/{job['id']}/wait").json()
    assert wait["places"] == [{"pool": pool, "position": 1, "of": 1} for pool in (wait["pool"], other(wait["pool"]))]
    assert wait["reasons"][0]["text"].startswith(f"in pool {wait['pool']}: ")
    assert ada.get(f"jobs/{job['id']}").json()["pool"] == wait["pool"]


def other(pool: str) -> str:
    return {"train": "dev", "dev": "train"}[pool]


def test_the_queue_has_it_once_and_in_each_pools_queue(ada, full):
    job = submit(ada)
    cycle()
    (row,) = ada.get("queue").json()["waiting"]
    assert row["job"] == job["id"] and row["pools"] == ["train", "dev"]
    for pool in ("train", "dev"):
        (row,) = ada.get(f"queue?pool={pool}").json()["waiting"]
        assert (row["pool"], row["position"], row["of"]) == (pool, 1, 1)
        assert len(ada.get(f"queue?pool={pool}").json()["active"]) == 1
    assert {pool["pool"]: pool["waiting"] for pool in ada.get("capacity").json()["results"]} == {"train": 1, "dev": 1}


def test_another_pool_is_no_lever_where_it_waits_in_all(ada, full):
    job = submit(ada)
    cycle()
    assert [one for one in ada.get(f"jobs/{job['id']}/levers").json()["levers"] if one["field"] == "pool"] == []
    plan = ada.post("jobs:plan", {"run": "true", "gpu": "1"}).json()
    assert plan["outcome"] == "waits" and sorted(plan["pools"]) == ["dev", "train"]
    assert f"in {plan['pool']} (also in {other(plan['pool'])})" in plan["text"]
    assert [one for one in plan["levers"] if one["field"] == "pool"] == []


def test_a_plan_says_the_pool_where_it_starts(ada, cast):
    make.start(make.job(cast.eve, gpu="1", pool="train"))
    plan = ada.post("jobs:plan", {"run": "true", "gpu": "1"}).json()
    assert (plan["outcome"], plan["pool"], plan["text"]) == ("starts", "dev", "Starts now, likely on n1 (GPU 0)")


def test_it_is_put_in_one_pool_and_back_in_all(ada, full):
    job = submit(ada)
    cycle()
    changed = ada.patch(f"jobs/{job['id']}", {"pool": "dev"}).json()
    assert (changed["pool"], changed["pools"], changed["spec"]["pool"]) == ("dev", ["dev"], "dev")
    cycle()
    assert ada.get(f"jobs/{job['id']}/wait").json()["places"] == []
    changed = ada.patch(f"jobs/{job['id']}", {"pool": None}).json()
    assert changed["pools"] == ["train", "dev"]


def test_it_waits_only_where_it_could_run(ada, cast):
    assert submit(ada, gpu="1/4")["pools"] == ["dev"]  # train is not shared
    assert submit(ada, gpu=0)["pools"] == ["dev"]  # where the machine is at home


def test_a_pool_whose_quota_is_gone_is_told_no_more(ada, full):
    job = submit(ada)
    Quota.objects.filter(team=full.nlp, pool=full.train).delete()
    cycle()
    told = ada.get(f"jobs/{job['id']}").json()
    assert (told["pool"], told["pools"]) == ("dev", ["dev"])
    (row,) = ada.get("queue").json()["waiting"]
    assert row["pool"] == "dev" and ada.get("queue?pool=train").json()["waiting"] == []


def test_what_is_tried_again_waits_in_all_again(ada, cast):
    job = submit(ada)
    cycle()
    row = Job.objects.get(pk=job["id"].removeprefix("job-"))
    make.end(row)
    make.start(make.job(cast.eve, gpu="1", pool="train"))
    retry_job(actor=cast.ada, job=Job.objects.get(pk=row.pk))
    assert ada.get(f"jobs/{job['id']}").json()["pools"] == ["train", "dev"]
    assert cycle() == 1 and Job.objects.get(pk=row.pk).pool == cast.dev


def test_hours_of_a_budget_are_kept_in_one_pool_only(ada, full):
    full.train.high_priority, full.train.high_gpu_hours = HighPriority.BUDGET, 1000
    full.train.save()
    assert submit(ada, priority="high", time="1h")["pools"] == ["train"]
    assert submit(ada)["pools"] == ["train", "dev"]
    full.train.high_priority, full.dev.high_priority, full.dev.high_gpu_hours = (
        HighPriority.FREE,
        HighPriority.BUDGET,
        9,
    )
    full.train.save(), full.dev.save()
    assert submit(ada, priority="high", time="1h")["pools"] == ["train"]


def test_its_history_names_all_where_it_waits(ada, full):
    job = submit(ada)
    first = ada.get(f"jobs/{job['id']}/events").json()["results"][-1]
    assert first["verb"] == "submitted" and first["params"] == {"pool": "train", "pools": ["train", "dev"]}
