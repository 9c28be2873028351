"""High priority has a price: nothing, GPU hours of the team's weekly budget, or a lead's consent."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.models import F

from cluster.models import HighPriority, Pool
from common.errors import BudgetSpent, ConsentNeeded, NotPermitted
from common.locks import database_now
from jobs.changing import change_job
from jobs.control import retry_job
from jobs.jobfile.parse import parse_spec
from jobs.models import Job
from jobs.pricing.budget import begin_week, load_budget, sum_hours
from jobs.submit import submit_job
from quotas.models import Holding
from scheduler.preview.preview import check_possible
from tests import make

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def dear(cast):
    """High priority needs consent in both pools."""
    Pool.objects.update(high_priority=HighPriority.CONSENT)


@pytest.fixture
def budget(cast):
    """Ten GPU hours of high priority a week, for each team in each pool."""
    Pool.objects.update(high_priority=HighPriority.BUDGET, high_gpu_hours=10)


def submit(person, **spec) -> Job:
    parsed = parse_spec({"run": "true", "pool": "train", "gpu": 1, "time": "4h", "priority": "high", **spec})
    return submit_job(user=person, spec=parsed, check=check_possible, containers=True)


def change(actor, job: Job, **changes) -> Job:
    read = Job.objects.with_names().get(pk=job.pk)
    return change_job(actor=actor, job=read, changes=changes, check=check_possible, containers=True)


def left(team, pool: str = "train") -> float:
    return load_budget(team, Pool.objects.get(name=pool)).left


def test_a_new_pool_asks_for_consent_and_one_from_before_for_nothing(db):
    assert Pool.objects.create(name="new").high_priority == HighPriority.CONSENT
    with connection.cursor() as cursor:
        cursor.execute("SELECT column_default FROM information_schema.columns WHERE column_name = 'high_priority'")
        assert cursor.fetchone()[0].startswith("'free'")


def test_only_a_lead_submits_at_high_priority_and_the_refusal_names_the_leads(cast, dear):
    with pytest.raises(ConsentNeeded) as no:
        submit(cast.ada)
    assert (no.value.status, no.value.params["leads"]) == (403, ["bob"])
    assert no.value.errors[0].pointer == "/priority"
    assert not Job.objects.exists()
    assert submit(cast.bob).priority == 2
    assert submit(cast.ada, priority="normal").priority == 1


def test_urgent_needs_a_lead_whatever_high_priority_costs(cast):
    assert submit(cast.ada).priority == 2
    with pytest.raises(ConsentNeeded):
        submit(cast.ada, priority="urgent")


def test_a_job_that_names_no_pool_takes_one_where_its_priority_is_paid(cast):
    Pool.objects.filter(name="train").update(high_priority=HighPriority.CONSENT)
    assert submit(cast.ada, pool=None).pool == cast.dev


def test_a_lead_raises_what_waits_and_a_member_only_lowers_it(cast, dear):
    job = submit(cast.ada, priority="normal")
    with pytest.raises(ConsentNeeded):
        change(cast.ada, job, priority="high")
    assert change(cast.bob, job, priority="high").priority == 2
    assert change(cast.ada, job, priority="low").priority == 0
    assert change(make.admin(), job, priority="high").priority == 2
    with pytest.raises(NotPermitted):
        change(cast.bob, job, priority="normal", time="1h")  # all but the priority is its owner's
    assert Job.objects.get(pk=job.pk).spec["priority"] == "high"


def test_a_consent_is_for_what_the_job_asked_for_then(cast, dear):
    job = change(cast.bob, submit(cast.ada, priority="normal"), priority="high")
    assert change(cast.ada, job, time="2h").priority == 2
    for more in ({"time": "8h"}, {"pool": "dev"}, {"priority": "urgent"}):
        with pytest.raises(ConsentNeeded):
            change(cast.ada, job, **more)
    assert change(cast.ada, job, time="8h", priority="normal").priority == 1


def test_a_retry_by_hand_is_priced_anew(cast, dear):
    job = change(cast.bob, submit(cast.ada, priority="normal"), priority="high")
    make.start(job)
    ended = make.end(job)
    with pytest.raises(ConsentNeeded):
        retry_job(actor=cast.ada, job=Job.objects.with_names().get(pk=ended.pk))
    assert retry_job(actor=cast.bob, job=Job.objects.with_names().get(pk=ended.pk)).state == "QUEUED"


def waits_in(job: Job) -> list[str]:
    return Job.objects.get(pk=job.pk).pool_names


def test_what_waits_in_several_pools_counts_in_each_that_gets_a_budget(cast):
    job = submit(cast.ada, pool=None)
    submit(cast.ada, pool="dev", priority="normal")
    assert waits_in(job) == ["train", "dev"]
    Pool.objects.filter(name="dev").update(high_priority=HighPriority.BUDGET, high_gpu_hours=10)
    assert (waits_in(job), Job.objects.get(pk=job.pk).priority) == (["train", "dev"], 2)
    assert (left(cast.nlp, "dev"), left(cast.vision, "dev")) == (pytest.approx(6), 10)
    with pytest.raises(BudgetSpent):
        submit(cast.ada, pool="dev", time="7h")
    Pool.objects.filter(name="dev").update(high_gpu_hours=2)  # less than it asks for, and it goes on waiting there
    assert (waits_in(job), left(cast.nlp, "dev")) == (["train", "dev"], 0)
    make.start(job)  # in train
    assert left(cast.nlp, "dev") == 2


def test_its_hours_are_kept_where_it_starts_alone(cast):
    job = submit(cast.ada, pool=None)
    Pool.objects.update(high_priority=HighPriority.BUDGET, high_gpu_hours=10)
    assert (left(cast.nlp), left(cast.nlp, "dev")) == (pytest.approx(6), pytest.approx(6))
    Job.objects.filter(pk=job.pk).update(pool=cast.dev)
    make.start(Job.objects.get(pk=job.pk))
    assert (left(cast.nlp), left(cast.nlp, "dev")) == (10, pytest.approx(6, abs=0.01))


def retry(actor, job: Job) -> list[str]:
    """Where it waits then."""
    make.start(job)
    ended = make.end(job)
    return retry_job(actor=actor, job=Job.objects.with_names().get(pk=ended.pk)).pool_names


@pytest.mark.parametrize(
    ("train", "dev", "waits"),
    [
        ({}, {}, ["train", "dev"]),
        ({}, {"high_priority": HighPriority.CONSENT}, ["train"]),
        ({}, {"high_priority": HighPriority.BUDGET, "high_gpu_hours": 10}, ["train"]),
        ({"high_priority": HighPriority.BUDGET, "high_gpu_hours": 10}, {}, ["train"]),
        ({"high_priority": HighPriority.BUDGET, "high_gpu_hours": 3}, {}, ["dev"]),
    ],
)
def test_what_is_tried_again_waits_where_its_priority_is_paid_now(cast, train, dev, waits):
    job = submit(cast.ada, pool=None)
    for name, price in (("train", train), ("dev", dev)):
        Pool.objects.filter(name=name).update(**{"high_priority": HighPriority.FREE, **price})
    assert retry(cast.ada, job) == waits == waits_in(job)
    again = Job.objects.get(pk=job.pk)
    in_pools = {choice["name"]: choice["gang"] for choice in job.choices}
    assert (again.pool.name, again.gang) == (waits[0], in_pools[waits[0]])
    assert again.choices == (job.choices if len(waits) > 1 else [])


def test_what_is_tried_again_is_refused_where_its_priority_is_paid_nowhere(cast):
    job = submit(cast.ada, pool=None)
    Pool.objects.filter(name="train").update(high_priority=HighPriority.BUDGET, high_gpu_hours=3)
    Pool.objects.filter(name="dev").update(high_priority=HighPriority.CONSENT)
    with pytest.raises(BudgetSpent):
        retry(cast.ada, job)


def test_what_is_tried_again_at_normal_priority_waits_in_all_as_before(cast, dear):
    job = submit(cast.ada, pool=None, priority="normal")
    assert retry(cast.ada, job) == ["train", "dev"]


def test_a_lead_who_was_suspended_is_not_named(cast, dear):
    cast.bob.suspended_at = MONDAY
    cast.bob.save()
    with pytest.raises(ConsentNeeded) as no:
        submit(cast.ada)
    assert (no.value.params["leads"], no.value.errors[0].code) == ([], "priority_needs_consent_of_admin")


def test_what_waits_at_high_priority_is_taken_from_the_budget(cast, budget):
    first = submit(cast.ada)
    assert left(cast.nlp) == pytest.approx(6)
    submit(cast.bob)
    with pytest.raises(BudgetSpent) as no:
        submit(cast.bob)  # a lead, too
    assert (no.value.status, no.value.errors[0].pointer) == (409, "/priority")
    params = no.value.params
    assert [params[name] for name in ("budget", "left", "asked", "team", "pool")] == ["10", "2", "4", "nlp", "train"]
    assert submit(cast.ada, time="2h").priority == 2
    assert left(cast.nlp) == 0
    assert (left(cast.nlp, "dev"), left(cast.vision)) == (10, 10)
    change(cast.ada, first, priority="normal")
    assert left(cast.nlp) == pytest.approx(4)
    with pytest.raises(BudgetSpent):
        change(cast.ada, first, priority="high", time="5h")
    assert change(cast.ada, first, priority="high").priority == 2


def test_a_change_counts_the_job_once(cast, budget):
    job = submit(cast.ada)
    assert change(cast.ada, job, time="9h").time_s == 9 * 3600
    assert left(cast.nlp) == pytest.approx(1)
    with pytest.raises(BudgetSpent):
        change(cast.ada, job, time="11h")


def test_what_ran_at_high_priority_is_used_even_if_the_job_is_lowered_later(cast, budget):
    job = submit(cast.ada)
    make.start(job)
    Job.objects.filter(pk=job.pk).update(started_at=F("started_at") - timedelta(hours=1))
    Holding.objects.update(held_from=F("held_from") - timedelta(hours=1))
    now = load_budget(cast.nlp, cast.train)
    of_week = min((database_now() - begin_week(database_now())) / timedelta(hours=1), 1)  # less, early on a Monday
    assert (now.ran, now.asked) == (pytest.approx(of_week, abs=0.01), pytest.approx(3, abs=0.01))
    make.end(job)
    Job.objects.update(priority=1)
    now = load_budget(cast.nlp, cast.train)
    assert (now.ran, now.asked) == (pytest.approx(of_week, abs=0.01), 0)


def test_what_ran_at_normal_priority_costs_nothing(cast, budget):
    make.start(submit(cast.ada, priority="normal"))
    Holding.objects.update(held_from=F("held_from") - timedelta(hours=1))
    assert left(cast.nlp) == 10


def test_a_job_without_a_time_is_taken_to_last_as_such_jobs_do(cast, budget):
    with pytest.raises(BudgetSpent) as no:
        submit(cast.ada, time=None)
    assert no.value.params["asked"] == "24"


def test_hours_are_those_of_this_week():
    now = MONDAY + timedelta(days=2)
    held = [
        (1000, MONDAY - timedelta(hours=5), MONDAY + timedelta(hours=1)),
        (500, now - timedelta(hours=4), None),
        (4000, MONDAY - timedelta(hours=5), MONDAY),
    ]
    assert sum_hours(held, MONDAY, now) == 1 + 2
    assert begin_week(MONDAY) == begin_week(now) == begin_week(MONDAY + timedelta(days=7, seconds=-1)) == MONDAY
    assert begin_week(MONDAY + timedelta(days=7)) == MONDAY + timedelta(days=7)


@pytest.mark.django_db(transaction=True)
def test_many_who_ask_at_once_do_not_spend_an_hour_twice(cast, budget):
    answers, barrier = [], threading.Barrier(6)

    def work():
        barrier.wait()
        try:
            answers.append(submit(cast.ada).priority)
        except BudgetSpent:
            answers.append(None)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=str) == [2, 2, None, None, None, None]
    assert Job.objects.count() == 2
    assert left(cast.nlp) == pytest.approx(2)
