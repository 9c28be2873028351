"""A card's own page: its curves are for everybody, who held it only for those who may see the job."""

import re

import pytest
from django.test import Client

from cluster.nodes import cordon_card
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """ada's job has ended on the card, and eve's runs there."""
    cast = make.cast()
    job = make.job(cast.ada, gpu="1/4", pool="dev", name="secret-plan")
    make.start(job, cast.gpus[0])
    make.end(job)
    make.start(make.job(cast.eve, gpu="1/2", pool="dev", name="own-work"), cast.gpus[0])
    return cast


@pytest.fixture
def look(client):
    def look(person, path):
        client.force_login(person)
        return client.get(path)

    return look


def test_a_card_has_curves_and_who_held_it(cast, look):
    page = look(cast.ada, f"/gpus/{cast.gpus[0].uuid}/").content.decode()
    assert f'data-urls="/api/v1/gpus/{cast.gpus[0].uuid}/metrics"' in page
    assert f'data-watch="gpu-{cast.gpus[0].uuid}"' in page
    held = page.split("Held in the last 24 hours")[-1]
    assert "secret-plan" in held and held.count("<tr") == 3


def test_a_stranger_sees_who_held_it_and_not_for_what(cast, look):
    page = look(cast.eve, f"/gpus/{cast.gpus[0].uuid}/").content.decode()
    assert "ada" in page.split("Held in the last 24 hours")[-1] and "secret-plan" not in page


def test_by_policy_a_stranger_sees_that_it_was_held_and_not_by_whom(cast, look, settings):
    settings.TESSERA_VISIBILITY = "team"
    page = look(cast.eve, f"/gpus/{cast.gpus[0].uuid}/").content.decode()
    held = page.split("Held in the last 24 hours")[-1]
    assert held.count("<tr") == 3 and "own-work" in held and "another team" in held
    assert "secret-plan" not in page and "ada" not in held


def test_map_and_machine_lead_to_it(cast, look):
    for path in ("/cluster/gpus/", "/nodes/n1/"):
        assert f'href="/gpus/{cast.gpus[0].uuid}/"' in look(cast.eve, path).content.decode()


def test_a_machine_has_curves_of_its_own_and_of_its_cards(cast, look):
    page = look(cast.eve, "/nodes/n1/").content.decode()
    assert 'data-urls="/api/v1/nodes/n1/metrics"' in page and 'data-watch="node-n1"' in page
    assert 'data-chart="temperature_c"' in page and 'data-chart="cpu_cores"' in page


def test_the_keys_of_each_chart_have_the_colours_of_its_lines(cast, look):
    """Whatever chart stands before it."""
    page = look(cast.eve, f"/gpus/{cast.gpus[0].uuid}/").content.decode()
    keys = [re.findall(r"swatch (k\d)", figure) for figure in page.split("<figure")[1:]]
    assert [key for key in keys if key] == [["k1", "k3", "k2"], ["k1", "k3"], ["k1", "k3"], ["k1", "k3", "k2"]]


def test_there_is_no_page_of_an_unknown_card(cast, look):
    assert look(cast.ada, "/gpus/GPU-none/").status_code == 404


def test_a_closed_card_says_why_and_an_admin_takes_it_back(cast, settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    card, root = cast.gpus[0], make.admin()
    path = f"/gpus/{card.uuid}/"
    cordon_card(actor=root.as_actor, gpu=card, why="GPU too hot")
    pages = {}
    for person in (cast.ada, root):
        client = Client(headers={"Origin": "http://testserver"})
        client.force_login(person)
        pages[person.username] = client.get(path).content.decode()
    assert "This card is out of service. GPU too hot" in pages["ada"] and "Back into service" not in pages["ada"]
    assert "Back into service" in pages["rita"]
    client.post(f"{path}cordon", {"why": " "})
    assert "Add it." in client.get(path).content.decode()
    client.post(f"{path}cordon", {"why": "fans are replaced"})
    assert "This card is out of service. fans are replaced" in client.get(path).content.decode()
    assert client.post(f"{path}uncordon").status_code == 302
    card.refresh_from_db()
    assert card.healthy and "out of service" not in client.get(path).content.decode()
