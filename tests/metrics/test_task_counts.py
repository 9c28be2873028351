"""What is counted of tasks that start and end: once it is committed, and by bounded labels."""

import pytest
from prometheus_client import REGISTRY

from jobs.states import TaskState
from tests import make

pytestmark = pytest.mark.django_db
TEAM, LOCAL = {"team": "nlp", "class": "normal"}, {"executor": "local"}


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0


def test_a_start_and_an_end_are_counted_once(django_capture_on_commit_callbacks):
    cast = make.cast()
    before = count("tessera_queue_wait_seconds_count", **TEAM), count("tessera_bind_to_running_seconds_count", **LOCAL)
    killed = {"state": "failed", "reason": "gpu_out_of_memory"}
    ended, kills = count("tessera_tasks_ended_total", **killed), count("tessera_slice_kills_total")
    with django_capture_on_commit_callbacks(execute=True):
        task = make.start(make.job(cast.ada, gpu="1/4"), cast.gpus[0])[0]
    after = count("tessera_queue_wait_seconds_count", **TEAM), count("tessera_bind_to_running_seconds_count", **LOCAL)
    assert after == (before[0] + 1, before[1] + 1)
    with django_capture_on_commit_callbacks(execute=True):
        make.move(task, TaskState.FAILED, reason="gpu_out_of_memory")
    assert count("tessera_tasks_ended_total", **killed) == ended + 1
    assert count("tessera_slice_kills_total") == kills + 1


def test_what_never_ran_is_a_failed_start(django_capture_on_commit_callbacks):
    cast = make.cast()
    task = make.start(make.job(cast.ada, gpu="1/4", retry=0), cast.gpus[0], state=TaskState.STARTING)[0]
    before = count("tessera_start_failures_total", reason="start_failed")
    with django_capture_on_commit_callbacks(execute=True):
        make.move(task, TaskState.FAILED, reason="start_failed")
    assert count("tessera_start_failures_total", reason="start_failed") == before + 1
