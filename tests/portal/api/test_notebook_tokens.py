"""Tokens of notebooks by REST and on their page."""

import pytest

from accounts.models import ApiToken
from events.models import Event
from notebooks.models import Notebook
from notebooks.services import create_notebook
from portal.access.app_sessions import load_visit
from sharing.models import NotebookToken
from sharing.tokens import MOST_OF_A_NOTEBOOK
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def notebook(cast):
    return create_notebook(user=cast.ada, name="lab", gpu="1/4")


def test_it_is_shown_once_listed_used_and_ended(ada, cast, notebook):
    address = f"notebooks/{notebook.public_id}/tokens"
    made = ada.post(address, {"name": "VS Code"})
    secret = made.json()["secret"]
    assert made.status_code == 201 and secret.startswith("tnb_") and made.json()["expires_at"] is None
    assert made.json()["url"].endswith(f"/?token={secret}")
    row = NotebookToken.objects.get()
    assert secret not in str(row.__dict__)
    label = made.json()["url"].partition("//")[2].partition(".")[0]
    assert load_visit(label, secret).name == notebook.public_id
    listed = ada.get(address).json()["results"]
    assert [one["name"] for one in listed] == ["VS Code"] and secret not in str(listed)
    assert listed[0]["last_used_at"] is not None and listed[0]["made_by"] == ApiToken.objects.get(user=cast.ada).pk
    assert ada.delete(f"{address}/{row.pk}").status_code == 204
    assert load_visit(label, secret) is None and ada.delete(f"{address}/{row.pk}").status_code == 404
    told = Event.objects.filter(kind="notebook", object_id=notebook.pk).values_list("verb", flat=True)
    assert {"token_made", "token_ended"} <= set(told)


def test_it_is_nobody_to_the_portal(ada, client, notebook):
    secret = ada.post(f"notebooks/{notebook.public_id}/tokens", {"name": "VS Code"}).json()["secret"]
    for way in ("Bearer", "token"):
        assert client.get("/api/v1/me", headers={"Authorization": f"{way} {secret}"}).status_code == 401
    assert client.get(f"/api/v1/me?token={secret}").status_code == 401


@pytest.mark.parametrize(
    ("asked", "field"),
    [({"name": " "}, "/name"), ({"name": "a", "days": 0}, "/days"), ({"name": "a", "days": 367}, "/days")],
)
def test_what_cannot_be_is_refused_by_field(ada, notebook, asked, field):
    refused = ada.post(f"notebooks/{notebook.public_id}/tokens", asked)
    assert refused.status_code == 400 and [one["pointer"] for one in refused.json()["errors"]] == [field]


def test_a_notebook_has_only_so_many(ada, notebook):
    made = [ada.post(f"notebooks/{notebook.public_id}/tokens", {"name": "x"}) for _ in range(MOST_OF_A_NOTEBOOK + 1)]
    assert [one.status_code for one in made[-2:]] == [201, 400]


def test_an_admin_ends_but_never_makes_one(ada, cast, notebook, client, settings):
    ada.post(f"notebooks/{notebook.public_id}/tokens", {"name": "VS Code"})
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(make.admin())
    page = f"/n/{notebook.public_id}/addresses"
    assert client.post(page, {"name": "mine", "days": "30"}).status_code == 403
    assert client.post(f"{page}/{NotebookToken.objects.get().pk}/end").status_code == 302
    assert not NotebookToken.objects.exists()


def test_the_page_shows_the_address_once(cast, notebook, client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(cast.ada)
    page = f"/n/{notebook.public_id}/addresses"
    made = client.post(page, {"name": "PyCharm", "days": "ended"})
    assert "/?token=tnb_" in made.content.decode() and NotebookToken.objects.get().expires_at is None
    again = client.get(page).content.decode()
    assert "PyCharm" in again and "?token=" not in again
    assert client.post(page, {"name": "", "days": "30"}).status_code == 400
    assert Notebook.objects.get().tokens.count() == 1
