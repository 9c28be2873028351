"""The replay's page: a moment by its address, everybody's map and queue of it."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from cluster.nodes import cordon_node
from events.record_and_publish import SYSTEM
from jobs.models import Job
from monitoring.replay.span import SPAN
from portal.access.past_rows import list_past_nodes
from portal.pages.cluster.card_figures import load_past_figures
from portal.pages.cluster.machines import build_machines
from portal.pages.cluster.replay import read_moment, write_moment
from tests import make
from tests.monitoring.test_replay import STEP, age, report

pytestmark = pytest.mark.django_db
PATH = "/cluster/replay/"


@pytest.fixture
def cast():
    return make_past()


def make_past() -> make.Cast:
    """ada's job ran from three steps ago until one step ago; another waited all the time."""
    cast = make.cast()
    make.job(cast.ada, gpu="1/4", pool="dev", name="waits-long")
    job = make.job(cast.ada, gpu="1/4", pool="dev", name="ran-then")
    make.start(job)
    age(2 * STEP)
    make.end(Job.objects.get(pk=job.pk))
    age()
    return cast


@pytest.fixture
def look(client, cast):
    def look(person, *, ago: timedelta | None = None, **headers):
        client.force_login(person)
        query = {} if ago is None else {"at": write_moment(timezone.now() - ago)}
        return client.get(PATH, query, headers=headers)

    return look


def test_a_moment_has_what_was_held_and_who_waited(cast, look):
    page = look(cast.ada, ago=2 * STEP).content.decode()
    assert "¼ of 2 cards held, 1 job waiting." in page and "ran-then" in page and "waits-long" in page
    page = look(cast.ada).content.decode()
    assert "0 of 2 cards held, 1 job waiting." in page and "ran-then" not in page and "waits-long" in page


def test_a_stranger_sees_whose_it_was_as_the_present_map_tells_it(cast, look, settings):
    page = look(cast.eve, ago=2 * STEP).content.decode()
    assert "ada" in page and not [word for word in ("ran-then", "waits-long", "/j/") if word in page]
    settings.TESSERA_VISIBILITY = "team"
    page = look(cast.eve, ago=2 * STEP).content.decode()
    assert "nlp" in page and not [word for word in ("ran-then", "waits-long", "ada", "/j/") if word in page]


def test_no_use_is_shown_of_the_past(cast, look):
    page = look(cast.ada, ago=2 * STEP).content.decode()
    assert 'class="gpu-use' not in page and "data-hosts" not in page and "Used now" not in page


def test_a_pool_is_shown_alone(cast, client):
    client.force_login(cast.ada)
    page = client.get(PATH, {"pool": "train"}).content.decode()
    assert "0 of 1 card held, 0 jobs waiting." in page and "waits-long" not in page
    assert client.get(PATH, {"pool": "nowhere"}).status_code == 404


def test_many_machines_are_bars_that_lead_to_their_slices(cast, client, monkeypatch):
    monkeypatch.setattr("portal.pages.cluster.tiles.MOST_DRAWN", 1)
    make.gpu(make.node("n2", pool=cast.dev))
    client.force_login(cast.ada)
    at = write_moment(timezone.now() - 2 * STEP)
    page = client.get(PATH, {"at": at}).content.decode()
    assert "ran-then" not in page and 'title="¼ of 2 cards held"' in page and 'title="0 of 1 card held"' in page
    (href,) = re.findall(r'href="([^"]*node=n1)"', page)
    alone = client.get(href.replace("&amp;", "&")).content.decode()
    assert "ran-then" in alone and 'value="n1"' in alone and "map-n2" not in alone
    quiet = client.get(PATH).content.decode().count("m-quiet")
    cordon_node(actor=SYSTEM, node=cast.node)
    assert client.get(PATH).content.decode().count("m-quiet") == quiet + 2  # its cards are free, and closed


