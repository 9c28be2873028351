"""Lengths of jobs, predicted from rows: what is learned, who uses it, and that it can be turned off."""

from datetime import timedelta
from math import inf

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import to_json
from jobs.models import Job
from jobs.states import JobState, TaskState
from scheduler import tasks
from scheduler.commit.starting import DoesNotFit, check_maintenance
from scheduler.core.prediction.length_model import PredictedLength
from scheduler.loading.past_jobs import load_past_jobs, load_traits, read_traits
from scheduler.loading.predicted_lengths import learn_from_past, load_lengths, predict_jobs
from scheduler.loading.row_cache import caching, read_change_mark
from scheduler.loading.snapshots import load_world
from scheduler.models import LearnedLengths
from scheduler.preview.stored_forecasts import lacks_run_times, load_run_times
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = 3600.0


@pytest.fixture
def cast():
    return make.cast()


def ran(person, seconds, *, state=JobState.SUCCEEDED, reason="", attempt=1, **spec) -> Job:
    """A job that ended."""
    job, now = make.job(person, **spec), timezone.now()
    began = now - timedelta(seconds=seconds)
    columns = {"state": state, "reason": reason, "attempt": attempt, "started_at": began, "ended_at": now}
    Job.objects.filter(pk=job.pk).update(**columns)
    return job


@pytest.fixture
def history(cast):
    """Ada's jobs of one name took two hours, and those of another one five minutes."""
    for number in range(12):
        ran(cast.ada, 2 * HOUR, name=f"resnet-{number}", pool="dev", run="python train.py")
        ran(cast.ada, 300, name=f"clean-{number}", pool="dev", run="sh clean.sh")
    learn_from_past()
    return cast


def waiting(job) -> tuple[float, float]:
    (found,) = [one for one in load_world().snapshot.waiting if one.job == job.pk]
    return found.time_s, found.latest_s


def running(job):
    (found,) = [one for one in load_world().snapshot.running if one.job == job.pk]
    return found


def test_a_job_waits_with_the_length_of_past_ones_of_its_name(history):
    job = make.job(history.ada, name="resnet-99", pool="dev", run="python train.py")
    assert waiting(job) == (2 * HOUR, 2 * HOUR)
    assert (
        waiting(make.job(history.ada, name="resnet-100", pool="dev", run="python train.py", time="10h"))[0] == 2 * HOUR
    )
    limited = make.job(history.ada, name="resnet-101", pool="dev", run="python train.py", max_time="1h")
    assert waiting(limited) == (HOUR, HOUR)


def test_nothing_is_predicted_of_strangers_and_notebooks(history):
    assert waiting(make.job(history.eve, name="resnet-99", pool="train")) == (inf, inf)
    assert waiting(make.job(history.eve, name="resnet-99", pool="train", time="10h")) == (10 * HOUR, inf)
    notebook = make.job(history.ada, name="resnet-99", pool="dev", run="python train.py", time="10h")
    Job.objects.filter(pk=notebook.pk).update(kind="interactive")
    assert waiting(notebook) == (10 * HOUR, inf)


def test_turned_off_it_is_what_was_said(history, settings):
    said = make.job(history.ada, name="resnet-98", pool="dev", run="python train.py", time="10h")
    silent = make.job(history.ada, name="resnet-99", pool="dev", run="python train.py")
    settings.TESSERA_PREDICT_LENGTHS = False
    assert (waiting(said), waiting(silent)) == ((10 * HOUR, inf), (inf, inf))
    LearnedLengths.objects.all().delete()
    learn_from_past()
    assert not LearnedLengths.objects.exists()


def test_a_running_job_that_outlives_its_prediction_is_expected_to_end_later(history):
    job = make.job(history.ada, name="resnet-99", pool="dev", run="python train.py", gpu=1)
    make.start(job, history.gpus[0])
    now = timezone.now()
    for passed_h, expected_h in ((1, 2), (3, 6)):
        job.tasks.update(started_at=now - timedelta(hours=passed_h), assigned_at=now - timedelta(hours=passed_h))
        found = running(job)
        assert found.ends_at - found.started_at == pytest.approx(expected_h * HOUR, abs=30)
        assert found.time_s == pytest.approx(expected_h * HOUR, abs=30)
        assert found.latest_s >= found.time_s


