"""Waits by group: each is counted once, from the submit, the new try or the release to the start."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.resources import parse_gpu
from events.models import Event
from jobs.control import hold_job, release_job, retry_job, stop_job
from jobs.models import Job, Task
from jobs.states import TaskState
from monitoring.reports.waits import GROUPS, SIZES, Waits, WaitSums, sum_waits
from monitoring.usage.report import Period
from tests import make

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, tzinfo=UTC)
NOW = START + timedelta(days=10)
WHOLE = Period(START, NOW + timedelta(days=1))


@pytest.fixture
def world():
    return make.cast()


def queue(person, *, at_s: float = 0, waited_s: float | None = None, gave_up_s: float | None = None, **asks) -> Job:
    """A job that started, or ended without a start, so long after its submit; else it waits."""
    job = make.job(person, **{"pool": "dev", **asks})
    began = START + timedelta(seconds=at_s)
    Job.objects.filter(pk=job.pk).update(submitted_at=began, eligible_at=began, queued_at=began)
    if waited_s is not None:
        job.tasks.update(assigned_at=began + timedelta(seconds=waited_s), state=TaskState.RUNNING)
    if gave_up_s is not None:
        job.tasks.update(ended_at=began + timedelta(seconds=gave_up_s), state=TaskState.STOPPED)
    return job


def ask(by="team", period=WHOLE, now=NOW, teams=None, most=1000):
    return sum_waits(by, period, now, teams, most)


def test_starts_waiting_jobs_and_those_that_gave_up_count_apart(world):
    for waited_s in range(0, 101, 10):
        queue(world.ada, waited_s=waited_s)
    queue(world.ada, gave_up_s=500)
    queue(world.ada, at_s=9 * 86_400)
    assert ask().groups == {
        "nlp": WaitSums(
            started=Waits(11, 50, 90, 100), waiting=Waits(1, 86_400, 86_400, 86_400), gave_up=Waits(1, 500, 500, 500)
        )
    }
    assert ask().total == ask().groups["nlp"]


def test_a_period_has_what_ended_in_it_and_what_went_on_at_its_end(world):
    queue(world.ada, waited_s=100)
    edge = START + timedelta(seconds=60)
    before, after = (ask(period=period).total for period in (Period(START, edge), Period(edge, NOW)))
    assert (before.waiting, before.started) == (Waits(1, 60, 60, 60), Waits())
    assert (after.waiting, after.started) == (Waits(), Waits(1, 100, 100, 100))
    early = ask(period=Period(START - timedelta(days=1), START)).total
    assert early == WaitSums()


def test_a_later_try_waits_from_the_moment_it_was_queued_again(world):
    job = make.job(world.ada, pool="dev")
    for attempt in (1, 2, 3):
        make.start(job)
        make.end(job, TaskState.FAILED, "exit_nonzero", 1)
        job = retry_job(actor=world.ada, job=Job.objects.get(pk=job.pk)) if attempt < 3 else job
    Job.objects.update(submitted_at=START, eligible_at=START, queued_at=START + timedelta(hours=3))
    for attempt, waited_s in ((1, 60), (2, 70), (3, 90)):
        queued = START + timedelta(hours=attempt if attempt > 1 else 0)
        Task.objects.filter(attempt=attempt).update(assigned_at=queued + timedelta(seconds=waited_s))
    again = Event.objects.filter(kind="job", to_state="QUEUED").order_by("pk")
    assert again.update(at=START + timedelta(hours=2)) >= 2
    assert ask().total == WaitSums(started=Waits(1, 60, 60, 60), again=Waits(2, 80, 88, 90))


def test_a_held_job_waits_from_its_release_and_not_while_it_is_held(world):
    job = queue(world.ada)
    hold_job(actor=world.ada, job=job)
    assert ask().total == WaitSums()
    release_job(actor=world.ada, job=job)
    Event.objects.filter(verb="released").update(at=START + timedelta(seconds=40))
    job.tasks.update(assigned_at=START + timedelta(seconds=100))
    assert ask().total.started == Waits(1, 60, 60, 60)


def test_a_stopped_job_gave_up_and_is_not_dropped(world):
    stop_job(actor=world.ada, job=make.job(world.ada, pool="dev"))
    now = datetime.now(UTC) + timedelta(seconds=1)
    assert ask(period=Period(now - timedelta(hours=1), now), now=now).total.gave_up.jobs == 1


def test_groups_have_their_names_and_only_teams_in_sight(world):
    queue(world.ada, waited_s=1, gpu="1/4")
    queue(world.ada, waited_s=1, gpu="1")
    queue(world.eve, waited_s=5)
    names = {by: set(ask(by).groups) for by in GROUPS}
    assert names == {
        "size": {"none", "part", "1"},
        "team": {"nlp", "vision"},
        "user": {"ada", "eve"},
        "pool": {"dev"},
        "kind": {"batch"},
    }
    assert set(ask("user", teams=[world.nlp.pk]).groups) == {"ada"} and ask(teams=[]).total == WaitSums()
    assert (list(ask(most=1).groups), ask(most=1).left_out) == (["nlp"], 1)


amounts = st.sampled_from(["0", "1", "3", "8", "1/4", "3/4", "10GB", "V100-32GB", "V100-32GB/4", "H100:10GB", "H100:2"])
roles = st.lists(st.tuples(amounts, st.integers(1, 4)), min_size=1, max_size=3)


@given(asked=roles)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sizes_are_those_of_the_job_file(world, asked):
    Job.objects.all().delete()
    gang = [{"role": str(i), "min": n, "max": n, "request": {"gpu": text}} for i, (text, n) in enumerate(asked)]
    job = queue(world.ada, waited_s=1)
    Job.objects.filter(pk=job.pk).update(gang=gang)
    asks = [(parse_gpu(text), n) for text, n in asked]
    cards = sum(ask.count * n for ask, n in asks if not ask.is_slice)
    wanted = "part" if any(ask.is_slice for ask, _n in asks) else "none"
    for size, least in (("1", 1), ("2-4", 2), ("5-8", 5), ("9+", 9)):
        wanted = size if cards >= least else wanted
    assert list(ask("size").groups) == [wanted] and wanted in SIZES
