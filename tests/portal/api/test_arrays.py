"""Arrays by REST: submitted like jobs, shown as one, with elements that are jobs."""

import pytest

from jobs.arrays.making import make_due_elements
from jobs.models import Job
from jobs.states import JobState, TaskState
from tests import make

pytestmark = pytest.mark.django_db
FILE = {
    "run": "python train.py", "name": "sweep", "team": "nlp", "pool": "dev", "time": "10m",
    "array": {"lr": ["1e-4", "3e-4"], "seed": "1..3", "at_once": 2},
}  # fmt: skip


def make_more() -> None:
    while make_due_elements(lambda draft: None, True):
        pass  # one call ends after a while


def test_a_file_with_an_array_is_answered_with_the_array(ada):
    answer = ada.post("jobs", FILE)
    shown = answer.json()
    assert answer.status_code == 201 and answer["Location"] == shown["links"]["self"]
    assert (shown["id"][:4], shown["total"], shown["at_once"], shown["state"]) == ("arr-", 6, 2, "queued")
    assert shown["elements"] == {"waiting": 1, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
    assert shown["spec"]["array"] == {"lr": ["1e-4", "3e-4"], "seed": "1..3", "at_once": 2}
    assert ada.get(f"arrays/{shown['id']}").json() == shown
    listed = ada.get("arrays?owner=me&state=queued").json()["results"]
    assert [one["id"] for one in listed] == [shown["id"]] and ada.get("arrays?state=failed").json()["results"] == []


def test_what_waits_for_an_array_says_which_elements_are_open(ada):
    array = ada.post("jobs", FILE).json()["id"]
    make_more()
    job = ada.post("jobs", {"run": "true", "team": "nlp", "pool": "dev", "after": "sweep"}).json()
    make.end(_start(Job.objects.get(array_index=0)))
    shown = ada.get(f"jobs/{job['id']}").json()
    assert (shown["waits_for"], shown["waits_for_elements"]) == ([array], [f"{array}.1"])


def _start(job: Job) -> Job:
    make.start(job)
    return job


def test_the_same_key_makes_one_array(ada):
    first, again = (ada.post("jobs", FILE, Idempotency_Key="k1").json() for _ in range(2))
    assert first["id"] == again["id"] and Job.objects.count() == 1


def test_elements_are_listed_under_their_array_alone(ada):
    array = ada.post("jobs", FILE).json()["id"]
    make_more()
    alone = ada.post("jobs", {"run": "true", "team": "nlp", "pool": "dev"}).json()
    assert [one["id"] for one in ada.get("jobs").json()["results"]] == [alone["id"]]
    elements = ada.get(f"jobs?array={array}&sort=id").json()["results"]
    assert [(one["array"], one["index"], one["spec"]["env"]) for one in elements] == [
        (array, 0, {"lr": "1e-4", "seed": "1"}),
        (array, 1, {"lr": "1e-4", "seed": "2"}),
    ]
    (second,) = ada.get(f"jobs?array={array}&index=1").json()["results"]
    assert second["id"] == elements[1]["id"]
    assert ada.get("jobs?q=sweep.1").json()["results"][0]["id"] == second["id"]
    assert ada.get("jobs?array=nothing").json()["results"] == []


def test_it_is_stopped_and_its_failed_elements_are_retried(ada):
    array = ada.post("jobs", FILE).json()["id"]
    make_more()
    job = Job.objects.get(array_index=0)
    make.start(job)
    make.end(job, TaskState.FAILED, "exit_nonzero", 1)
    assert ada.post(f"arrays/{array}:stop").json()["stop_requested_at"]
    make_more()
    assert ada.get(f"arrays/{array}").json()["state"] == "failed"
    assert ada.post(f"arrays/{array}:retry", {}).status_code == 200
    make_more()
    assert list(Job.objects.filter(state=JobState.QUEUED).values_list("array_index", flat=True)) == [0]
    rest = ada.post(f"arrays/{array}:retry", {"only_failed": False})
    assert rest.status_code == 200 and rest.json()["stop_requested_at"] is None


def test_there_is_nothing_to_retry_of_one_that_goes_well(ada):
    array = ada.post("jobs", FILE).json()["id"]
    refused = ada.post(f"arrays/{array}:retry", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "array_nothing_to_retry")


def test_a_plan_tells_of_the_whole_array(ada):
    told = ada.post("jobs:plan", FILE).json()
    assert told["array"] == {
        "total": 6, "at_once": 2, "lasts_s": 1800,
        "text": "An array of 6 elements, 2 of them open at once; this is told of the first. The last one ends 30m "
        "after the first starts at the soonest, if each takes 10m.",
    }  # fmt: skip
    without = ada.post("jobs:plan", {**FILE, "array": 6}).json()["array"]
    assert without["lasts_s"] is None and "ends" not in without["text"]
    assert ada.post("jobs:plan", {key: FILE[key] for key in FILE if key != "array"}).json()["array"] is None


def test_when_the_last_one_ends_is_told_from_those_that_ended(ada):
    array = ada.post("jobs", FILE).json()["id"]
    assert ada.get(f"arrays/{array}").json()["expected_end_at"] is None  # nothing runs
    make_more()
    make.start(Job.objects.get(array_index=0))
    make_more()
    assert ada.get(f"arrays/{array}").json()["expected_end_at"]  # as the file says


def test_what_refuses_the_next_element_is_told(ada, cast):
    array = ada.post("jobs", {**FILE, "array": 4}).json()["id"]
    make.limit(cast.ada, jobs_waiting=1)
    make_more()
    shown = ada.get(f"arrays/{array}").json()
    assert (shown["code"], shown["halted_at"]) == ("user_limit", None)
    assert "1 of 1" in shown["detail"]


def test_a_schedule_of_an_array_is_refused(ada):
    body = {"name": "nightly", "job_file": "run: x\nteam: nlp\npool: dev\narray: 3\n", "cron": "30 2 * * *"}
    refused = ada.post("schedules", body)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (400, "array_not_here")


def test_a_sweep_tells_its_trials_with_the_best_first(ada):
    search = {"method": "grid", "metric": "loss", "space": {"lr": ["0.1", "0.2", "0.3"]}}
    body = {**{key: FILE[key] for key in FILE if key != "array"}, "search": search}
    made = ada.post("jobs", body).json()
    assert (made["total"], made["at_once"], made["sweep"]["best"]) == (3, 4, None)
    make_more()
    for job, loss in zip(Job.objects.order_by("array_index"), (0.5, 0.25), strict=False):
        (task,) = make.start(job)
        make.numbers(task, "loss", (1, loss), (2, 0.9))
    shown = ada.get(f"arrays/{made['id']}").json()["sweep"]
    assert [(one["index"], one["score"], one["values"]) for one in shown["trials"]] == [
        (1, 0.25, {"lr": "0.2"}), (0, 0.5, {"lr": "0.1"})
    ]  # fmt: skip
    assert shown["best"] == shown["trials"][0] and shown["best"]["job"] == Job.objects.get(array_index=1).public_id
    assert ada.get(f"arrays/{ada.post('jobs', FILE).json()['id']}").json()["sweep"] is None
