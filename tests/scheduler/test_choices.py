"""A job that waits in several pools starts in one of them, by what is stored when it does."""

from dataclasses import replace

import pytest

from cluster.models import Pool
from jobs.jobfile.spec import from_json
from jobs.models import Job, Task
from jobs.submit import build_gang
from quotas.models import Holding, Quota
from scheduler.commit.explaining import explain_jobs
from scheduler.lease import lead
from tests import make
from tests.one_cycle import decide, perform

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cast():
    return make.cast()


def in_pools(job: Job, *pools: Pool) -> Job:
    """Let a job wait in these, with what it asks for in each; dev ends it after an hour."""
    spec = from_json(job.spec)
    job.choices = [
        {"pool": pool.pk, "name": pool.name, "gang": build_gang(spec, pool), "max_time_s": time_s}
        for pool, time_s in ((pool, 3600 if pool.name == "dev" else None) for pool in pools)
    ]
    job.pool, job.gang = pools[0], job.choices[0]["gang"]
    job.save(update_fields=["choices", "pool", "gang"])
    return job


def test_it_starts_in_the_pool_with_room_by_what_it_asks_for_there(cast):
    make.job(cast.eve, pool="train", gpu=1)
    perform(decide())  # train is full
    job = in_pools(make.job(cast.ada, pool="dev", gpu=1), cast.train, cast.dev)
    assert perform(decide()) == 1
    job.refresh_from_db()
    assert (job.state, job.pool, job.max_time_s) == ("STARTING", cast.dev, 3600)
    assert job.gang == job.choices[1]["gang"] and job.pool_names == ["dev"] == [job.told_pool_name]
    assert {row.pool_id for row in Holding.objects.live().filter(task=Task.objects.get(job=job).uuid)} == {cast.dev.pk}


def test_where_both_have_room_it_starts_in_the_first(cast):
    job = in_pools(make.job(cast.ada, pool="dev", gpu=1), cast.train, cast.dev)
    perform(decide())
    assert Job.objects.get(pk=job.pk).pool == cast.train


def test_where_a_pool_says_that_jobs_may_be_stopped_it_may_and_borrows_there_alone(cast):
    """What is left of both pools is guaranteed to vision; only train lets jobs borrow that do not say."""
    Quota.objects.filter(team=cast.vision).update(gpu_milli_guarantee=1000)
    Pool.objects.filter(pk=cast.train.pk).update(batch_is_preemptible=True)
    job, never = make.job(cast.ada, gpu=1), make.job(cast.bob, gpu=1, pool="dev", preemptible=False)
    assert job.pool_names == ["train", "dev"]
    assert perform(decide()) == 1
    job.refresh_from_db(), never.refresh_from_db()
    assert (job.state, job.pool, job.preemptible) == ("STARTING", cast.train, True)
    assert (never.state, [reason["code"] for reason in never.wait_reasons][:1]) == ("QUEUED", ["borrow_denied"])


def test_a_job_that_starts_where_it_may_not_be_stopped_is_not(cast):
    Pool.objects.filter(pk=cast.train.pk).update(batch_is_preemptible=True)
    make.job(cast.eve, pool="train", gpu=1)
    perform(decide())
    job = make.job(cast.ada, gpu=1)
    assert job.preemptible and perform(decide()) == 1
    job.refresh_from_db()
    assert (job.pool, job.preemptible) == (cast.dev, False)


def test_while_it_waits_it_is_told_where_it_stands_in_each(cast):
    make.job(cast.eve, pool="train", gpu=1), make.job(cast.eve, pool="dev", gpu=1)
    perform(decide())
    job = in_pools(make.job(cast.ada, pool="dev", gpu=1), cast.train, cast.dev)
    make.job(cast.bob, pool="dev", gpu=1)
    perform(decide())
    job.refresh_from_db()
    assert [place["pool"] for place in job.wait_places] == [cast.train.pk, cast.dev.pk]
    assert (job.wait_position, job.wait_of) == (1, 1)
    assert job.told_pool_name == "train" and job.pool_names == ["train", "dev"]
    assert {place["pool"]: place["of"] for place in job.wait_places} == {cast.train.pk: 1, cast.dev.pk: 2}
    assert len([one for one in job.wait_reasons if one["code"] != "no_fit_now"]) == 0


def test_a_choice_that_is_gone_when_it_is_to_start_starts_nothing(cast):
    job = in_pools(make.job(cast.ada, pool="dev", gpu=1), cast.train, cast.dev)
    steps = decide()
    job.choices = job.choices[1:]
    job.pool, job.gang = cast.dev, job.choices[0]["gang"]
    job.save(update_fields=["choices", "pool", "gang"])
    assert perform(steps) == 0 and not Holding.objects.exists()
    assert perform(decide()) == 1 and Job.objects.get(pk=job.pk).pool == cast.dev


def test_a_job_that_was_changed_meanwhile_starts_nowhere(cast):
    job = in_pools(make.job(cast.ada, pool="dev", gpu=1), cast.train, cast.dev)
    steps = decide()
    Job.objects.filter(pk=job.pk).update(revision=1)
    assert perform(steps) == 0


def test_a_pool_without_quota_or_that_is_gone_is_no_choice_any_more(cast):
    job = in_pools(make.job(cast.ada, pool="dev", gpu=1), cast.train, cast.dev)
    Quota.objects.filter(team=cast.nlp, pool=cast.train).delete()
    steps = decide()
    assert [step.pool_id for step in steps] == [cast.dev.pk]
    gone = make.pool("gone")
    job.choices = [{**job.choices[0], "pool": gone.pk, "name": "gone"}, *job.choices]
    job.save(update_fields=["choices"])
    gone.delete()
    assert [step.pool_id for step in decide()] == [cast.dev.pk]
    Quota.objects.filter(team=cast.nlp).delete()
    (explained,) = decide()
    assert [why.reason for why in explained.refusals[job.pk]] != [] and explained.places == {}


def test_a_quota_that_was_deleted_after_the_cycle_looked_starts_nothing(cast):
    in_pools(make.job(cast.ada, pool="dev", gpu=1), cast.train, cast.dev)
    steps = decide()
    Quota.objects.filter(team=cast.nlp, pool=cast.train).delete()
    assert perform(steps) == 0


def test_another_pool_that_is_told_of_is_written_at_once(cast):
    job = in_pools(make.job(cast.ada, pool="dev", gpu=1, hold=True), cast.train, cast.dev)
    perform(decide())
    job.refresh_from_db()
    first, second = job.wait_places
    (step,) = decide()
    flipped = replace(step, places={job.pk: step.places[job.pk][::-1]})
    with lead("cycle") as epoch:
        explain_jobs(flipped, epoch)
    assert Job.objects.get(pk=job.pk).wait_places == [second, first]
