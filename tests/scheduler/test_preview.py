"""What a job that is not submitted would meet, and what would help one that waits."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Pool
from common.errors import InvalidInput, NotPermitted
from jobs.jobfile.parse import parse_spec
from jobs.models import Job, JobKind, Task
from scheduler.preview.preview import forecast_job, plan_job
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


def plan(person, **spec):
    return plan_job(person, parse_spec({"run": "true", "name": "a plan", **spec}))


def taken(cast, gpu="1", pool="train", **spec):
    """eve's job on the pool's card, for an hour from now."""
    job = make.job(cast.eve, gpu=gpu, pool=pool, **{"time": "1h", **spec})
    make.start(job)
    return job


def helps(outlook):
    return {(one.change.field, one.change.value): one.now for one in outlook.sooner}


def minutes(told):
    return round((told.p50 - timezone.now()).total_seconds() / 60)


def test_what_starts_now_is_told_with_its_place_and_nothing_is_stored(cast):
    answer = plan(cast.ada, gpu="1/4")
    assert answer.outcome == "starts" and answer.draft.pool == cast.dev
    [seat] = answer.seats
    assert (seat.node, seat.gpus, seat.milli) == ("n1", (0,), 250)
    assert not Job.objects.exists() and not Task.objects.exists()


def test_what_waits_is_told_its_place_reasons_and_range(cast):
    taken(cast)
    make.job(cast.eve, gpu="1", pool="train", time="30m")
    answer = plan(cast.ada, gpu="1", pool="train", time="2h")
    assert answer.outcome == "waits" and answer.place == (1, 2)  # ada holds less than eve, who has a card
    assert answer.reasons[0]["code"] == "no_fit_now"
    assert minutes(answer.outlook.start) == 90  # when eve's card is back, both hold nothing, and hers came first


def test_what_could_never_run_names_the_nearest(cast):
    answer = plan(cast.ada, gpu="9")
    assert answer.outcome == "never" and [hint.value for hint in answer.never.hints] == ["1"]


def test_a_plan_needs_the_rights_of_a_submit(cast):
    with pytest.raises(InvalidInput):
        plan(cast.ada, team="vision")
    viewer = make.user("vera", cast.nlp, role="viewer")
    with pytest.raises(NotPermitted):
        plan(viewer)


def test_another_pool_and_a_smaller_part_help_where_they_are_free(cast):
    taken(cast)
    found = helps(plan(cast.ada, gpu="1", pool="train").outlook)
    assert found == {("pool", "dev"): True}  # train gives whole cards only


def test_a_smaller_part_of_a_shared_card_helps(cast):
    taken(cast, gpu="1/2", pool="dev")
    taken(cast, pool="train")
    assert helps(plan(cast.ada, gpu="1").outlook) == {("gpu", "1/2"): True}


def test_of_a_gang_fewer_nodes_are_tried_first(cast):
    make.gpu(cast.node, pool=cast.train)
    taken(cast)
    found = plan(cast.ada, gpu="1", nodes=2, pool="train").outlook
    assert helps(found)[("nodes", "1")] is True and found.whole


def test_what_ends_before_a_reservation_may_start_now(cast):
    """Two cards, one is eve's for an hour; bob waits for both, and ada's day on one would be in his way."""
    make.gpu(cast.node, pool=cast.train)
    taken(cast)
    make.job(cast.bob, gpu="2", pool="train", time="1h", priority="high")
    answer = plan(cast.ada, gpu="1", pool="train", time="1d")
    assert answer.reasons[-1]["code"] == "reserved_for_larger"
    assert {value for field, value in helps(answer.outlook) if field == "time"} <= {"58m", "59m"}
    assert any(field == "time" for field, _ in helps(answer.outlook))


def test_one_that_may_be_stopped_borrows_what_another_team_is_guaranteed(cast):
    cast.train.quotas.filter(team=cast.vision).update(gpu_milli_guarantee=1000)
    answer = plan(cast.ada, gpu="1", pool="train")
    assert [reason["code"] for reason in answer.reasons] == ["borrow_denied"]
    assert helps(answer.outlook)[("preemptible", "true")] is True


@pytest.mark.parametrize(
    ("guaranteed", "said", "outcome", "other"),
    [
        (True, {}, "starts", (False, False)),  # by its pool; otherwise it would wait
        (True, {"preemptible": True}, "starts", (False, False)),
        (True, {"preemptible": False}, "waits", (True, True)),
        (False, {}, "starts", (False, True)),
        (False, {"preemptible": False}, "starts", (True, True)),
    ],
)
def test_what_the_other_choice_would_mean_is_told(cast, guaranteed, said, outcome, other):
    Pool.objects.filter(pk=cast.train.pk).update(batch_is_preemptible=True)
    cast.train.quotas.filter(team=cast.vision).update(gpu_milli_guarantee=1000 * guaranteed)
    answer = plan(cast.ada, gpu="1", pool="train", **said)
    assert answer.outcome == outcome
    assert (answer.other.preemptible, answer.other.starts) == other


def test_it_is_told_when_one_that_may_not_be_stopped_would_start(cast):
    """eve's team has used its guarantee of one card; of two, ada's job may borrow none until eve's hour is over."""
    make.gpu(cast.node, pool=cast.train)
    Pool.objects.filter(pk=cast.train.pk).update(batch_is_preemptible=True)
    make.start(make.job(cast.bob, gpu="1", pool="train", time="1h", preemptible=False))
    cast.train.quotas.filter(team=cast.vision).update(gpu_milli_guarantee=1000)
    asked = {"gpu": "1", "pool": "train", "time": "1h"}
    answer = plan(cast.ada, **asked)
    assert answer.outcome == "starts" and not answer.other.starts and minutes(answer.other.start) == 60
    at_once = plan_job(cast.ada, parse_spec({"run": "true", **asked}), levers=False)
    assert not at_once.other.starts and at_once.other.start is None


