"""My quota: used, guarantee, borrowed and limit in words, and who in my team uses what."""

from datetime import UTC, datetime

import pytest

from common.resources import show_cpu, show_gpu
from portal.pages.cluster.quota import Line
from portal.templatetags.bars import quota_segments
from quotas.models import Quota, UserLimit
from tests import make
from tests.portal.pages.rail import RAIL

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def look(client):
    def look(person):
        client.force_login(person)
        return client.get("/quota/").content.decode()

    return look


@pytest.mark.parametrize(
    ("used", "guarantee", "limit", "words"),
    [
        (1250, 2000, 4000, "1.25 of 2 guaranteed, limit 4"),
        (3000, 2000, 4000, "3 = 2 guaranteed + 1 borrowed, limit 4"),
        (1500, 0, 4000, "1.5 used, limit 4"),
        (1500, 0, None, "1.5 used, no limit"),
    ],
)
def test_a_bar_is_said_in_words(used, guarantee, limit, words):
    assert Line("GPU", show_gpu, used, guarantee, limit).guarantee_text == words


@pytest.mark.parametrize(
    ("used", "guarantee", "limit", "free", "parts"),
    [
        (1000, 0, 4000, 0, {"borrowed": 1000, "left": 3000}),
        (1000, 0, 4000, 2000, {"borrowed": 1000, "free": 2000, "left": 1000}),
        (1000, 0, 4000, 8000, {"borrowed": 1000, "free": 3000}),
        (500, 2000, 4000, 500, {"work": 500, "lent": 1000, "unused": 500, "left": 2000}),
        (500, 2000, None, 2000, {"work": 500, "unused": 1500, "free": 500}),
        (5000, 2000, 4000, 1000, {"work": 2000, "borrowed": 3000}),
        (0, 0, None, 0, {}),
    ],
)
def test_a_bar_draws_as_free_only_what_the_pool_has(used, guarantee, limit, free, parts):
    assert {part.kind: part.share for part in quota_segments(used, guarantee, limit, free)} == parts


@pytest.mark.parametrize(("path", "headers"), [("/", RAIL), ("/quota/", {})])
def test_where_others_hold_the_pool_no_bar_says_free(cast, client, path, headers):
    Quota.objects.filter(team=cast.nlp).update(gpu_milli_limit=4000, cpu_milli_limit=16_000, memory_mib_limit=65_536)
    client.force_login(cast.ada)
    assert 'class="seg seg-free" title="Free"' in client.get(path, headers=headers).content.decode()
    for pool in ("dev", "train"):
        make.start(make.job(cast.eve, gpu="1", pool=pool, cpu="8", memory="32GiB"))
    page = client.get(path, headers=headers).content.decode()
    assert 'title="Free"' not in page and 'title="Within the limit, but not free now"' in page


def test_cores_without_a_guarantee_are_in_use_and_not_borrowed():
    assert [part.kind for part in Line("CPU cores", show_cpu, 4000, 0, 8000, 4000).segments] == ["work", "free"]
    assert [part.kind for part in Line("GPU", show_gpu, 1000, 0, 2000, 1000).segments] == ["borrowed", "free"]


def test_what_is_left_of_my_own_limit_is_not_called_free(cast, look):
    make.limit(cast.ada, gpu_milli=4000)
    page = look(cast.ada).partition("You, in all pools")[2].partition("How to read a bar")[0]
    assert 'title="Left of your own limit"' in page and 'title="Free"' not in page


def test_what_my_team_holds_is_shown_against_its_quota(cast, look):
    Quota.objects.filter(team=cast.nlp, pool=cast.dev).update(gpu_milli_guarantee=1000, gpu_milli_limit=2000)
    make.start(make.job(cast.bob, gpu="1/4", pool="dev"))
    assert "¼ of 1 guaranteed, limit 2" in look(cast.ada)


def test_whole_nodes_that_are_guaranteed_are_named(cast, look):
    Quota.objects.filter(team=cast.nlp, pool=cast.dev).update(gpu_milli_guarantee=16_000, cell=8)
    assert "2 whole nodes of 8 cards are guaranteed" in look(cast.ada)


