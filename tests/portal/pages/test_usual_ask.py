"""What a new member is offered: amounts that their own pools can give, as default, example and tile."""

import re

import pytest
from django.utils import timezone

from cluster.models import Gpu
from jobs.models import Job
from notebooks.environment import READY, environment_path
from scheduler.models import Lease
from scheduler.preview.possible_asks import PossibleAsks
from tests import make
from tests.portal.pages.rail import RAIL

pytestmark = pytest.mark.django_db

PAGES = ["/", "/jobs/", "/jobs/new", "/jobs/new?from=example", "/notebooks/", "/notebooks/new"]
SLICES = re.compile(r"""(?:value="|gpu: )(1/\d|\d+GB)|[¼½⅛]|quarter|H100|:10GB""")


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_DATA = tmp_path
    environment = environment_path(tmp_path)
    environment.mkdir(parents=True)
    (environment / READY).touch()
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    return make.cast()


@pytest.fixture
def whole(cast):
    """A member of a new team that has the pool of whole cards only."""
    team = make.team("whole")
    make.quota(team, cast.train)
    return make.user("wim", team)


@pytest.fixture
def look(client):
    def look(person, path):
        client.force_login(person)
        rail = client.get("/", headers=RAIL).content.decode() if path == "/" else ""
        return client.get(path).content.decode() + rail

    return look


@pytest.mark.parametrize("path", PAGES)
def test_where_cards_are_whole_no_page_offers_a_part(whole, look, path):
    assert not SLICES.search(look(whole, path))


@pytest.mark.parametrize("path", PAGES)
def test_where_cards_are_split_a_slice_is_what_one_begins_with(cast, look, path):
    assert SLICES.search(look(cast.ada, path))


def test_the_first_file_and_the_example_ask_a_card_that_there_is(whole, look):
    assert "run: python train.py\ngpu: 1\n" in look(whole, "/jobs/new")
    assert "done\ngpu: 1\n" in look(whole, "/jobs/new?from=example")


def test_the_first_file_that_is_shown_can_be_submitted(whole, look, client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(whole)
    assert client.post("/jobs/new", {"touched": "", "yaml": "run: python train.py\ngpu: 1\n"}).status_code == 302
    assert Job.objects.get().pool.name == "train"


@pytest.mark.parametrize("path", ["/jobs/new", "/notebooks/new"])
def test_an_amount_to_type_names_a_card_that_there_is(whole, look, path):
    assert 'placeholder="V100-32GB:1"' in look(whole, path)


def test_the_form_of_a_notebook_begins_with_a_card(whole, look):
    assert 'value="1" checked' in look(whole, "/notebooks/new")


def test_without_cards_one_begins_without(whole, look):
    Gpu.objects.all().delete()
    assert PossibleAsks(whole).usual == "0"
    assert "gpu:" not in look(whole, "/jobs/new?from=example").partition("<textarea")[2].partition("</textarea>")[0]
    assert "A job of a few seconds (CPU only)." in look(whole, "/")


def test_more_than_any_machine_has_is_not_possible(cast):
    assert PossibleAsks(cast.ada).among(("0", "1/4", "1", "2")) == ["0", "1/4", "1"]


def test_a_person_of_two_teams_is_offered_what_either_has(cast):
    team = make.team("whole")
    make.quota(team, cast.train)
    assert PossibleAsks(make.user("wim", team, cast.nlp)).usual == "1/4"


def test_a_limit_of_the_team_below_a_card_makes_a_card_impossible(cast):
    team = make.team("small")
    make.quota(team, cast.dev, gpu_milli_limit=500)
    assert PossibleAsks(make.user("sam", team)).among(("1/4", "1/2", "1")) == ["1/4", "1/2"]


def test_who_has_no_pool_is_offered_nothing(cast):
    assert PossibleAsks(make.user("nik", make.team("new"))).among(("0", "1")) == []
