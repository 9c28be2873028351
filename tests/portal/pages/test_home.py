"""Home: what I could start now, what I have going, and the first steps of a newcomer."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.control import hold_job
from jobs.models import Job
from jobs.states import TaskState
from portal.pages.home.capacity import Capacity
from portal.pages.home.desk import Desk
from quotas.models import Quota
from scheduler.loading import snapshots
from scheduler.models import Forecast, Lease
from scheduler.preview.trial_cycles import TrialCycles
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    return make.cast()


@pytest.fixture
def look(client):
    """look(person) is the page as that person sees it; target asks for one fragment as htmx does."""

    def look(person, target=""):
        client.force_login(person)
        headers = {"HX-Request": "true", "HX-Target": target} if target else {}
        return client.get("/", headers=headers).content.decode()

    return look


def test_a_visitor_is_sent_to_sign_in_and_back(client):
    answer = client.get("/")
    assert answer.status_code == 302 and answer["Location"] == "/sign-in/?next=%2F"


def test_the_first_line_says_what_could_start_now(cast, look):
    make.start(make.job(cast.bob, gpu="1/2", pool="dev"))
    assert "You can start now: a slice of up to 17 GB in dev · 1 whole V100-32GB in train" in look(cast.ada, "rail")


def test_the_first_line_knows_the_limit_of_the_team(cast, look):
    cast.nlp.quotas.update(gpu_milli_limit=1000)
    make.start(make.job(cast.ada, gpu="1", pool="train"))
    assert "You can start now: 1 whole V100-32GB in dev<" in look(cast.ada, "rail")


def test_a_slice_is_offered_only_as_large_as_the_limit_of_the_team(cast, look):
    cast.nlp.quotas.filter(pool__name="dev").update(gpu_milli_limit=250)
    cast.nlp.quotas.filter(pool__name="train").update(gpu_milli_limit=0)
    assert "You can start now: a slice of up to 8.5 GB in dev<" in look(cast.ada, "rail")


def test_a_card_that_the_next_cycle_would_not_give_is_not_offered(cast, look):
    """Promised to another team: free and within the limits, and no job of hers starts on it."""
    Quota.objects.filter(team=cast.vision, pool=cast.train).update(gpu_milli_guarantee=1000)
    assert "You can start now: 1 whole V100-32GB in dev<" in look(cast.ada, "rail")


def test_cards_that_nobody_would_get_now_are_called_free(cast, look):
    Quota.objects.filter(team=cast.vision).update(gpu_milli_guarantee=1000)
    assert "GPUs are free, but kept for others or for a maintenance: a usual job would wait." in look(cast.ada, "rail")


def test_who_may_submit_no_more_is_not_told_to_submit(cast, look):
    make.start(make.job(cast.eve, gpu="1", pool="dev"))
    make.start(make.job(cast.eve, gpu="1", pool="train"))
    make.job(cast.ada)
    make.limit(cast.ada, jobs_waiting=1)
    page = look(cast.ada, "rail")
    assert "You are at your limit of waiting jobs, 1 of 1" in page and "Jobs that you submit wait" not in page


@pytest.mark.parametrize("limit", [{"gpu_milli": 500}, {"jobs_running": 1}])
def test_the_first_line_knows_the_limits_of_the_person(cast, look, limit):
    make.start(make.job(cast.ada, gpu="1/2", pool="dev"))
    make.limit(cast.ada, **limit)
    assert "GPUs are free, but not within your limits." in look(cast.ada, "rail")
    assert "You can start now: a slice of up to 17 GB in dev" in look(cast.bob, "rail")


def test_where_others_hold_all_the_first_line_says_that_none_is_free(cast, look):
    for pool in ("dev", "train"):
        make.start(make.job(cast.eve, gpu="1", pool=pool))
    assert "No GPU is free for you now." in look(cast.ada, "rail")


def test_a_person_without_a_share_is_told_whom_to_ask(cast, look):
    assert "Ask an admin for quota." in look(make.user("fay", make.team("fresh")), "rail")


def test_a_newcomer_sees_the_first_steps(cast, look):
    page = look(cast.ada)
    assert "Submit the example" in page and "tessera login http://testserver" in page and "Recently ended" not in page


def test_a_running_job_says_what_it_holds_and_where(cast, look):
    make.start(make.job(cast.ada, gpu="1/4", pool="dev", name="llama"))
    page = look(cast.ada)
    assert "llama" in page and "¼ GPU" in page and "n1, GPU 0" in page and "Simulated" in page


def test_a_waiting_job_shows_its_wait_line(cast, look):
    job = make.job(cast.ada, gpu="1", pool="train")
    reason = {"code": "held", "params": {"who": "bob"}}
    Job.objects.filter(pk=job.pk).update(wait_position=3, wait_of=11, wait_reasons=[reason])
    page = look(cast.ada)
    assert "#3 of 11 in train" in page and "held by bob" in page


def test_a_hold_shows_at_once_without_a_pass_of_the_scheduler(cast, look):
    hold_job(actor=cast.bob, job=make.job(cast.ada))
    assert "held by bob" in look(cast.ada)


def test_work_of_team_mates_is_not_mine(cast, look):
    make.job(cast.bob, name="bobs-own")
    assert "bobs-own" not in look(cast.ada)


def test_an_ended_job_says_why_and_may_be_retried(cast, look):
    job = make.job(cast.ada, retry=0)
    make.start(job)
    make.end(job, TaskState.FAILED, "exit_nonzero", 3)
    page = look(cast.ada)
    assert "The program ended with exit code 3." in page and f'action="/j/{job.public_id}/retry"' in page


def test_a_late_scheduler_is_told_and_submits_are_promised(cast, look):
    Lease.objects.update(last_ok_at=timezone.now() - timedelta(seconds=61))
    assert "new jobs are accepted and wait" in look(cast.ada)


def test_a_scheduler_on_time_is_not_mentioned(cast, look):
    assert "has not run" not in look(cast.ada)


@pytest.mark.parametrize("target", ["work", "rail"])
def test_each_part_renders_alone(cast, look, target):
    part = look(cast.ada, target)
    assert f'id="{target}"' in part and "<html" not in part


def test_script_in_a_name_stays_text(cast, look):
    make.job(cast.ada, name="<script>alert(1)</script>")
    page = look(cast.ada)
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page


def test_the_rail_loads_the_world_once_and_cuts_a_long_queue_once(cast, look, monkeypatch):
    """Its first line, tiles and amounts ask many questions about the same moment."""
    loads, cuts, load = [], [], snapshots.load_pools
    monkeypatch.setattr(snapshots, "load_pools", lambda: loads.append(1) or load())
    cut = TrialCycles.keep_front
    monkeypatch.setattr(TrialCycles, "keep_front", lambda trials: cuts.append(1) or cut(trials))
    text = look(cast.ada, "rail")
    assert "You can start now" in text and "Start a notebook" in text
    assert (len(loads), len(cuts)) == (1, 1)


def test_the_page_itself_asks_no_cycle(cast, look, monkeypatch):
    """It stands at once, however large the cluster is: its rail loads behind it."""
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    monkeypatch.setattr(snapshots, "load_pools", lambda: pytest.fail("the world was loaded"))
    assert 'hx-trigger="load, ' in look(cast.ada)


def test_no_row_of_a_pool_is_read_once_more_for_each_amount(cast, look, django_assert_max_num_queries):
    """Four tiles, whole cards, slices and the first steps' example ask which pools suit: 131 statements once."""
    look(cast.ada, "rail")
    with django_assert_max_num_queries(60):
        look(cast.ada, "rail")