def test_only_jobs_that_ended_by_themselves_are_learned_from(cast):
    ran(cast.ada, 60, state=JobState.FAILED, reason="node_lost")
    ran(cast.ada, 60, state=JobState.CANCELLED, reason="stopped_by_user")
    ran(cast.ada, 60, attempt=2)
    assert load_past_jobs() == []
    learn_from_past()
    assert not LearnedLengths.objects.exists()
    ran(cast.ada, 70, state=JobState.FAILED, reason="exit_nonzero")
    ran(cast.ada, 50, state=JobState.FAILED, reason="time_limit", time="1m")
    assert [(round(past.seconds), past.traits.said_s) for past in load_past_jobs()] == [(70, None), (50, 60.0)]


def test_it_learns_anew_only_after_another_job_ended(history):
    first = LearnedLengths.objects.get()
    tasks.learn_lengths()
    assert LearnedLengths.objects.get().learned_at == first.learned_at
    ran(history.ada, 60)
    tasks.learn_lengths()
    second = LearnedLengths.objects.get()
    assert (first.ended, second.ended) == (24, 25)
    assert load_lengths().version == second.learned_at.timestamp() > first.learned_at.timestamp()


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ({"run": "python a.py --seed 3", "gpu": 2, "nodes": 4}, "8"),
        ({"run": "x", "gpu": "1/4", "pool": "dev", "image": "torch"}, "1 parts"),
        ({"roles": {"ps": {"run": "p", "cpu": 1, "count": 2}, "w": {"run": "w", "gpu": 1, "count": 3}}}, "3"),
    ],
)
def test_a_draft_has_the_traits_of_the_stored_job(cast, spec, size):
    job = make.job(cast.ada, name="a-1", **spec)
    ((revision, traits),) = load_traits([job.pk]).values()
    assert (revision, traits.name, traits.size) == (0, "a", size)
    draft = parse_spec({"name": "a-2", **spec})
    mine = Job(user=job.user, team=job.team, pool=job.pool, name="a-2", spec=to_json(draft), gang=job.gang)
    assert read_traits(mine) == traits


def test_a_command_is_told_apart_exactly_and_without_its_numbers(cast):
    seeds = [make.job(cast.ada, run=f"python a.py --seed {n}", pool="train") for n in (3, 44)]
    first, second = (traits for _, traits in load_traits(job.pk for job in seeds).values())
    assert first.command != second.command
    assert first.program == second.program


def test_maintenance_reckons_with_the_late_end(history):
    make.maintenance(history.node, begins_in_s=90 * 60)
    with pytest.raises(DoesNotFit):
        check_maintenance([make.job(history.ada, name="resnet-9", pool="dev", time="1h")], [history.node.pk])
    check_maintenance([make.job(history.ada, name="clean-9", pool="dev", run="sh clean.sh")], [history.node.pk])


def test_a_cycle_asks_once_for_what_is_new_in_the_queue(history):
    counts = []
    for more in (2, 20):
        for number in range(more):
            make.job(history.ada, name=f"resnet-{number}", pool="dev")
        with CaptureQueriesContext(connection) as seen, caching(read_change_mark()):
            load_world()
        counts.append(sum("'run'" in query["sql"] for query in seen))
    with CaptureQueriesContext(connection) as seen, caching(read_change_mark()):
        load_world()
    assert [*counts, sum("'run'" in query["sql"] for query in seen)] == [1, 1, 0]


def test_a_new_model_and_a_changed_job_are_noticed(history):
    job = make.job(history.ada, name="resnet-9", pool="dev", run="python train.py")
    with caching(read_change_mark()):
        assert waiting(job)[0] == 2 * HOUR
    Job.objects.filter(pk=job.pk).update(name="clean-9", revision=1, spec=job.spec | {"run": "sh clean.sh"})
    with caching(read_change_mark()):
        assert waiting(job)[0] == 300
    for _ in range(20):
        ran(history.ada, 900, name="clean", pool="dev", run="sh clean.sh")
    learn_from_past()
    with caching(read_change_mark()):
        assert waiting(job)[0] == 900


def test_forecasts_draw_from_how_predictions_came_true(history):
    job = make.job(history.ada, name="resnet-99", pool="dev", run="python train.py", gpu=1)
    make.start(job, history.gpus[0], state=TaskState.RUNNING)
    assert not lacks_run_times(job.pool_id)
    ratios = load_run_times().ratios
    assert len(ratios) == 20 and ratios.count(1.0) == 20  # of the first two of each name nothing was predicted
    assert predict_jobs([job])[job.pk] == PredictedLength(2 * HOUR, 2 * HOUR, "name", 12)
