"""The price of high priority in the form, on a job's page and on Quota."""

import json

import pytest
from django.conf import settings

from cluster.models import HighPriority, Pool
from jobs.models import Job
from tests import make

pytestmark = pytest.mark.django_db

ASK = {"run": "true", "gpu": 1, "pool": "train", "time": "4h", "priority": "high"}


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture
def dear(cast):
    Pool.objects.update(high_priority=HighPriority.CONSENT)


@pytest.fixture
def budget(cast):
    Pool.objects.update(high_priority=HighPriority.BUDGET, high_gpu_hours=10)


@pytest.fixture
def post(client):
    def post(path, data, **more):
        return client.post(path, data, headers={"Origin": settings.TESSERA_PUBLIC_URL}, **more)

    return post


def yaml(**more) -> str:
    return json.dumps({**ASK, **more})


def test_the_form_says_it_before_the_click_and_refuses_at_the_field(cast, client, post, dear):
    client.force_login(cast.ada)
    said = post("/jobs/new/sync", {"yaml": yaml(), "touched": ""}).json()
    assert "needs the consent of a lead of the team nlp: bob" in said["errors"]["priority"]
    assert (said["preview"]["words"], said["preview"]["more"]) == (said["errors"]["priority"], [])
    refused = post("/jobs/new", {"yaml": yaml(), "touched": ""})
    assert refused.status_code == 403 and "consent of a lead" in refused.content.decode()
    client.force_login(cast.bob)
    assert post("/jobs/new", {"yaml": yaml(), "touched": ""}).status_code == 302


def test_the_form_tells_what_is_left_of_a_budget(cast, client, post, budget):
    client.force_login(cast.ada)
    said = post("/jobs/new/sync", {"yaml": yaml(), "touched": ""}).json()
    assert any("10 of 10 GPU hours are left this week" in line for line in said["preview"]["more"])
    said = post("/jobs/new/sync", {"yaml": yaml(priority="normal"), "touched": ""}).json()
    assert not any("GPU hours" in line for line in said["preview"]["more"])
    said = post("/jobs/new/sync", {"yaml": yaml(time="20h"), "touched": ""}).json()
    assert "this asks for 20" in said["errors"]["priority"]


def test_a_copy_of_a_raised_job_is_priced_like_any_other(cast, client, post, dear):
    job = make.job(cast.ada, **{**ASK, "priority": "normal"})
    client.force_login(cast.bob)
    post(f"/j/{job.public_id}/change", {"field": "priority", "value": "high"})
    client.force_login(cast.ada)
    page = client.get(f"/jobs/new?from={job.public_id}")
    text = page.context["edited"].text
    assert post("/jobs/new", {"yaml": text, "touched": ""}).status_code == 403


def test_a_lead_raises_a_waiting_job_in_one_click(cast, client, post, dear):
    job = make.job(cast.ada, **{**ASK, "priority": "normal"})
    page, click = f"/j/{job.public_id}/", {"field": "priority", "value": "high"}
    client.force_login(cast.ada)
    assert "Raise to high priority" not in client.get(page).content.decode()
    told = post(f"{page}change", click, follow=True).content.decode()
    assert "needs the consent of a lead of the team nlp: bob" in told
    client.force_login(cast.bob)
    assert "Raise to high priority" in client.get(page).content.decode()
    assert "Lower to normal priority" in post(f"{page}change", click, follow=True).content.decode()
    assert Job.objects.get(pk=job.pk).priority == 2


def test_quota_tells_the_price_of_each_pool(cast, client):
    Pool.objects.filter(name="train").update(high_priority=HighPriority.CONSENT)
    Pool.objects.filter(name="dev").update(high_priority=HighPriority.BUDGET, high_gpu_hours=3)
    client.force_login(cast.ada)
    page = client.get("/quota/").content.decode()
    assert "High priority: 3 of 3 GPU hours are left this week" in page
    assert "High priority needs the consent of a lead: bob." in page
