"""Failures by group: each try once, and what its cards did in vain."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.control import retry_job, stop_job
from jobs.models import Job, Task
from jobs.states import TaskState
from monitoring.reports.failures import GROUPS, FailureSums, Losses, list_failures, sum_failures
from monitoring.usage.report import HOUR_MILLI_MS, Period
from quotas.models import Holding
from tests import make

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, tzinfo=UTC)
NOW = START + timedelta(days=10)
WHOLE = Period(START, NOW)


@pytest.fixture
def world():
    return make.cast()


def fail(person, *, reason="exit_nonzero", hours=2.0, saved_after_h=None, ended=TaskState.FAILED, **asks) -> Job:
    """A job that held half a card from START on, and ended so."""
    job = make.job(person, **{"gpu": "1/2", "pool": "dev", **asks})
    make.start(job)
    make.end(job, ended, reason, 1)
    move_times(job, hours=hours, saved_after_h=saved_after_h)
    return job


def move_times(job: Job, attempt: int = 1, *, hours: float, saved_after_h: float | None = None) -> None:
    ended = START + timedelta(hours=hours)
    saved = None if saved_after_h is None else START + timedelta(hours=saved_after_h)
    tasks = Task.objects.filter(job=job, attempt=attempt)
    tasks.update(started_at=START, ended_at=ended, checkpointed_at=saved)
    Holding.objects.filter(task__in=tasks.values("uuid")).update(held_from=START, released_at=ended)


def ask(by="reason", period=WHOLE, teams=None, most=1000):
    return sum_failures(by, period, NOW, teams, most)


def hours(milli_ms: int) -> float:
    return milli_ms / HOUR_MILLI_MS


def test_what_was_held_since_the_last_checkpoint_is_lost(world):
    fail(world.ada)
    fail(world.ada, saved_after_h=1.5)
    (sums,) = ask().groups.values()
    assert (sums.failed.tries, sums.failed.jobs, sums.made_room) == (2, 2, Losses())
    assert [hours(one) for one in (sums.failed.lost, sums.failed.unsaved, sums.failed.kept)] == [1.25, 1, 0.75]
    assert ask().total == sums and list(ask().groups) == ["exit_nonzero"]


def test_tries_that_made_room_count_apart_and_each_try_once(world):
    job = fail(world.ada, reason="preempted", ended=TaskState.STOPPED)
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("QUEUED", 2)
    make.start(job)
    make.end(job, TaskState.FAILED, "node_lost", None)
    move_times(job, 2, hours=4)
    groups = ask().groups
    assert {name: (sums.failed.tries, sums.made_room.tries) for name, sums in groups.items()} == {
        "node_lost": (1, 0),
        "preempted": (0, 1),
    }
    assert (hours(groups["preempted"].made_room.lost), hours(groups["node_lost"].failed.lost)) == (1, 2)
    (team,) = ask("team").groups.values()
    assert (team.tries, team.failed.jobs, team.made_room.jobs, hours(team.lost)) == (2, 1, 1, 3)


def test_what_was_meant_is_no_failure(world):
    make.end(make.start(make.job(world.ada, pool="dev"))[0].job)
    stop_job(actor=world.ada, job=make.job(world.ada, pool="dev"))
    fail(world.ada, reason="idle", ended=TaskState.STOPPED)
    now = datetime.now(UTC) + timedelta(seconds=1)
    assert sum_failures("reason", Period(START, now), now, None, 9).total == FailureSums()


def test_a_gang_counts_once_with_the_reason_of_the_task_that_broke_it_and_the_time_of_all(world):
    job = make.job(world.ada, pool="dev", roles={"w": {"count": 2, "run": "true", "gpu": "1/2"}})
    first, second = make.start(job)
    make.move(second, TaskState.FAILED, "out_of_memory")
    make.move(first, TaskState.STOPPED, "gang_broken")
    move_times(job, hours=1)
    (reason, sums), *others = ask().groups.items()
    assert (reason, sums.failed.tries, sums.failed.jobs, others) == ("out_of_memory", 1, 1, [])
    assert hours(sums.failed.lost) == 1


def test_a_try_counts_in_the_period_of_its_end(world):
    fail(world.ada, hours=2)
    edge = START + timedelta(hours=1)
    assert ask(period=Period(START, edge)).total == FailureSums()
    assert hours(ask(period=Period(edge, NOW)).total.lost) == 1


def test_groups_have_their_names_and_only_teams_in_sight(world):
    fail(world.ada)
    fail(world.ada, name="again")
    fail(world.eve, reason="evicted")
    names = {by: list(ask(by).groups) for by in GROUPS}
    assert names == {
        "reason": ["exit_nonzero", "evicted"],
        "team": ["nlp", "vision"],
        "user": ["ada", "eve"],
        "pool": ["dev"],
        "node": ["n1"],
    }
    assert list(ask("user", teams=[world.nlp.pk]).groups) == ["ada"] and ask(teams=[]).total == FailureSums()
    assert (list(ask(most=1).groups), ask(most=1).left_out) == (["exit_nonzero"], 1)


def test_the_newest_are_listed_of_all_or_of_one_group(world):
    first, second = fail(world.ada, hours=1, saved_after_h=0.5), fail(world.eve, hours=2, reason="evicted")
    listed = list_failures("reason", None, WHOLE, NOW, None)
    assert [one.job_id for one in listed] == [second.pk, first.pk]
    assert (listed[1].user, listed[1].node, hours(listed[1].lost), hours(listed[1].kept)) == ("ada", "n1", 0.25, 0.25)
    assert [one.job_id for one in list_failures("reason", "evicted", WHOLE, NOW, None)] == [second.pk]
    assert list_failures("reason", "evicted", WHOLE, NOW, [world.nlp.pk]) == []


def test_a_retry_of_a_failed_job_leaves_its_first_try(world):
    job = fail(world.ada)
    retry_job(actor=world.ada, job=Job.objects.get(pk=job.pk))
    assert ask().total.failed.tries == 1
