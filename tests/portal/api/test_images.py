"""The catalogue and the logins by REST."""

import pytest

from cluster.models import Cached
from images.models import Image, Login
from runtimes.images.names import make_image_key
from tests import make
from tests.api_client import BASE, Api

pytestmark = pytest.mark.django_db
LINE = {"alias": "torch", "reference": "registry.corp/nlp/train:3", "team": "nlp"}
LOGIN = {"registry": "registry.corp", "user": "robot", "password": "s3cret", "team": "nlp"}
DIGEST = "sha256:" + "a" * 64


def patch(api: Api, path: str, body: dict):
    return api.client.patch(BASE + path, body, content_type="application/json", headers=api.headers)


def wrong(answer) -> list[str]:
    assert answer.status_code == 400, answer.content
    return [error["pointer"] for error in answer.json()["errors"]]


@pytest.fixture
def root(cast):
    return Api(make.token(make.admin()))


def test_a_line_is_made_changed_and_taken_out_by_the_teams_lead(bob, eve, ada):
    made = bob.post("images", LINE)
    assert made.status_code == 201 and made["Location"].endswith(f"/images/{made.json()['id']}")
    path = f"images/{made.json()['id']}"
    assert ada.get(path).json()["alias"] == "torch" and eve.get(path).status_code == 404
    assert patch(ada, path, {"alias": "other"}).status_code == 403
    assert patch(bob, path, {"description": "With CUDA"}).json()["description"] == "With CUDA"
    assert bob.post("images", LINE).status_code == 409
    assert bob.delete(path).status_code == 204 and not Image.objects.exists()


def test_what_is_everybodys_is_an_admins(root, bob, eve):
    body = {**LINE, "team": None}
    assert bob.post("images", body).status_code == 403
    assert root.post("images", body).status_code == 201
    assert [line["team"] for line in eve.get("images").json()["results"]] == [None]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"alias": "Torch"}, "/alias"),
        ({"alias": "a/b"}, "/alias"),
        ({"reference": "http://registry.corp/x"}, "/reference"),
        ({"reference": "x y"}, "/reference"),
        ({"team": "vision"}, "/team"),
    ],
)
def test_what_is_wrong_is_named(bob, change, field):
    assert wrong(bob.post("images", LINE | change)) == [field]


def test_the_machines_that_hold_it_are_named(cast, bob):
    made = bob.post("images", LINE).json()
    Image.objects.update(digest=DIGEST)
    make.node("n2", pool=cast.dev)
    for node, name in ((cast.node, f"registry.corp/nlp/train@{DIGEST}"), (cast.node, "registry.corp/nlp/train:3")):
        Cached.objects.create(node=node, kind="image", key=make_image_key(name), bytes=7)
    found = bob.get(f"images/{made['id']}").json()
    assert (found["nodes"], found["of_nodes"]) == (["n1"], 2)
    Image.objects.update(digest="sha256:" + "b" * 64)
    assert bob.get(f"images/{made['id']}").json()["nodes"] == []


def test_a_login_is_kept_without_its_password_coming_back(bob, ada, eve):
    made = bob.post("registries", LOGIN)
    assert made.status_code == 201 and "s3cret" not in made.content.decode()
    path = f"registries/{made.json()['id']}"
    for api in (ada, eve):
        assert api.get(path).status_code == 404 and api.get("registries").json()["results"] == []
    before = Login.objects.get().sealed
    assert "new" not in patch(bob, path, {"password": "new one"}).content.decode()
    assert Login.objects.get().sealed != before
    assert bob.post("registries", LOGIN).status_code == 409
    assert bob.delete(path).status_code == 204 and not Login.objects.exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"registry": "https://registry.corp"}, "/registry"),
        ({"registry": "corp"}, "/registry"),
        ({"team": "x"}, "/team"),
    ],
)
def test_a_login_that_cannot_be_is_named(bob, change, field):
    assert wrong(bob.post("registries", LOGIN | change)) == [field]