def test_of_a_job_that_is_held_no_choice_is_weighed(cast):
    assert plan(cast.ada, gpu="1", hold=True).other is None


def test_a_job_whose_pool_says_no_is_offered_to_borrow(cast):
    cast.train.quotas.filter(team=cast.vision).update(gpu_milli_guarantee=1000)
    job = make.job(cast.ada, gpu="1", pool="train")
    Pool.objects.filter(pk=cast.train.pk).update(batch_is_preemptible=True)  # too late for this one
    [borrow] = [one for one in forecast_job(job).sooner if one.change.field == "preemptible"]
    assert borrow.now and (borrow.change.value, borrow.change.was) == ("true", "")


def test_a_higher_priority_is_not_offered(cast):
    """It helps one job at the cost of others, and everybody would take it."""
    taken(cast)
    for _ in range(2):
        make.job(cast.ada, gpu="1", pool="train", time="1h")
    held_up = {"gpu": "1", "pool": "train", "time": "1h"}
    offered = {field for field, _ in helps(plan(cast.ada, **held_up).outlook)}
    assert offered and "priority" not in offered


def test_one_that_is_submitted_to_be_held_waits_for_its_release(cast):
    answer = plan(cast.ada, gpu="1/4", hold=True)
    assert (answer.outcome, answer.reasons) == ("waits", ({"code": "held", "params": {"who": "ada"}},))
    assert answer.outlook.start is None and not answer.outlook.sooner


def test_a_waiting_job_is_looked_at_as_it_stands(cast):
    taken(cast)
    job = make.job(cast.ada, gpu="1", pool="train", time="2h")
    outlook = forecast_job(job)
    assert minutes(outlook.start) == 60 and helps(outlook) == {("pool", "dev"): True}
    assert outlook.sooner[0].change.was == "train"


def test_a_job_that_does_not_wait_has_nothing_to_change(cast):
    job = make.job(cast.ada, gpu="1/4")
    make.start(job)
    assert forecast_job(job).sooner == () and forecast_job(job).start is None


def test_the_past_tells_how_soon_a_plan_would_start(cast):
    """eve's last job ran half of what it had said: so may this one."""
    before = make.job(cast.eve, gpu="1/4", time="1h")
    make.start(before)
    make.end(before)
    now = timezone.now()
    Job.objects.filter(pk=before.pk).update(started_at=now - timedelta(minutes=30), ended_at=now)
    taken(cast)
    assert minutes(plan(cast.ada, gpu="1", pool="train").outlook.start) == 30


def test_a_notebook_is_not_offered_another_shape(cast):
    taken(cast)
    job = make.job(cast.ada, gpu="1", pool="train")
    assert forecast_job(job).sooner
    Job.objects.filter(pk=job.pk).update(kind=JobKind.INTERACTIVE)
    job.refresh_from_db()
    assert forecast_job(job).sooner == ()


def test_it_reads_and_never_writes(cast, django_assert_max_num_queries):
    taken(cast)
    with django_assert_max_num_queries(80) as seen:
        plan(cast.ada, gpu="1", pool="train")
    assert not [one["sql"] for one in seen if not one["sql"].lstrip().upper().startswith(("SELECT", "WITH"))]
