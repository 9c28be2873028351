"""A job that waits in several pools, on the pages."""

import time

import pytest
from django.utils import timezone

from jobs.models import Job
from tests import make
from tests.one_cycle import decide, perform

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """eve has both cards; ada's job waits in train and in dev, and bob's behind it in dev."""
    cast = make.cast()
    for pool in ("train", "dev"):
        make.start(make.job(cast.eve, gpu="1", pool=pool))
    cast.job = make.job(cast.ada, gpu="1", name="either")
    cast.behind = make.job(cast.bob, gpu="1", pool="dev", name="second")
    perform(decide(time.time()))
    cast.job = Job.objects.get(pk=cast.job.pk)
    return cast


def look(client, person, address) -> str:
    client.force_login(person)
    return client.get(address).content.decode()


def test_its_page_says_where_it_is_to_start_first_and_where_else_it_waits(cast, client):
    page = look(client, cast.ada, f"/j/{cast.job.public_id}/")
    told, other = cast.job.told_pool_name, {"train": "dev", "dev": "train"}[cast.job.told_pool_name]
    assert "pool train or dev" in page and f"in pool {told}. It also waits in {other}, and starts" in page
    assert f"In pool {told}: " in page and f'href="/queue/?pool={told}"' in page
    assert "Submitted to pool train or dev" in look(client, cast.ada, f"/j/{cast.job.public_id}/?tab=events")


def test_its_position_says_of_which_pool_it_is_also_while_it_is_held(cast, client):
    places = [{"pool": cast.dev.pk, "name": "dev", "position": 1, "of": 1}]
    places.append({"pool": cast.train.pk, "name": "train", "position": 2, "of": 3})
    held = {"held_at": timezone.now(), "held_by": "ada"}
    Job.objects.filter(pk=cast.job.pk).update(wait_position=1, wait_of=1, wait_places=places, **held)
    page = look(client, cast.ada, f"/j/{cast.job.public_id}/")
    assert "keeps its place in pool train or dev" in page and "1 <small>of 1 in dev</small>" in page
    Job.objects.filter(pk=cast.behind.pk).update(wait_position=2, wait_of=2)
    assert "2 <small>of 2</small>" in look(client, cast.bob, f"/j/{cast.behind.public_id}/")


def test_the_queue_of_each_pool_has_it_at_its_place_there(cast, client):
    page = look(client, cast.ada, "/queue/")
    assert page.count(f'href="/j/{cast.job.public_id}/"') == 2 and page.count(f'id="{cast.job.public_id}"') == 1
    assert "3 jobs are waiting" not in page and "2 jobs are waiting for 2 GPUs" in page
    train, dev = look(client, cast.ada, "/queue/?pool=train"), look(client, cast.ada, "/queue/?pool=dev")
    assert "either" in train and "second" not in train and "It also waits in dev" in train
    assert dev.index("either") < dev.index("second") and "It also waits in train" in dev


def test_the_form_offers_all_pools_and_copies_a_job_that_named_none(cast, client):
    page = look(client, cast.ada, f"/jobs/new?from={cast.job.public_id}")
    assert "All that suit: it starts in the first with room" in page and "pool: train" not in page
