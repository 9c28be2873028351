"""Images on pages: the catalogue, what a machine holds, the form's choice, and what a job runs."""

import pytest
from django.test import Client

from cluster.models import Cached
from images.models import Image
from portal.pages.jobs import submit
from runtimes.images.names import make_image_key
from tests import make

pytestmark = pytest.mark.django_db
DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def cast():
    cast = make.cast()
    make.image(make.admin(), alias="torch", reference="registry.corp/nlp/train:3")
    make.image(cast.bob, cast.nlp, alias="own", reference="registry.corp/nlp/own:1")
    Image.objects.update(digest=DIGEST)
    name = make_image_key(f"registry.corp/nlp/train@{DIGEST}")
    Cached.objects.create(node=cast.node, kind="image", key=name, bytes=3_000_000_000)
    return cast


def page(person, path: str) -> str:
    client = Client()
    client.force_login(person)
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_catalogue_says_what_there_is_and_where(cast):
    shown = page(cast.ada, "/cluster/images/")
    assert "The catalogue has 2 images." in shown and "on 1 of 1 machines" in shown and "on 0 of 1 machines" in shown
    others = page(cast.eve, "/cluster/images/")
    assert "torch" in others and "registry.corp/nlp/own" not in others


def test_a_machine_says_what_it_holds(cast):
    assert "registry.corp/nlp/train" in page(cast.eve, "/nodes/n1/")


def test_the_form_offers_the_catalogue_where_there_are_containers(cast, monkeypatch, settings):
    assert 'id="job-image"' not in page(cast.ada, "/jobs/new")
    monkeypatch.setattr(submit, "runtime_has_containers", lambda: True)
    shown = page(cast.ada, "/jobs/new")
    assert '<option value="own">' in shown and 'list="job-images"' in shown
    assert "none: the programs of the machine" in shown and "default image" not in shown
    settings.IN_CONTAINERS = True
    assert "the default image of this installation" in page(cast.ada, "/jobs/new")
    settings.TESSERA_IMAGES = "catalogue"
    shown = page(cast.ada, "/jobs/new")
    assert '<select class="form-select" id="job-image"' in shown and '<option value="own">' in shown


def test_a_job_says_what_it_runs_and_whether_that_is_pinned(cast):
    pinned, other = (make.job(cast.ada, pool="dev", image=name) for name in ("torch", "busybox:1"))
    assert f"registry.corp/nlp/train:3@{DIGEST}" in page(cast.ada, f"/j/{pinned.public_id}/")
    assert "not pinned" in page(cast.ada, f"/j/{other.public_id}/")
