"""The control on a job's page that gives its slices another size."""

import pytest
from django.conf import settings
from django.test import Client

from jobs.models import Task
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    cast = make.cast()
    cast.job = make.job(cast.ada, gpu="1/4", pool="dev")
    make.start(cast.job)
    return cast


def client_of(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def page_of(world, person) -> str:
    return client_of(person).get(f"/j/{world.job.public_id}/").content.decode()


def post(person, action: str, gpu: str, follow: bool = False):
    return client_of(person).post(action, {"gpu": gpu}, follow=follow, headers={"Origin": settings.TESSERA_PUBLIC_URL})


def test_the_owner_resizes_and_reads_that_it_is_under_way(world):
    action = f"/j/{world.job.public_id}/resize"
    assert f'action="{action}"' in page_of(world, world.ada)
    answer = post(world.ada, action, "1/2")
    assert answer.status_code == 302
    assert Task.objects.get(job=world.job).resize["gpu"] == "1/2"
    assert "The slice is being resized to 1/2." in page_of(world, world.ada)


def test_a_colleague_is_not_offered_it(world):
    assert "/resize" not in page_of(world, make.user("cyd", world.nlp))


def test_a_job_with_a_whole_card_is_not_offered_it(world):
    world.job = make.job(world.ada, gpu=1, pool="train")
    make.start(world.job)
    assert "/resize" not in page_of(world, world.ada)


def test_a_refusal_is_read_on_the_page(world):
    task = Task.objects.get(job=world.job)
    wish = {"gpu": "1/2", "by": "ada", "open": False, "refused": {"kind": "gpu", "detail": ""}}
    Task.objects.filter(pk=task.pk).update(resize=wish)
    assert "The slice was not resized to 1/2. The card has no room for more right now." in page_of(world, world.ada)


def test_what_cannot_be_is_said_in_words(world):
    for gpu, words in (("64GB", "is not less than the whole card"), ("7/4", "7/4")):
        answer = post(world.ada, f"/j/{world.job.public_id}/resize", gpu, follow=True)
        assert answer.redirect_chain == [(f"/j/{world.job.public_id}/", 302)]
        assert words in answer.content.decode()