@pytest.mark.parametrize("pool", ["", "dev"])
def test_bars_count_what_the_slices_do(cast, pool):
    cordon_node(actor=SYSTEM, node=cast.node)
    report(cast.node, GPU_n1_1="It fell off the bus.")
    for steps in range(4):
        at = timezone.now() - steps * STEP
        machines = build_machines(list_past_nodes(cast.ada, at))
        drawn = {
            one.node.name: [card.figures for card in one.cards if card.view.pool == (pool or card.view.pool)]
            for one in machines
        }
        assert load_past_figures(at, pool) == {name: cards for name, cards in drawn.items() if cards}


def test_the_slider_sends_seconds_and_the_address_tells_the_time(cast, client):
    client.force_login(cast.ada)
    at = timezone.now() - 2 * STEP
    answer = client.get(PATH, {"at": str(int(at.timestamp()))}, headers={"HX-Request": "true"})
    assert answer["HX-Replace-Url"] == f"{PATH}?at={write_moment(at).replace(':', '%3A')}"
    assert "<html" not in answer.content.decode() and "ran-then" in answer.content.decode()


def test_moments_are_told_by_the_clocks_of_the_person(cast, client):
    User.objects.filter(pk=cast.ada.pk).update(time_zone="Asia/Kolkata")
    client.force_login(cast.ada)
    at = (timezone.now() - 2 * STEP).replace(second=0, microsecond=0)
    page = client.get(PATH, {"at": write_moment(at)}).content.decode()
    told = f"{at.astimezone(ZoneInfo('Asia/Kolkata')):%Y-%m-%d %H:%M} Asia/Kolkata"
    assert page.count(told) == 3 and 'data-zone="Asia/Kolkata"' in page and "UTC" not in page


@pytest.mark.parametrize("at", ["soon", "99999999999999999", "2026-13-01T00:00Z", "２"])
def test_what_is_no_time_is_said_and_now_is_shown(cast, client, at):
    client.force_login(cast.ada)
    answer = client.get(PATH, {"at": at})
    assert answer.status_code == 200 and "Write the time as 2026-11-28T17:30Z." in answer.content.decode()


def test_a_time_out_of_reach_is_said_with_the_times_that_are_not(cast, look):
    for ago in (timedelta(days=8), -timedelta(hours=1)):
        page = look(cast.ada, ago=ago).content.decode()
        assert "That time cannot be shown. Choose one from" in page and "0 of 2 cards held" in page


def test_buttons_lead_to_moments_that_can_be_shown_only(cast, look):
    page = look(cast.ada).content.decode()
    assert page.count('aria-disabled="true"') == 3  # the history is half an hour old: an hour ago is before it


def test_the_events_of_a_job_lead_to_their_moments_as_long_as_these_can_be_shown(cast, client):
    job = Job.objects.get(name="ran-then")
    client.force_login(cast.ada)

    def links():
        return re.findall(
            r'href="(/cluster/replay/[^"]*)"', client.get(f"/j/{job.public_id}/?tab=events").content.decode()
        )

    ended, *_rest, submitted = links()
    assert "¼ of 2 cards held" not in client.get(ended).content.decode()
    assert "ran-then" in client.get(submitted).content.decode()
    age(SPAN)
    assert links() == []


def test_moments_are_read_as_utc_where_they_name_no_zone():
    same = datetime(2026, 11, 28, 17, 30, tzinfo=UTC)
    for text in ("2026-11-28T17:30", "2026-11-28T17:30Z", "2026-11-28T18:30+01:00", "1795887000"):
        assert read_moment(text) == same
    assert write_moment(same) == "2026-11-28T17:30:00Z"


def test_the_page_asks_a_fixed_number_of_questions(cast, client):
    client.force_login(cast.ada)

    def count(ago) -> int:
        with CaptureQueriesContext(connection) as asked:
            client.get(PATH, {"at": write_moment(timezone.now() - ago)})
        return len(asked)

    count(2 * STEP)
    few = count(2 * STEP)
    for number in range(6):
        make.start(make.job(cast.ada, gpu="1/8", pool="dev"))
        make.job(cast.eve, gpu="1/8", pool="dev")
        make.gpu(make.node(f"m{number}", pool=cast.dev))
    age(STEP)
    assert count(STEP / 2) == few
