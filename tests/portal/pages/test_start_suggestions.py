"""What would let a waiting job start sooner, on its page: asked for later, by its owner only."""

import pytest
from django.conf import settings
from django.utils import timezone

from jobs.models import Job
from scheduler.models import Lease
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(db):
    """ada's job waits for the card of train, which eve's has for an hour; dev is free."""
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    cast = make.cast()
    make.start(make.job(cast.eve, gpu="1", pool="train", time="1h"))
    cast.job = make.job(cast.ada, gpu="1", pool="train")
    return cast


@pytest.fixture
def look(client):
    def look(person, job, target=""):
        client.force_login(person)
        headers = {"HX-Request": "true", "HX-Target": target} if target else {}
        return client.get(f"/j/{job.public_id}/", headers=headers).content.decode()

    return look


def apply(client, job, field, value):
    change = {"field": field, "value": value}
    return client.post(
        f"/j/{job.public_id}/change", change, follow=True, headers={"Origin": settings.TESSERA_PUBLIC_URL}
    )


def test_the_page_asks_for_them_and_does_not_work_them_out_itself(waiting, look):
    page = look(waiting.ada, waiting.job)
    assert 'id="levers"' in page and 'hx-trigger="load"' in page and "Pool dev" not in page


def test_each_has_its_start_and_is_applied_by_one_click(waiting, look, client):
    part = look(waiting.ada, waiting.job, "levers")
    assert "Pool dev instead of train" in part and "starts now" in part
    assert 'name="field" value="pool"' in part and 'name="value" value="dev"' in part
    sent = apply(client, waiting.job, "pool", "dev")
    assert (
        sent.redirect_chain == [(f"/j/{waiting.job.public_id}/", 302)]
        and Job.objects.get(pk=waiting.job.pk).pool == waiting.dev
    )
    page = client.get(f"/j/{waiting.job.public_id}/?tab=events").content.decode()
    assert "Changed while waiting: pool from train to dev" in page


def test_what_can_no_longer_be_applied_is_said(waiting, look, client):
    client.force_login(waiting.ada)
    for field, value in (("pool", "none"), ("nodes", "9"), ("run", "true")):
        assert [*apply(client, waiting.job, field, value).context["messages"]]
    assert Job.objects.get(pk=waiting.job.pk).spec == waiting.job.spec


def test_they_are_the_owners(waiting, look):
    assert 'id="levers"' not in look(waiting.bob, waiting.job)
    assert "Pool dev" not in look(waiting.bob, waiting.job, "levers")
    assert "Pool dev" not in look(waiting.eve, waiting.job, "levers")


def test_a_job_that_is_held_is_not_looked_at(waiting, look):
    Job.objects.filter(pk=waiting.job.pk).update(held_at=timezone.now(), held_by="ada")
    assert 'id="levers"' not in look(waiting.ada, waiting.job)
    assert "Pool dev" not in look(waiting.ada, waiting.job, "levers")


def test_where_nothing_helps_it_says_so(waiting, look):
    make.start(make.job(waiting.eve, gpu="1", pool="dev", time="2h"))
    assert "No single change would save" in look(waiting.ada, waiting.job, "levers")


def test_of_a_chain_the_link_that_decides_is_named_and_its_levers_are_shown(waiting, look, client):
    """job waits for a card; second starts after it, third after that and after one that is about to end."""
    second = make.job(waiting.ada, gpu="1/4", pool="dev", after=waiting.job.public_id)
    short = make.job(waiting.ada, gpu="1/4", pool="dev", time="1m")
    before = [waiting.job.public_id, second.public_id, short.public_id]
    third = make.job(waiting.ada, gpu="1/4", pool="dev", after=before)
    assert "Pool dev" in look(waiting.ada, third, "levers")
    page = look(waiting.ada, third)
    assert f"{waiting.job.public_id} decides when it starts, by way of {second.public_id}" in page
    part = look(waiting.ada, third, "levers")
    assert f"Let {waiting.job.public_id} start sooner" in part
    assert f'action="/j/{waiting.job.public_id}/change"' in part
    api = Api(make.token(waiting.ada))
    assert api.get(f"jobs/{third.public_id}/wait").json()["decided_by"]["job"] == waiting.job.public_id
    levers = api.get(f"jobs/{third.public_id}/levers").json()
    assert (levers["job"], levers["levers"][0]["field"]) == (waiting.job.public_id, "pool")
    colleagues = make.job(waiting.bob, gpu="1/4", pool="dev", after=second.public_id)
    assert 'id="levers"' not in look(waiting.bob, colleagues)  # it is ada's to change
    assert api.get(f"jobs/{waiting.job.public_id}/wait").json()["decided_by"] is None
    make.start(short)
    fourth = make.job(waiting.ada, gpu="1/4", pool="dev", after=short.public_id)
    page = look(waiting.ada, fourth)
    assert f"{short.public_id} decides when it starts: it runs until about" in page and 'id="levers"' not in page
