"""The numbers of jobs by the API: of one job, with points, beside other jobs, over attempts, and not a stranger's."""

import pytest

from jobs.models import Task
from portal.api.jobs import numbers
from reported_numbers.models import Report
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    cast = make.cast()
    cast.job = make.job(cast.ada, gpu="1/4")
    make.start(cast.job)
    cast.task = cast.job.tasks.get()
    return cast


def get(cast, person=None, **query):
    return Api(make.token(person or cast.ada)).get(f"jobs/{cast.job.public_id}/numbers", query)


def test_names_come_with_their_last_smallest_and_largest(cast):
    make.numbers(cast.task, "loss", (10, 0.9), (20, 0.2), (30, 0.4))
    make.numbers(cast.task, "acc", (10, 0.5))
    acc, loss = get(cast).json()["numbers"]
    assert acc["name"] == "acc" and acc["points"] is None
    assert (loss["job"], loss["task"], loss["count"]) == (cast.job.public_id, "main.0", 3)
    assert (loss["last"]["value"], loss["last"]["step"]) == (0.4, 30)
    assert loss["min"] == {"value": 0.2, "step": 20} and loss["max"] == {"value": 0.9, "step": 10}


def test_points_come_of_the_names_that_are_asked_for(cast):
    make.numbers(cast.task, "loss", (10, 0.9), (20, 0.2))
    make.numbers(cast.task, "acc", (10, 0.5))
    acc, loss = get(cast, name="loss,unknown").json()["numbers"]
    assert acc["points"] is None
    assert [(point["step"], point["value"]) for point in loss["points"]] == [(10, 0.9), (20, 0.2)]
    make.numbers(cast.task, "loss", *((step, step % 9) for step in range(30, 900)))
    assert len(get(cast, name="loss", points=50).json()["numbers"][1]["points"]) <= 50


def test_a_later_attempt_goes_on_where_it_began(cast):
    make.numbers(cast.task, "loss", (1, 0.9), (2, 0.8), (3, 0.7), (4, 0.6))
    Task.objects.filter(pk=cast.task.pk).update(state="FAILED")
    again = Task.objects.create(job=cast.job, attempt=2, node=cast.node, state="RUNNING")
    make.numbers(again, "loss", (3, 0.75), (4, 0.5))
    (loss,) = get(cast, name="loss").json()["numbers"]
    assert [(point["step"], point["value"]) for point in loss["points"]] == [(1, 0.9), (2, 0.8), (3, 0.75), (4, 0.5)]
    assert loss["last"]["value"] == loss["min"]["value"] == 0.5 and loss["count"] == 6


def test_jobs_are_compared_that_the_caller_sees(cast):
    other = make.job(cast.bob, gpu="1/4")
    make.start(other)
    make.numbers(cast.task, "loss", (1, 0.9))
    make.numbers(other.tasks.get(), "loss", (1, 0.8))
    both = get(cast, name="loss", jobs=other.public_id).json()["numbers"]
    assert [(one["job"], one["points"][0]["value"]) for one in both] == [
        (cast.job.public_id, 0.9),
        (other.public_id, 0.8),
    ]
    foreign = make.job(cast.eve, gpu="1/4")
    assert get(cast, jobs=foreign.public_id).status_code == 404
    assert get(cast, jobs="job-999999999").status_code == 404
    assert get(cast, jobs="?").status_code == 404
    many = get(cast, jobs=",".join(f"job-{i}" for i in range(1, 13)))
    assert many.status_code == 400 and many.json()["errors"][0]["pointer"] == "/jobs"


def test_a_stranger_sees_none_of_it(cast):
    make.numbers(cast.task, "loss", (1, 0.9))
    assert get(cast, cast.eve).status_code == 404


def test_what_was_not_taken_is_said_once_with_its_reason(cast):
    make.numbers(cast.task, "loss", (1, 0.9))
    Report.objects.filter(task=cast.task).update(
        refused=1234, first_why="not_finite", first_what="val/loss", skipped=5 << 20
    )
    (said,) = get(cast).json()["untaken"]
    assert (said["task"], said["refused"], said["skipped_bytes"]) == ("main.0", 1234, 5 << 20)
    assert "1,234 lines or numbers" in said["text"] and "“val/loss” was not finite" in said["text"]
    assert "5.24 MB were left out" in said["text"]


def test_names_without_points_are_read_without_them(cast, django_assert_max_num_queries):
    for name in ("a", "b", "c", "d"):
        make.numbers(cast.task, name, (1, 1))
    api = Api(make.token(cast.ada))
    with django_assert_max_num_queries(9):
        api.get(f"jobs/{cast.job.public_id}/numbers", {"name": "a,b,c,d"})


def test_an_answer_has_so_many_points_at_most(cast, monkeypatch):
    monkeypatch.setattr(numbers, "MOST_DRAWN", 2)
    monkeypatch.setattr(numbers, "MOST_TOGETHER", 40)
    for name in ("a", "b", "c"):
        make.numbers(cast.task, name, *((step, step) for step in range(100)))
    drawn = get(cast, name="a,b").json()["numbers"][:2]
    assert all(10 < len(one["points"]) <= 20 for one in drawn)
    answer = get(cast, name="a,b,c")
    assert answer.status_code == 400 and "Keep at most 2" in answer.json()["errors"][0]["detail"]
