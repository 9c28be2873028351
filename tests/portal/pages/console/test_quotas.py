"""The grid of quotas: what was changed is saved whole or not at all, and nobody's change is lost."""

import csv
import io
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import Team
from cluster.capacity import pool_total
from events.models import Event
from quotas.models import Quota
from tests import make

pytestmark = pytest.mark.django_db
PAGE = "/console/quotas/"


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def root(cast):
    client = Client(headers={"Origin": "http://testserver"})
    client.force_login(make.admin())
    return client


@pytest.fixture(autouse=True)
def here(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


def change(team, pool, kind: str, to: str, was: str) -> dict[str, str]:
    name = f"{kind}:{team.pk}:{pool.pk}"
    return {name: to, f"was:{name}": was}


def of(team, pool) -> Quota:
    return Quota.objects.get(team=team, pool=pool)


def test_only_what_was_changed_is_saved(root, cast):
    given = change(cast.nlp, cast.dev, "guarantee", "1/2", "0") | change(cast.nlp, cast.dev, "limit", "1.5", "")
    assert root.post(PAGE, given | change(cast.vision, cast.dev, "guarantee", "0", "0")).status_code == 302
    assert (of(cast.nlp, cast.dev).gpu_milli_guarantee, of(cast.nlp, cast.dev).gpu_milli_limit) == (500, 1500)
    (event,) = Event.objects.filter(kind="quota")
    assert event.params["to"] == {"gpu_milli_guarantee": 500, "gpu_milli_limit": 1500}
    page = root.get(PAGE).content.decode()
    assert 'value="0.5"' in page and 'value="1.5"' in page


def test_a_team_without_a_quota_gets_one_by_a_number(root, cast):
    robots = make.team("robots")
    root.post(PAGE, change(robots, cast.dev, "limit", "1", ""))
    assert of(robots, cast.dev).gpu_milli_limit == 1000
    root.post(PAGE, change(robots, cast.dev, "limit", "", "1"))
    assert of(robots, cast.dev).gpu_milli_limit is None


def test_one_gives_what_another_gets_in_one_save(root, cast):
    all_of_it = str(pool_total(cast.dev)[0] // 1000)
    root.post(PAGE, change(cast.nlp, cast.dev, "guarantee", all_of_it, "0"))
    both = change(cast.nlp, cast.dev, "guarantee", "0", all_of_it)
    both |= change(cast.vision, cast.dev, "guarantee", all_of_it, "0")
    assert root.post(PAGE, both).status_code == 302
    assert of(cast.vision, cast.dev).gpu_milli_guarantee == pool_total(cast.dev)[0]


def test_what_cannot_be_is_told_at_its_field_and_nothing_is_saved(root, cast):
    bad = change(cast.nlp, cast.dev, "guarantee", "99", "0") | change(cast.vision, cast.dev, "limit", "many", "")
    answer = root.post(PAGE, bad)
    page = answer.content.decode()
    assert answer.status_code == 400 and "Nothing was saved" in page and 'value="many"' in page
    only = root.post(PAGE, change(cast.nlp, cast.dev, "guarantee", "99", "0")).content.decode()
    assert "are not promised to others" in only and 'value="99"' in only
    assert not Event.objects.filter(kind="quota").exists()


def test_what_somebody_else_saved_meanwhile_is_not_overwritten_unseen(root, cast):
    Quota.objects.filter(team=cast.nlp, pool=cast.dev).update(gpu_milli_limit=2000)
    stale = change(cast.nlp, cast.dev, "limit", "1", "")
    answer = root.post(PAGE, stale)
    assert answer.status_code == 400 and "Somebody else saved 2 meanwhile" in answer.content.decode()
    assert of(cast.nlp, cast.dev).gpu_milli_limit == 2000
    assert root.post(PAGE, change(cast.nlp, cast.dev, "limit", "1", "2")).status_code == 302
    assert of(cast.nlp, cast.dev).gpu_milli_limit == 1000


def test_other_resources_have_their_own_units(root, cast):
    root.post(PAGE + "?resource=memory", change(cast.nlp, cast.dev, "limit", "16GiB", ""))
    root.post(PAGE + "?resource=cpu", change(cast.nlp, cast.dev, "limit", "2.5", ""))
    quota = of(cast.nlp, cast.dev)
    assert (quota.memory_mib_limit, quota.cpu_milli_limit, quota.gpu_milli_limit) == (16_384, 2_500, None)


def test_a_change_is_undone_and_a_new_quota_taken_back(root, cast):
    root.post(PAGE, change(cast.nlp, cast.dev, "limit", "1", ""))
    changed = Event.objects.get(kind="quota")
    root.post(f"{PAGE}{changed.pk}/undo")
    assert of(cast.nlp, cast.dev).gpu_milli_limit is None
    robots = make.team("robots")
    root.post(PAGE, change(robots, cast.dev, "limit", "1", ""))
    root.post(f"{PAGE}{Event.objects.get(verb='quota.made').pk}/undo")
    assert not Quota.objects.filter(team=robots).exists()


def test_teams_stand_below_their_parents(root, cast):
    make.team("speech", parent=cast.nlp)
    page = root.get(PAGE).content.decode()
    assert page.index('id="team-nlp"') < page.index('id="team-speech"') < page.index('id="team-vision"')
    assert "depth-1" in page


def test_quotas_are_sent_as_csv_in_plain_numbers(root, cast):
    Quota.objects.filter(team=cast.nlp, pool=cast.dev).update(
        gpu_milli_guarantee=500, gpu_milli_limit=1500, memory_mib_limit=65_536, weight=3
    )
    make.quota(make.team("speech", parent=cast.nlp), cast.dev)
    speaker = make.user("sue", Team.objects.get(name="speech"))
    make.start(make.job(speaker, pool="dev", gpu=1))
    rows = list(csv.DictReader(io.StringIO(root.get("/console/quotas.csv").content.decode())))
    assert [(row["team"], row["pool"]) for row in rows][:3] == [("nlp", "dev"), ("nlp", "train"), ("speech", "dev")]
    first, below = rows[0], rows[2]
    assert (first["gpu_guarantee"], first["gpu_limit"], first["gpu_used"]) == ("0.5", "1.5", "1.0")
    assert (first["cpu_limit"], first["memory_gib_limit"], first["weight"]) == ("", "64.0", "3")
    assert (below["parent"], below["gpu_used"]) == ("nlp", "1.0")


def in_days(days: int) -> str:
    return (timezone.localtime() + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M")


def test_what_is_changed_until_a_moment_says_what_it_returns_to(root, cast):
    Quota.objects.filter(team=cast.nlp, pool=cast.dev).update(gpu_milli_limit=500)
    given = change(cast.nlp, cast.dev, "limit", "1", "0.5") | {"until": in_days(3)}
    assert root.post(PAGE, given).status_code == 302
    quota = of(cast.nlp, cast.dev)
    assert (quota.gpu_milli_limit, quota.then) == (1000, {"gpu_milli_limit": 500})
    page = root.get(PAGE).content.decode()
    assert "GPU limit 1, then ½." in page and f'value="{in_days(3)}"' in page
    assert (
        page.count(", then ½</span>") == 1
        and ", then" not in root.get(PAGE + "?resource=cpu").content.decode().partition("For a time")[0]
    )


def test_a_moment_that_cannot_be_is_told_and_nothing_is_lost(root, cast):
    for bad, words in ((in_days(-1), "is over already"), ("soon", "Enter a valid date")):
        answer = root.post(PAGE, change(cast.nlp, cast.dev, "limit", "1", "") | {"until": bad})
        page = answer.content.decode()
        assert answer.status_code == 400 and words in page and f'value="{bad}"' in page
        assert 'aria-invalid="true"' in page
    assert of(cast.nlp, cast.dev).gpu_milli_limit is None


def test_what_holds_for_a_time_is_moved_kept_or_returned(root, cast):
    def do(**sent):
        return root.post(f"{PAGE}{of(cast.nlp, cast.dev).pk}/until", sent, follow=True).content.decode()

    root.post(PAGE, change(cast.nlp, cast.dev, "limit", "1", "") | {"until": in_days(3)})
    assert "GPU limit 1, then none." in do(until=in_days(5))
    assert timezone.localtime(of(cast.nlp, cast.dev).until).strftime("%Y-%m-%dT%H:%M") == in_days(5)
    assert "is over already" in do(until=in_days(-5)) and of(cast.nlp, cast.dev).then
    assert "is as it was before" in do(do="return")
    assert of(cast.nlp, cast.dev).gpu_milli_limit is None
    assert root.post(f"{PAGE}{of(cast.nlp, cast.dev).pk}/until", {"do": "keep"}).status_code == 404
    root.post(PAGE, change(cast.nlp, cast.dev, "limit", "1", "") | {"until": in_days(3)})
    assert "stays as it is now" in do(do="keep")
    quota = of(cast.nlp, cast.dev)
    assert (quota.gpu_milli_limit, quota.until) == (1000, None)


def test_undo_cancels_what_would_return(root, cast):
    root.post(PAGE, change(cast.nlp, cast.dev, "limit", "1", "") | {"until": in_days(3)})
    root.post(f"{PAGE}{Event.objects.get(kind='quota').pk}/undo")
    quota = of(cast.nlp, cast.dev)
    assert (quota.gpu_milli_limit, quota.until, quota.then) == (None, None, None)