def test_without_a_free_card_the_first_line_asks_no_cycle(cast, monkeypatch):
    for pool, gpu in (("dev", "1"), ("train", "1")):
        make.start(make.job(cast.bob, gpu=gpu, pool=pool))
    monkeypatch.setattr(TrialCycles, "keep_front", lambda trials: pytest.fail("a cycle was asked"))
    assert "No GPU is free for you now" in Capacity(cast.ada).answer


# ---- what needs one ----


def needs(person) -> list[tuple[str, str]]:
    return [(need.kind, need.view.name) for need in Desk(person).needs]


def fail(job, ago=timedelta()):
    make.start(job)
    make.end(job, TaskState.FAILED, "exit_nonzero", 3)
    Job.objects.filter(pk=job.pk).update(ended_at=timezone.now() - ago)


def test_nothing_needs_one_whose_work_goes_as_promised(cast, look):
    make.start(make.job(cast.ada, gpu="1/4", pool="dev", name="fine"))
    promise(make.job(cast.ada, name="waits"), timedelta(minutes=5))
    assert needs(cast.ada) == []
    assert "Needs you" not in look(cast.ada) and "1 runs, 1 waits." in look(cast.ada)


def test_a_failure_needs_its_owner_for_a_day_and_until_it_is_sent_again(cast, look):
    fail(make.job(cast.ada, retry=0, name="old"), timedelta(hours=25))
    fail(make.job(cast.ada, retry=0, name="again"))
    make.job(cast.ada, name="again")
    fail(make.job(cast.ada, retry=0, name="new"))
    fail(make.job(cast.bob, retry=0, name="bobs"))
    assert needs(cast.ada) == [("failed", "new")]
    assert "<b>1 thing needs you.</b>" in look(cast.ada)