def test_until_when_a_quota_holds_is_said_and_what_follows(cast, look):
    quota = Quota.objects.filter(team=cast.nlp, pool=cast.dev)
    quota.update(gpu_milli_limit=6000, until=datetime(2030, 1, 4, 18, tzinfo=UTC), then={"gpu_milli_limit": 4000})
    page = look(cast.ada)
    assert "Until Jan. 4, 2030, 6 p.m. (UTC): GPU limit 6, then 4." in page
    quota.update(then=None)
    assert "Until Jan. 4, 2030, 6 p.m. (UTC), then the team has no quota here." in look(cast.ada)


def test_a_child_team_counts_for_its_parent(cast, look):
    cast.vision.parent = cast.nlp
    cast.vision.save()
    Quota.objects.filter(team=cast.nlp, pool=cast.dev).update(gpu_milli_limit=2000)
    make.start(make.job(cast.eve, gpu="1/4", pool="dev"))
    assert "¼ used, limit 2" in look(cast.ada)


def test_a_team_at_its_limit_says_so(cast, look):
    Quota.objects.filter(team=cast.nlp, pool=cast.dev).update(gpu_milli_limit=250)
    make.start(make.job(cast.bob, gpu="1/4", pool="dev"))
    page = look(cast.ada)
    assert "at the limit" in page and "nlp is at its limit" in page


def test_my_own_limit_is_shown_with_what_i_use(cast, look):
    UserLimit.objects.create(user=cast.ada, gpu_milli=1500)
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    page = look(cast.ada)
    assert "¼ of 1.5" in page and "1 of 100" in page


def test_a_stranger_sees_nothing_of_another_team(cast, look):
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    page = look(cast.eve).replace("combobox", "")
    assert "vision" in page and "nlp" not in page and "ada" not in page and "bob" not in page


def test_an_admin_sees_every_team(cast, look):
    page = look(make.admin())
    assert "nlp" in page and "vision" in page and "not your team" in page


def test_the_teams_of_others_come_in_pages_and_cost_no_statement_each(cast, client, django_assert_max_num_queries):
    teams = [make.team(f"team{number:02}") for number in range(30)]
    for team in teams:
        make.quota(team, cast.train)
        make.user(f"of-{team.name}", team)
    client.force_login(make.admin())
    first, second = (client.get(f"/quota/?page={page}").content.decode() for page in (1, 2))
    assert "Page 1 of 2" in first and 'id="team-nlp"' in first
    shown = [[team.name for team in teams if f'id="team-{team.name}"' in page] for page in (first, second)]
    assert sorted(shown[0] + shown[1]) == [team.name for team in teams] and all(shown)
    with django_assert_max_num_queries(60):
        client.get("/quota/")


def test_ones_own_teams_stand_on_the_first_page_alone_and_are_summed_up_on_each(cast, client, monkeypatch):
    monkeypatch.setattr("portal.pages.cluster.quota.ON_A_PAGE", 1)
    make.team("other")
    cast.ada.platform_role = "admin"
    cast.ada.save()
    client.force_login(cast.ada)
    first, second = (client.get(f"/quota/?page={page}").content.decode() for page in (1, 2))
    assert 'id="team-nlp"' in first and 'id="team-nlp"' not in second
    assert "0 GPUs held" in first and "0 GPUs held" in second
    assert '<h2 id="team-curves">' in second  # of a team on this page, and so are those that one chooses


def test_a_person_without_a_team_is_told_what_to_do(look):
    assert "You are in no team yet" in look(make.user("zoe"))


def test_a_team_without_a_quota_is_told_what_to_do(look):
    assert "No quota yet" in look(make.user("zoe", make.team("new")))


def test_the_curves_of_the_own_team_stand_there_and_of_no_other(cast, client):
    def look(person, path="/quota/"):
        client.force_login(person)
        return client.get(path).content.decode()

    assert 'data-urls="/api/v1/teams/nlp/metrics"' in look(cast.ada)
    assert 'data-urls="/api/v1/teams/vision/metrics"' in look(cast.eve, "/quota/?team=nlp")
    root = make.admin()
    assert 'data-urls="/api/v1/teams/vision/metrics"' in look(root, "/quota/?team=vision")
    assert 'data-urls="/api/v1/teams/nlp/metrics"' in look(root)


def test_without_a_team_there_are_no_curves(look):
    assert "<live-charts" not in look(make.user("loner"))
