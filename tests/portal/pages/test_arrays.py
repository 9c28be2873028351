"""The page of an array, its row in the list of jobs, and its field in the form."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.record_and_publish import SYSTEM
from jobs.arrays.making import make_due_elements
from jobs.arrays.models import JobArray
from jobs.control import end_job
from jobs.models import Job
from jobs.states import JobState, TaskState
from portal.pages.jobs.form import data_of, values_of
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def ada(cast, client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(cast.ada)
    return client


def text(answer) -> str:
    assert answer.status_code == 200, answer
    return answer.content.decode()


def make_more() -> None:
    while make_due_elements(lambda draft: None, True):
        pass  # one call ends after a while


def end(job: Job, state: str = TaskState.SUCCEEDED, reason: str = "completed", code: int = 0) -> None:
    make.start(job)
    make.end(job, state, reason, code)


def test_the_list_has_one_row_for_an_array(ada, cast):
    array = make.array(cast.ada, {"n": "1..100", "at_once": 5})
    alone = make.job(cast.ada, pool="dev")
    end(Job.objects.get(array_index=0))
    make_more()
    page = text(ada.get("/jobs/"))
    assert f'id="row-{array.public_id}"' in page and f'id="row-{alone.public_id}"' in page
    assert page.count('<tr id="row-') == 2 and "<b>1/100</b>" in page
    assert "5 waiting" in page
    assert text(ada.get("/jobs/?q=" + array.public_id)).count('<tr id="row-') == 1


def test_what_waits_for_it_and_for_what_is_said_on_both_pages(ada, cast):
    array = make.array(cast.ada, {"n": "1..9", "at_once": 2}, name="sweep")
    job = make.job(cast.ada, pool="dev", after="sweep")
    end(Job.objects.get(array_index=0))
    make_more()
    page = text(ada.get(f"/j/{job.public_id}/"))
    assert f'href="/a/{array.public_id}/"' in page
    assert f"must succeed · 1/9 · still open: {array.public_id}.1, {array.public_id}.2" in page
    assert job.public_id in text(ada.get(f"/a/{array.public_id}/"))


@pytest.mark.parametrize(("asked", "seen"), [("waiting", True), ("done", False), ("failed", False), ("active", False)])
def test_its_row_has_the_state_of_the_whole(ada, cast, asked, seen):
    array = make.array(cast.ada, {"n": "1..3", "at_once": 1})
    end(Job.objects.get())  # the element whose row it is
    make_more()
    assert (f'id="row-{array.public_id}"' in text(ada.get(f"/jobs/?state={asked}"))) == seen


def test_the_list_asks_no_more_of_a_long_array(ada, cast):
    make.array(cast.ada, 2)
    make_more()

    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            text(ada.get("/jobs/"))
        return len(queries)

    count_queries()  # some are asked once
    few = count_queries()
    make.array(cast.ada, 60)
    make_more()
    assert count_queries() == few


def test_its_page_shows_what_the_elements_reported_and_the_best_of_all(ada, cast):
    array = make.array(cast.ada, {"n": "1..3", "at_once": 3})
    make_more()
    for job, loss in zip(Job.objects.order_by("array_index"), (0.5, 0.25, 0.75), strict=True):
        (task,) = make.start(job)
        make.numbers(task, "loss", (1, 2.0), (2, loss))
    page = text(ada.get(f"/a/{array.public_id}/"))
    best = page[page.index("Best so far") :]
    assert f'0.25 <span class="muted small">{array.public_id}.1</span>' in best
    assert f'2 <span class="muted small">{array.public_id}.0</span>' in best
    assert all(f'<td class="num">{loss}</td>' in page for loss in (0.5, 0.25, 0.75))


def test_its_page_shows_elements_with_their_values(ada, cast):
    array = make.array(cast.ada, {"lr": ["1e-4", "3e-4"], "seed": "1..40"})
    end(Job.objects.get(), TaskState.FAILED, "exit_nonzero", 1)
    make_more()
    page = text(ada.get(f"/a/{array.public_id}/"))
    assert page.count('<tr id="element-') == 50 and "lr=3e-4 seed=1" in page
    assert "Retry failed (1)" in page and "1/80" in page
    failed = text(ada.get(f"/a/{array.public_id}/?state=failed"))
    assert failed.count('<tr id="element-') == 1
    assert text(ada.get(f"/a/{array.public_id}/?state=nothing&page=2")).count('<tr id="element-') == 30
    job = Job.objects.get(array_index=0)
    assert f'href="/a/{array.public_id}/"' in text(ada.get(f"/j/{job.public_id}/"))


def test_a_fragment_is_its_row(ada, cast):
    array = make.array(cast.ada, 3)
    answer = ada.get(f"/a/{array.public_id}/", headers={"HX-Request": "true", "HX-Target": f"row-{array.public_id}"})
    assert text(answer).lstrip().startswith(f'<tr id="row-{array.public_id}"')


def test_stop_and_retry(ada, cast):
    array = make.array(cast.ada, {"n": "1..9", "at_once": 3})
    end(Job.objects.get(), TaskState.FAILED, "exit_nonzero", 1)
    make_more()
    at = f"/a/{array.public_id}/"
    assert ada.post(f"{at}stop").url == at
    make_more()
    assert "Run the rest (9)" in text(ada.get(at))
    assert ada.post(f"{at}retry").url == at
    make_more()
    assert Job.objects.get(state=JobState.QUEUED).array_index == 0
    ada.post(f"{at}retry", {"all": "on"})
    make_more()
    assert Job.objects.filter(state=JobState.QUEUED).count() == 3
    ended = make.array(cast.ada, 1)
    assert "is left to be queued again" in text(ada.post(f"/a/{ended.public_id}/retry", follow=True))


def test_who_may_not_act_sees_no_buttons(client, cast):
    array = make.array(cast.ada, 3)
    client.force_login(make.user("cal", cast.nlp))
    page = text(client.get(f"/a/{array.public_id}/"))
    assert "/stop" not in page and "/retry" not in page


def test_the_form_submits_and_clones_one(ada, cast):
    yaml = "run: python train.py\nname: sweep\nteam: nlp\npool: dev\ngpu: 1/4\narray: {lr: [1e-4, 3e-4], at_once: 1}\n"
    answer = ada.post("/jobs/new", {"yaml": yaml, "touched": ""})

    array = JobArray.objects.get()
    assert answer.url == f"/a/{array.public_id}/" and array.total == 2
    cloned = text(ada.get(f"/jobs/new?from={array.public_id}"))
    assert "lr: 1e-4, 3e-4" in cloned
    told = ada.post("/jobs/new/sync", {"yaml": yaml, "touched": ""}).json()
    assert any("An array of 2 elements" in line for line in told["preview"]["more"])


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (100, "100"), ("0..99", "0..99"), ("ten", "ten"),
        ({"lr": ["1e-4", "3e-4"], "seed": "1..5", "at_once": 3}, "lr: 1e-4, 3e-4\nseed: 1..5\nat_once: 3"),
    ],
)  # fmt: skip
def test_the_field_of_the_form_says_what_the_file_says(said, shown):
    assert values_of({"array": said})["array"] == shown
    assert data_of({"array": shown}, {"run": "x"}) == {"run": "x", "array": said}
    assert data_of({"array": shown.replace("\n", "\r\n")}, {"array": said}) == {"array": said}
    assert data_of({"array": ""}, {"run": "x", "array": said}) == {"run": "x"}


def test_the_palette_finds_the_array_and_not_its_elements(ada, cast):
    array = make.array(cast.ada, 3)
    make_more()
    for typed in ("sweep", array.public_id):
        page = text(ada.get("/search", {"q": typed}, headers={"HX-Request": "true"}))
        assert f"/a/{array.public_id}/" in page and "/j/" not in page
    assert "/j/" in text(ada.get("/search", {"q": "sweep.1"}, headers={"HX-Request": "true"}))


def test_an_end_is_told_in_words(ada, cast):
    array = make.array(cast.ada, 1)
    end(Job.objects.get(), TaskState.FAILED, "exit_nonzero", 1)
    make_more()
    page = text(ada.get("/notices/"))
    assert f"sweep ({array.public_id}) failed" in page and "0 of 1 elements are done, 1 failed." in page


SEARCH = {
    "method": "random", "metric": "acc", "mode": "max", "trials": 4,
    "space": {"lr": "1e-4..1e-1 log", "opt": ["sgd", "adam"]},
}  # fmt: skip


def test_a_sweep_tells_its_best_trial_and_draws_all_of_them(ada, cast):
    array = make.array(cast.ada, search=SEARCH)
    make_more()
    assert "No trial has reported acc yet" in text(ada.get(f"/a/{array.public_id}/"))
    jobs = list(Job.objects.order_by("array_index"))
    for job, accuracy in zip(jobs, (0.5, 0.75, 0.6), strict=False):
        (task,) = make.start(job)
        make.numbers(task, "acc", (1, accuracy), (2, 0.1))
    end_job(by=SYSTEM, job=jobs[0], reason="pruned")
    make.end(jobs[0], TaskState.STOPPED, "pruned", None)
    make_more()
    page = text(ada.get(f"/a/{array.public_id}/"))
    best = page[page.index('id="best"') : page.index('id="elements"')]
    assert f"/jobs/new?from={jobs[1].public_id}" in best and ">0.75<" in best and jobs[1].spec["env"]["lr"] in best
    assert "of 3 trials by random, 1 stopped early" in best
    assert best.count("<polyline") == 3 and best.count('class="axis"') == 3
    rows = [row.split('"')[0] for row in page.split('<tr id="element-')[1:]]
    assert rows == ["1", "2", "0", "3"]
    assert text(ada.get(f"/a/{array.public_id}/?state=succeeded")).count('<tr id="element-') == 1
    assert "Stopped early by its sweep" in text(ada.get(f"/j/{jobs[0].public_id}/"))
    cloned = text(ada.get(f"/jobs/new?from={jobs[1].public_id}"))
    assert jobs[1].spec["env"]["lr"] in cloned and "search:" not in cloned
