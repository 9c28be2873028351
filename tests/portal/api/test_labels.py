"""Labels of jobs, changed by REST and on the job's page, also of those that ended."""

import pytest
from django.conf import settings as conf

from events.models import Event
from jobs.models import Job
from portal.wording.events import describe_event
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(cast):
    return make.job(cast.ada, gpu="1/4", pool="dev", labels={"exp": "a", "old": ""})


def label(person, job, labels, **others):
    return person.patch(f"jobs/{job.public_id}", {"labels": labels, **others})


def labels_of(job):
    after = Job.objects.get(pk=job.pk)
    assert after.spec["labels"] == after.labels
    return after.labels


def test_names_left_out_stay_and_null_removes_one(ada, job):
    answer = label(ada, job, {"exp": "b", "seed": 3, "old": None})
    assert answer.status_code == 200 and answer.json()["spec"]["labels"] == {"exp": "b", "seed": "3"}
    assert labels_of(job) == {"exp": "b", "seed": "3"}
    event = Event.objects.get(verb="labels_changed")
    assert (event.actor, describe_event(event)) == ("ada", "Labels set: exp:b, seed:3; removed: old")
    assert label(ada, job, None).status_code == 200 and labels_of(job) == {}


def test_what_is_so_already_is_no_event(ada, job):
    assert label(ada, job, {"exp": "a", "none": None}).status_code == 200
    assert not Event.objects.filter(verb="labels_changed").exists()


def test_a_job_that_ended_is_labelled_and_found(ada, cast, job):
    ada.post(f"jobs/{job.public_id}:stop")
    assert label(ada, job, {"good": ""}).status_code == 200
    assert [one["id"] for one in ada.get("jobs?label=good").json()["results"]] == [job.public_id]
    assert describe_event(Event.objects.get(verb="labels_changed")) == "Labels set: good"


@pytest.mark.parametrize(
    ("labels", "pointer", "code"),
    [
        ({"a b": "x"}, "/labels/a b", "bad_label_name"),
        ({"exp": ["x"]}, "/labels/exp", None),
        ([], "/labels", None),
        ({f"n{i}": "" for i in range(31)}, "/labels", "too_many"),
    ],
)
def test_wrong_labels_are_told_by_their_field_and_nothing_is_written(ada, job, labels, pointer, code):
    answer = label(ada, job, labels, time="2h")
    (error, *_) = answer.json()["errors"]
    assert (answer.status_code, error["pointer"]) == (400, pointer)
    assert code in (None, error["code"])
    assert labels_of(job) == {"exp": "a", "old": ""} and Job.objects.get(pk=job.pk).time_s is None


def test_labels_change_together_with_what_it_asks_for(ada, job):
    assert label(ada, job, {"exp": "b"}, time="2h").status_code == 200
    assert labels_of(job)["exp"] == "b" and Job.objects.get(pk=job.pk).time_s == 7200
    assert ada.patch(f"jobs/{job.public_id}", {"time": "3h"}).json()["spec"]["labels"]["exp"] == "b"


def test_a_lead_may_a_team_mate_may_not_and_a_stranger_sees_nothing(bob, eve, cast, job):
    mate = Api(make.token(make.user("mia", cast.nlp)))
    assert label(mate, job, {"exp": "b"}).status_code == 403
    assert label(eve, job, {"exp": "b"}).status_code == 404
    assert labels_of(job) == {"exp": "a", "old": ""}
    assert label(bob, job, {"exp": "b"}).status_code == 200
    assert label(bob, job, {"exp": "c"}, time="2h").status_code == 403
    assert labels_of(job) == {"exp": "b", "old": ""}


def test_the_page_edits_them_as_lines_and_links_to_the_jobs_that_have_one(client, cast, job):
    client.force_login(cast.ada)
    other = make.job(cast.ada, gpu="1/4", pool="dev", name="other")

    def post(lines):
        return client.post(f"/j/{job.public_id}/label", {"labels": lines}, headers={"Origin": conf.TESSERA_PUBLIC_URL})

    assert post("exp: c\n\n good \nseed=4\n").status_code == 302
    assert labels_of(job) == {"exp": "c", "good": "", "seed": "4"}
    page = client.get(f"/j/{job.public_id}/").content.decode()
    assert 'href="/jobs/?whose=team&amp;label=exp%3Ac"' in page and "exp:c\ngood\nseed:4" in page
    found = client.get("/jobs/?whose=team&label=exp%3Ac").content.decode()
    assert f"row-{job.public_id}" in found and f"row-{other.public_id}" not in found
    post("a b: x")
    assert "is not a valid label name" in client.get(f"/j/{job.public_id}/").content.decode()
    assert labels_of(job) == {"exp": "c", "good": "", "seed": "4"}
