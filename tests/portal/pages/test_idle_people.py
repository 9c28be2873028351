"""Who is away, on the page and by the API: all for admins, a lead's members for a lead, nothing for others."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from files.models import PlaceUsage
from notebooks.services import create_notebook
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    cast = make.cast()
    cast.root = make.admin()
    create_notebook(user=cast.ada, name="lab", gpu="1/4")
    create_notebook(user=cast.eve, name="lab", gpu="1/4")
    PlaceUsage.objects.create(kind="home", number=cast.ada.uid, bytes=12 * 10**9, files=9)
    User.objects.filter(pk__in=[cast.ada.pk, cast.eve.pk]).update(joined_at=timezone.now() - timedelta(days=40))
    User.objects.filter(pk=cast.ada.pk).update(last_login=timezone.now() - timedelta(days=35), full_name="Ada L.")
    return cast


@pytest.fixture
def look(client):
    def look(person, path="/idle/people/"):
        client.force_login(person)
        return client.get(path)

    return look


def test_an_admin_sees_everybody_and_what_they_hold(cast, look):
    page = look(cast.root).content.decode()
    assert "2 people have been away for long" in page and "Ada L." in page
    assert "1 notebook, 12 GB in the home" in page and "never, for 40 days" in page and "not yet" in page
    assert page.index(">eve<") < page.index("Ada L.")


def test_a_lead_sees_their_members_without_homes(cast, look):
    page = look(cast.bob).content.decode()
    assert "1 person has been away" in page and "Ada L." in page and "12 GB in" not in page and ">eve<" not in page


def test_others_see_neither_page_nor_tab(cast, look):
    assert look(cast.eve).status_code == 403
    assert "/idle/people/" not in look(cast.eve, "/idle/").content.decode()
    assert "/idle/people/" in look(cast.bob, "/idle/").content.decode()


def test_the_api_tells_the_same(cast, client):
    def ask(person):
        return client.get("/api/v1/idle-people", headers={"Authorization": f"Bearer {make.token(person)}"})

    rows = {row["user"]: row for row in ask(cast.root).json()["results"]}
    assert rows["ada"]["days"] == 35 and rows["ada"]["home_bytes"] == 12 * 10**9 and rows["ada"]["notebooks"] == 1
    assert rows["ada"]["held"] == "1 notebook, 12 GB in the home" and rows["eve"]["seen_at"] is None
    assert [row["user"] for row in ask(cast.bob).json()["results"]] == ["ada"]
    assert ask(cast.eve).status_code == 403


def test_nobody_away_is_said(cast, look):
    User.objects.update(joined_at=timezone.now())
    assert "Nobody is away for long" in look(cast.root).content.decode()


def test_switched_off_is_said(cast, look, settings):
    settings.TESSERA_AWAY_DAYS = 0
    assert "TESSERA_AWAY_DAYS is 0 here" in look(cast.root).content.decode()
