"""Arrays against the real portal, over real HTTP."""

import json

import pytest

from jobs.arrays.making import make_due_elements
from jobs.arrays.models import JobArray
from jobs.models import Job
from jobs.states import JobState, TaskState
from tests import make

FILE = "run: python train.py\nname: sweep\nteam: nlp\npool: dev\ngpu: 1/4\ntime: 10m\n"
ARRAY = "array: {lr: [1e-4, 3e-4], seed: 1..3, at_once: 2}\n"


@pytest.fixture
def file(tmp_path) -> str:
    (tmp_path / "job.yaml").write_text(FILE + ARRAY)
    return str(tmp_path / "job.yaml")


def make_more() -> None:
    while make_due_elements(lambda draft: None, True):
        pass  # one call ends after a while


def fail(job: Job) -> None:
    make.start(job)
    make.end(job, TaskState.FAILED, "exit_nonzero", 1)


def test_one_is_submitted_listed_shown_stopped_and_retried(ada, file):
    made = ada("submit", file)
    array = JobArray.objects.get()
    assert made.exit_code == 0 and made.stdout.startswith(f"{array.public_id} is queued. "), made.stderr
    fail(Job.objects.get())
    make_more()
    listed = ada("arrays", "-o", "csv").stdout.splitlines()
    assert listed[0].startswith("ID,NAME,STATE,ENDED") and f"{array.public_id},sweep,queued,1/6" in listed[1]
    shown = ada("show", array.public_id).stdout
    assert "1 of 6 have ended" in shown and "2 waiting, 1 failed" in shown
    assert ada("ps", "-q").stdout == ""
    stopped = ada("stop", array.public_id)
    assert stopped.exit_code == 0 and array.public_id in stopped.stdout
    make_more()
    assert ada("retry", array.public_id, "--failed").exit_code == 0
    make_more()
    assert Job.objects.get(state=JobState.QUEUED).array_index == 0
    assert ada("retry", array.public_id).exit_code == 0
    make_more()
    assert Job.objects.filter(state=JobState.QUEUED).count() == 2
    assert json.loads(ada("show", array.public_id, "-o", "json").stdout)["id"] == array.public_id


def test_an_element_is_named_by_its_index_wherever_a_job_is(ada, cast):
    array = make.array(cast.ada, 3)
    make_more()
    job = Job.objects.get(array_index=1)
    name = f"{array.public_id}.1"
    assert job.public_id in ada("show", name).stdout
    assert ada("why", name).exit_code == 0 and ada("why", f"sweep.{1}").exit_code == 0
    assert ada("stop", name).exit_code == 0
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    missing = ada("show", f"{array.public_id}.17")
    assert missing.exit_code == 3 and "no element 17" in missing.stderr
    refused = ada("logs", array.public_id)
    assert refused.exit_code == 2 and f"{array.public_id}.0" in refused.stderr


def test_a_plan_tells_of_the_array(ada, cast, file):
    planned = ada("submit", file, "--plan")
    assert "An array of 6 elements, 2 of them open at once" in planned.stdout
    assert not JobArray.objects.exists()


def test_what_an_array_has_not_is_refused(ada, cast, file):
    followed = ada("submit", file, "--follow")
    assert followed.exit_code == 2 and f"tessera logs -f {JobArray.objects.get().public_id}.0" in followed.stderr
    job = make.job(cast.ada, pool="dev")
    assert ada("retry", job.public_id, "--failed").exit_code == 2


def test_one_is_waited_for_until_all_elements_have_ended(ada, file):
    late = ada("submit", file, "--wait", "end", "--timeout", "1s")
    assert late.exit_code == 5 and "is still queued" in late.stderr
    assert "0 of 6 have ended" in late.stderr


def test_a_sweep_is_shown_with_its_best_trials(ada, cast):
    array = make.array(cast.ada, search={"method": "grid", "metric": "loss", "space": {"lr": ["0.1", "0.2"]}})
    assert "none yet" in ada("show", array.public_id).stdout
    make_more()
    for job, loss in zip(Job.objects.order_by("array_index"), (0.5, 0.25), strict=True):
        (task,) = make.start(job)
        make.numbers(task, "loss", (1, loss))
    shown = ada("show", array.public_id).stdout
    assert "smallest loss" in shown and f"0.25 by {array.public_id}.1" in shown and "lr=0.2" in shown
