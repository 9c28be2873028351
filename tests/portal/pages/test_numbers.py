"""The Numbers tab of a job's page, and the page that compares jobs."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models import Task
from portal.pages.numbers import view_model
from reported_numbers.models import Report, Series
from tests import make
from tests.portal.pages.answered_browser import ADDRESS, Portal
from tests.web_process import elsewhere

pytestmark = pytest.mark.django_db


def make_world() -> make.Cast:
    cast = make.cast()
    cast.job = make.job(cast.ada, gpu="1/4", name="digits", env={"LR": "0.1"})
    make.start(cast.job)
    cast.task = cast.job.tasks.get()
    cast.other = make.job(cast.bob, gpu="1/4", name="digits", env={"LR": "0.2"})
    make.start(cast.other)
    make.numbers(cast.task, "val/loss", (10, 0.9), (20, 0.25), (30, 0.4))
    make.numbers(cast.task, "lr", (10, 1e-5))
    make.numbers(cast.other.tasks.get(), "val/loss", (10, 0.8), (30, 0.125))
    Task.objects.filter(job__in=[cast.job, cast.other]).update(state="RUNNING")
    return cast


@pytest.fixture
def cast():
    return make_world()


def show(person, path: str):
    client = Client()
    client.force_login(person)
    return client.get(path)


def text_of(person, path: str) -> str:
    answer = show(person, path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_tab_has_the_last_and_the_best_and_names_its_charts(cast):
    text = text_of(cast.ada, f"/j/{cast.job.public_id}/?tab=numbers")
    assert 'data-names="lr val/loss"' in text and "every 5s" in text
    for number in ("0.4", "0.25", "0.9", "1e-05"):
        assert f">{number} <small" in text
    assert f"/jobs/compare?job={cast.job.public_id}&amp;job={cast.other.public_id}" in text


def test_without_numbers_the_tab_says_how_they_are_reported(cast):
    Series.objects.all().delete()
    text = text_of(cast.ada, f"/j/{cast.job.public_id}/?tab=numbers")
    assert "tessera-report loss=0.31 step=100" in text and "tessera_report.report(" in text


def test_what_was_not_taken_is_said_with_its_reason(cast):
    Report.objects.filter(task=cast.task).update(refused=3, first_why="bad_name", first_what="<b>&")
    text = text_of(cast.ada, f"/j/{cast.job.public_id}/?tab=numbers")
    assert "3 lines or numbers were not taken" in text and "“&lt;b&gt;&amp;” is not a valid name" in text


def test_jobs_are_compared_with_what_differs_between_their_files(cast):
    text = text_of(cast.ada, f"/jobs/compare?job={cast.job.public_id}&job={cast.other.public_id}")
    assert f'data-jobs="{cast.other.public_id}"' in text
    assert "env.LR" in text and "<pre>0.1</pre>" in text and "<pre>0.2</pre>" in text
    assert ">0.25 <small" in text and ">0.125 <small" in text


def test_nobody_compares_what_they_may_not_see(cast):
    foreign = make.job(cast.eve, gpu="1/4")
    assert show(cast.ada, f"/jobs/compare?job={cast.job.public_id}&job={foreign.public_id}").status_code == 404
    assert show(cast.eve, f"/j/{cast.job.public_id}/?tab=numbers").status_code == 404
    text = text_of(cast.ada, f"/jobs/compare?job={cast.job.public_id}")
    assert "Choose the jobs to compare" in text


def test_chosen_jobs_of_the_list_are_compared(cast, settings):
    client = Client()
    client.force_login(cast.ada)
    ids = [cast.job.public_id, cast.other.public_id]
    answer = client.post("/jobs/act", {"do": "compare", "job": ids}, headers={"Origin": settings.TESSERA_PUBLIC_URL})
    assert answer["Location"] == f"/jobs/compare?job={ids[0]}&job={ids[1]}"


def test_of_very_many_a_part_is_shown_and_said_so(cast, monkeypatch):
    monkeypatch.setattr(view_model, "MOST_CURVES", 1)
    monkeypatch.setattr(view_model, "MOST_ROWS", 2)
    make.numbers(cast.task, "acc", (1, 0.5))
    text = text_of(cast.ada, f"/j/{cast.job.public_id}/?tab=numbers")
    assert 'data-names="acc"' in text and 'data-most="1"' in text and text.count('<td class="mono">') == 2
    assert f"tessera numbers {cast.job.public_id} --csv" in text


@pytest.mark.parametrize("path", ["/j/{job}/?tab=numbers", "/jobs/compare?job={job}&job={other}"])
def test_many_names_cost_as_many_queries_as_few(cast, path):
    path = path.format(job=cast.job.public_id, other=cast.other.public_id)
    client = Client()
    client.force_login(cast.ada)
    client.get(path)
    with CaptureQueriesContext(connection) as few:
        client.get(path)
    for name in range(20):
        make.numbers(cast.task, f"n{name}", (1, 2))
    with CaptureQueriesContext(connection) as many:
        client.get(path)
    assert len(many) == len(few)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_the_curves_are_drawn_read_by_keys_and_told_as_a_table(chromium):
    cast = elsewhere(make_world)
    client = elsewhere(signed_in, cast.ada)
    with chromium.new_context() as context:
        page = context.new_page()
        broken = []
        page.on("pageerror", lambda error: broken.append(error))
        page.on("console", lambda said: broken.append(said.text) if "Security Policy" in said.text else None)
        page.route("**/*", Portal(client, with_policy=True).answer)
        page.goto(f"{ADDRESS}/j/{cast.job.public_id}/?tab=numbers")
        chart = page.locator("figure.chart", has=page.get_by_role("heading", name="val/loss"))
        chart.locator("canvas").wait_for()
        assert "Last 0.4 at step 30, smallest 0.25, largest 0.9." in chart.inner_text()
        chart.locator(".chart-box").focus()
        page.keyboard.press("ArrowLeft")
        assert "step 20 0.25" in chart.locator(".chart-now").inner_text()
        chart.locator("summary").click()
        cells = chart.locator("tbody tr").first.locator("th, td").all_inner_texts()
        assert cells == ["30", "0.4"]
        elsewhere(report_more, cast.task)
        page.evaluate("document.body.dispatchEvent(new Event('live:refresh'))")
        page.get_by_role("heading", name="grad").wait_for()
        assert "Last 0.1 at step 40, smallest 0.1" in chart.inner_text()
        assert chart.locator("tbody tr").first.locator("th, td").all_inner_texts() == ["40", "0.1"]
        page.goto(f"{ADDRESS}/jobs/compare?job={cast.job.public_id}&job={cast.other.public_id}")
        chart.locator("canvas").wait_for()
        assert f"2 curves: smallest 0.1 ({cast.job.public_id})" in chart.inner_text()
        assert chart.locator(".keys li").all_inner_texts() == [cast.job.public_id, cast.other.public_id]
        assert not broken


def report_more(task: Task) -> None:
    make.numbers(task, "grad", (40, 3))
    make.numbers(task, "val/loss", (40, 0.1))


def signed_in(person) -> Client:
    client = Client()
    client.force_login(person)
    return client
