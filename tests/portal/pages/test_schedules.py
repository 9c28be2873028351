"""The pages of schedules: the list, the form with its next times, runs, and what the page of a job says."""

import pytest
from django.utils.html import escape

from jobs.models import Job
from notebooks.services import create_notebook
from portal.schedules.run_words import describe_why
from quotas.models import Quota
from schedules.cron import describe_cron
from schedules.models import Overlap, Schedule, ScheduledRun
from schedules.services import suspend_schedule
from tests import make

pytestmark = pytest.mark.django_db
FORM = {
    "name": "nightly", "cron": "30 2 * * 1-5", "zone": "Europe/Berlin", "overlap": "skip", "missed": "run_once",
    "until": "", "keep": "20", "job_file": "run: python train.py\nteam: nlp\npool: dev\n",
}  # fmt: skip


@pytest.fixture
def cast():
    return make.cast()


def sign_in(client, person, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(person)
    return client


@pytest.fixture
def ada(cast, client, settings):
    return sign_in(client, cast.ada, settings)


def text(answer) -> str:
    return answer.content.decode()


def test_one_is_made_by_form_and_listed(ada):
    assert "No schedules yet" in text(ada.get("/schedules/"))
    page = text(ada.post("/schedules/new", FORM, follow=True))
    assert "The schedule “nightly” is made." in page and "Nothing has run yet" in page
    assert "30 2 * * 1-5" in text(ada.get("/schedules/"))
    assert Schedule.objects.get().zone == "Europe/Berlin"


def test_a_notebook_is_chosen_instead_of_a_job(ada, cast):
    notebook = create_notebook(user=cast.ada, name="explore", gpu="0", pool="dev")
    form = text(ada.get(f"/schedules/new?notebook={notebook.public_id}"))
    assert f'<option value="{notebook.public_id}" selected>explore</option>' in form
    chosen = {**FORM, "notebook": notebook.public_id, "stop_at": "19:30", "overlap": "queue"}
    page = text(ada.post("/schedules/new", chosen, follow=True))
    assert f'href="/n/{notebook.public_id}/"' in page and "and stops it at 19:30" in page
    made = Schedule.objects.get()
    assert (made.notebook, made.job_file, made.overlap) == (notebook, "", Overlap.SKIP)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cron": "daily"}, "is not a valid cron line"),
        ({"zone": "Berlin"}, "is not a time zone"),
        ({"job_file": "gpu: 1\nteam: nlp\n"}, "job_file.run is missing"),
        ({"job_file": FORM["job_file"] + "gpu: 64\n"}, "such GPUs"),
        ({"keep": "0"}, "greater than or equal to 1"),
        ({"until": "2020-01-01T00:00"}, "Choose a later end"),
    ],
)
def test_what_is_wrong_stands_at_its_field_and_nothing_typed_is_lost(ada, change, words):
    answer = ada.post("/schedules/new", {**FORM, **change})
    assert answer.status_code == 400 and not Schedule.objects.exists()
    assert words in text(answer)
    typed = {**FORM, **change}
    assert all(escape(typed[name].strip()) in text(answer) for name in ("name", "cron", "zone", "job_file"))


def test_the_next_times_are_shown_as_the_line_is_typed(ada):
    asked = {"cron": "30 2 * * 1-5", "zone": "Europe/Berlin"}
    shown = text(ada.get("/schedules/times", asked))
    assert shown.count("<li>") == 5 and "2:30 a.m. (Europe/Berlin)" in shown
    words = describe_cron(asked["cron"])
    assert words in shown
    assert "is not a valid cron line" in text(ada.get("/schedules/times", {**asked, "cron": "30 2"}))
    assert "<li>" not in text(ada.get("/schedules/times", {**asked, "zone": "nowhere"}))
    assert "<li>" not in text(ada.get("/schedules/times", {**asked, "until": "2020-01-01T00:00"}))
    assert words not in text(ada.get("/schedules/times", asked, headers={"Accept-Language": "zh-hans"}))


def test_it_is_run_suspended_resumed_and_deleted(ada, cast):
    at = f"/schedules/{make.schedule(cast.ada).public_id}"
    went = ada.post(f"{at}/run")
    job = Job.objects.get()
    assert went["Location"] == f"/j/{job.public_id}/"
    assert f'<a href="{at}/">nightly</a>' in text(ada.get(f"/j/{job.public_id}/"))
    assert "had not ended" in text(ada.post(f"{at}/run", follow=True))
    assert "Resume" in text(ada.post(f"{at}/suspend", follow=True))
    assert "Suspend" in text(ada.post(f"{at}/resume", follow=True))
    assert "is deleted" in text(ada.post(f"{at}/delete", follow=True)) and not Schedule.objects.exists()
    assert Job.objects.get() == job


def test_a_refused_run_says_why_there(ada, cast):
    at = f"/schedules/{make.schedule(cast.ada).public_id}"
    Quota.objects.filter(team=cast.nlp).delete()
    page = text(ada.post(f"{at}/run", follow=True))
    assert page.count(describe_why(ScheduledRun.objects.get())) == 2  # the message, and the run


def test_one_is_made_of_a_job(ada, cast):
    job = make.job(cast.ada, pool="dev", name="train", gpu="1/4")
    assert f"/schedules/new?from={job.public_id}" in text(ada.get(f"/j/{job.public_id}/"))
    page = text(ada.get("/schedules/new", {"from": job.public_id}))
    assert f"The job file is that of {job.public_id}." in page and "gpu: 1/4" in page
    assert ada.get("/schedules/new", {"from": "job-999"}).status_code == 404


def test_the_lead_sees_and_suspends_it_and_may_not_change_it(cast, client, settings):
    schedule = make.schedule(cast.ada)
    bob = sign_in(client, cast.bob, settings)
    at = f"/schedules/{schedule.public_id}"
    page = text(bob.get(f"{at}/"))
    assert "Suspend" in page and "Run now" not in page and "python train.py" in page
    assert bob.post(f"{at}/", FORM).status_code == bob.post(f"{at}/run").status_code == 403
    assert bob.post(f"{at}/suspend").status_code == 302
    assert Schedule.objects.get().state == "suspended"


def test_the_form_shows_what_it_is_and_changes_it(ada, cast):
    schedule = make.schedule(cast.ada, overlap=Overlap.REPLACE)
    at = f"/schedules/{schedule.public_id}/"
    assert 'value="replace" selected' in text(ada.get(at))
    assert "Saved." in text(ada.post(at, {**FORM, "until": "2100-01-01T10:00"}, follow=True))
    schedule.refresh_from_db()
    assert (schedule.cron, schedule.overlap) == ("30 2 * * 1-5", "skip") and schedule.until.year == 2100
    assert 'value="2100-01-01T10:00"' in text(ada.get(at))


def test_a_page_of_many_costs_few_queries(ada, cast, django_assert_max_num_queries):
    for number in range(12):
        make.schedule(cast.ada, name=f"s{number}")
        if number % 2:
            suspend_schedule(actor=cast.ada, schedule=Schedule.objects.latest("pk"))
    ada.get("/schedules/")
    with django_assert_max_num_queries(16):
        assert text(ada.get("/schedules/")).count("row-sch-") == 12
