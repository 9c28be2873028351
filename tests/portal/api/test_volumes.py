"""Volumes by REST: administrators name them, people of their teams see them."""

import pytest

from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(cast):
    return Api(make.token(make.admin()))


def test_an_administrator_names_changes_and_forgets_one(root, ada, eve, cast):
    asked = {"name": "imagenet", "source": "/data/imagenet", "team": "nlp", "description": "Pictures"}
    made = root.post("volumes", asked)
    shown = made.json()
    assert made.status_code == 201 and made["Location"].endswith(f"/api/v1/volumes/{shown['id']}")
    assert (shown["read_only"], shown["team"], shown["source"]) == (True, "nlp", "/data/imagenet")
    at = f"volumes/{shown['id']}"
    assert [row["name"] for row in ada.get("volumes").json()["results"]] == ["imagenet"]
    assert eve.get("volumes").json()["results"] == [] and eve.get(at).status_code == 404
    assert root.patch(at, {"read_only": False}).json()["read_only"] is False
    assert ada.patch(at, {"read_only": True}).status_code == 403 and ada.delete(at).status_code == 403
    job = make.job(cast.ada, data={"in": "volume:imagenet"}, pool="dev")
    refused = root.delete(at)
    assert refused.status_code == 409 and job.public_id in refused.json()["detail"]
    make.start(job)
    make.end(job)
    assert root.delete(at).status_code == 204 and root.get(at).status_code == 404


def test_what_cannot_be_one_is_refused_with_its_field(root, ada):
    for wrong in ({"source": "data"}, {"source": "/etc"}, {"name": "A"}, {"team": "nobody"}):
        answer = root.post("volumes", {"name": "imagenet", "source": "/data", **wrong})
        assert answer.status_code == 400 and f"/{next(iter(wrong))}" in answer.content.decode()
    assert ada.post("volumes", {"name": "imagenet", "source": "/data"}).status_code == 403
    root.post("volumes", {"name": "imagenet", "source": "/data"})
    assert root.post("volumes", {"name": "imagenet", "source": "/data"}).status_code == 409
