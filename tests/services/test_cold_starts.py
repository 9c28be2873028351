"""How long a replica took to answer, and in which part of its start."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.models import Task
from jobs.states import TaskState
from scheduler.reconcile.compare import StartProgress, TaskProgress
from scheduler.reconcile.observations import record_progress
from services import controlling
from services.cold_starts import KEPT_DAYS, StartParts, drop_old_cold_starts, load_cold_starts, split_start
from services.models import ColdStart, Replica
from tests import make

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("fetch_began_at", "parts"),
    [
        (at(4), (2.0, 2.0, 3.0, 5.0)),
        (None, (2.0, 5.0, 0.0, 5.0)),  # the machine had the image
        (at(1), (2.0, 0.0, 5.0, 5.0)),  # the machine's clock is behind
        (at(9), (2.0, 5.0, 0.0, 5.0)),  # and before the database's
    ],
)
def test_the_parts_follow_each_other(fetch_began_at, parts):
    found = split_start(NOON, at(2), fetch_began_at, at(7), at(12))
    assert found == StartParts(*parts) and sum(vars(found).values()) == 12


@pytest.mark.django_db
def test_a_task_remembers_since_when_its_image_was_fetched():
    [task] = make.start(make.job(make.cast().ada), state=TaskState.STARTING)
    for since in (NOON, None):  # it is here, and the program is yet to start
        record_progress(TaskProgress(task.uuid.hex, start_progress=StartProgress(since)), make.lead())
    task.refresh_from_db()
    assert (task.fetching_since, task.fetch_began_at) == (None, NOON)


@pytest.mark.django_db
def test_each_start_is_kept_once_its_program_answers(monkeypatch):
    async def answers(task: Task) -> bool:
        return True

    monkeypatch.setattr(controlling, "_is_ready", answers)
    service = make.service(make.cast().ada, replicas="2..4")
    assert load_cold_starts(service).median is None
    controlling.control_service(service.pk, None, lambda draft: None, False)
    for replica, waited in zip(Replica.objects.all(), (30, 10), strict=True):
        [task] = make.start(replica.job)
        now = Task.objects.get(pk=task.pk).started_at
        moments = {"assigned_at": now - timedelta(seconds=9), "fetch_began_at": now - timedelta(seconds=6)}
        Task.objects.filter(pk=task.pk).update(**moments)
        submitted = now - timedelta(seconds=9 + waited)
        type(replica.job).objects.filter(pk=replica.job_id).update(queued_at=submitted, eligible_at=submitted)
    for _ in range(2):
        assert controlling.mark_ready_replicas() is False
    starts = load_cold_starts(service)
    kept = sorted((round(one.queue_s), one.data_s, one.image_s) for one in starts.last)
    assert kept == [(10, 3, 6), (30, 3, 6)]
    assert round(starts.median.queue_s) == 20 and 0 <= starts.median.program_s < 5
    ColdStart.objects.filter(pk=starts.last[0].pk).update(at=NOON - timedelta(days=KEPT_DAYS + 400))
    drop_old_cold_starts()
    assert ColdStart.objects.count() == 1