def test_what_ends_soon_is_told_and_a_short_limit_is_not(cast):
    now = timezone.now()
    for name, limit, ran in (("soon", 3600, 3000), ("later", 7200, 60), ("short", 600, 60)):
        make.start(job := make.job(cast.ada, gpu="0", name=name))
        Job.objects.filter(pk=job.pk).update(max_time_s=limit, started_at=now - timedelta(seconds=ran))
    assert needs(cast.ada) == [("ends", "soon")]


def test_a_job_that_waits_longer_than_first_promised_needs_its_owner(cast):
    promise(make.job(cast.ada, name="late"), timedelta(minutes=-5))
    promise(held := make.job(cast.ada, name="held"), timedelta(minutes=-5))
    hold_job(actor=cast.ada, job=held)
    assert needs(cast.ada) == [("late", "late")]


def test_what_can_never_start_comes_before_what_is_late(cast):
    promise(make.job(cast.ada, name="late"), timedelta(minutes=-5))
    never = make.job(cast.ada, name="never")
    params = {"asked": "9", "field": "gpu", "largest": "2"}
    Job.objects.filter(pk=never.pk).update(wait_reasons=[{"code": "impossible", "params": params}])
    assert needs(cast.ada) == [("never", "never"), ("late", "late")]


def test_a_job_on_a_machine_that_is_not_seen_comes_first(cast, look):
    fail(make.job(cast.ada, retry=0, name="broken"))
    make.start(job := make.job(cast.ada, gpu="1/4", pool="dev", name="where"))
    job.tasks.update(state=TaskState.LOST, lost_at=timezone.now())
    assert needs(cast.ada) == [("unseen", "where"), ("failed", "broken")]
    assert "runs on n1, which is not seen." in look(cast.ada)


def promise(job, p90):
    """It waits, with a reason, and was first expected to have started by then."""
    Job.objects.filter(pk=job.pk).update(wait_reasons=[{"code": "ahead_in_queue", "params": {"n": 2}}])
    now = timezone.now()
    Forecast.objects.create(job=job, attempt=1, made_at=now, told_at=now, first_p90=now + p90)


def test_thirty_running_jobs_cost_no_more_statements_than_three(cast, look, django_assert_max_num_queries):
    for number in range(30):
        make.start(make.job(cast.ada, gpu="0", cpu="100m", memory="64MiB", name=f"job{number}"))
    with django_assert_max_num_queries(40):
        assert look(cast.ada).count('<tr id="home-job-') == 30
