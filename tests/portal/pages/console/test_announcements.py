"""Announcements and planned maintenance at the top of each page: for whom, from when, until when, and put away."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Announcement
from events.models import Event
from tests import make
from tests.api_client import BASE, Api
from tests.browser import browser

pytestmark = pytest.mark.django_db
LIST = "/console/announcements/"


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture(autouse=True)
def here(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


def test_everybody_or_one_team_reads_it_until_it_ends(cast):
    root, ada, eve = browser(make.admin()), browser(cast.ada), browser(cast.eve)
    root.post(LIST, {"text": "New fans <b>on Friday</b>", "tone": "idle"})
    root.post(LIST, {"text": "Only for nlp", "tone": "plain", "team": cast.nlp.pk})
    assert "New fans &lt;b&gt;on Friday&lt;/b&gt;" in eve.get("/queue/").content.decode()
    assert "Only for nlp" in ada.get("/").content.decode() and "Only for nlp" not in eve.get("/").content.decode()
    for row in Announcement.objects.all():
        root.post(f"{LIST}{row.pk}/end")
    assert "New fans" not in eve.get("/queue/").content.decode()
    verbs = list(Event.objects.filter(kind="announcement").values_list("verb", flat=True))
    assert verbs == ["made", "made", "ended", "ended"]


def test_one_that_was_put_away_is_not_shown_in_that_browser(cast):
    root, ada = browser(make.admin()), browser(cast.ada)
    root.post(LIST, {"text": "New fans", "tone": "plain"})
    row = Announcement.objects.get()
    assert ada.post(f"/told/a{row.pk}/put-away", {"next": "/queue/"})["Location"] == "/queue/"
    assert "New fans" not in ada.get("/queue/").content.decode()
    assert "New fans" in browser(cast.bob).get("/queue/").content.decode()


def test_times_that_make_no_sense_and_too_many_are_refused(cast):
    root = browser(make.admin())
    wrong = {"text": "x", "tone": "plain", "begins_at": "2100-01-02T00:00", "ends_at": "2100-01-01T00:00"}
    assert "It ends before it begins" in root.post(LIST, wrong).content.decode()
    for number in range(20):
        root.post(LIST, {"text": f"number {number}", "tone": "plain"})
    assert "There are 20 announcements already" in root.post(LIST, {"text": "more", "tone": "plain"}).content.decode()


def test_one_of_tomorrow_is_listed_and_not_shown_yet(cast):
    root, ada = Api(make.token(make.admin())), Api(make.token(cast.ada))
    tomorrow = (timezone.now() + timedelta(days=1)).isoformat()
    made = root.post("announcements", {"text": "Later", "begins_at": tomorrow})
    assert made.status_code == 201 and made.json()["team"] is None
    assert [row["text"] for row in root.get("announcements").json()["results"]] == ["Later"]
    assert ada.get("announcements").json()["results"] == []
    at = f"announcements/{made.json()['id']}"
    assert ada.get(at).status_code == 404
    now = timezone.now().isoformat()
    root.client.patch(
        BASE + at, {"begins_at": now, "team": "nlp"}, content_type="application/json", headers=root.headers
    )
    assert ada.get(at).json()["team"] == "nlp"
    assert root.delete(at).status_code == 204 and ada.get("announcements").json()["results"] == []


def test_maintenance_within_a_day_is_told_to_those_whose_machines_it_closes(cast):
    make.maintenance(cast.node, begins_in_s=3600)
    assert "Maintenance on n1 from" in browser(cast.ada).get("/queue/").content.decode()
    stranger = make.user("zoe", make.team("robots"))
    assert "Maintenance on n1" not in browser(stranger).get("/").content.decode()


def test_maintenance_of_next_week_is_not_told_yet(cast):
    make.maintenance(cast.node, begins_in_s=7 * 86_400)
    assert "Maintenance on n1 from" not in browser(cast.ada).get("/").content.decode()
