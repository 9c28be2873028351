"""What would let a waiting job start sooner, on its page: asked for later, by its owner only."""

import pytest
from django.conf import settings
from django.utils import timezone

from jobs.models import Job
from scheduler.models import Lease
from tests import make

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
