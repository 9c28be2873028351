"""Quotas and limits by REST: amounts as people write them, several at once or none, each change in the history."""

from datetime import UTC, datetime, timedelta

import pytest

from cluster.capacity import pool_total
from events.models import Event
from quotas.models import Quota, UserLimit
from tests import make
from tests.api_client import BASE, Api

pytestmark = pytest.mark.django_db


def patch(api: Api, path: str, body: dict):
    return api.client.patch(BASE + path, body, content_type="application/json", headers=api.headers)


@pytest.fixture
def root(cast):
    return Api(make.token(make.admin()))


def test_a_quota_is_changed_in_peoples_units_and_the_rest_stays(root, cast):
    shown = patch(
        root, "quotas/nlp/dev", {"gpu": {"guarantee": "1/2", "limit": 1.5}, "memory": {"limit": "64GB"}}
    ).json()
    assert (shown["gpu"]["guarantee"]["value"], shown["gpu"]["limit"]["value"]) == (500, 1500)
    assert patch(root, "quotas/nlp/dev", {"gpu": {"limit": None}}).json()["gpu"]["guarantee"]["value"] == 500
    kept = Quota.objects.get(team=cast.nlp, pool=cast.dev)
    assert (kept.gpu_milli_limit, kept.memory_mib_limit) == (None, 61_036)
    assert [line.params["to"] for line in Event.objects.filter(kind="quota")][-1] == {"gpu_milli_limit": None}


def test_a_team_without_a_quota_gets_one_and_loses_it(root, cast):
    make.team("robots")
    assert patch(root, "quotas/robots/dev", {"weight": 3}).json()["weight"] == 3
    assert root.delete("quotas/robots/dev").status_code == 204
    assert root.get("quotas/robots/dev").status_code == 404 == root.delete("quotas/robots/dev").status_code


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({"gpu": {"guarantee": "many"}}, "/gpu/guarantee", "bad_cards"),
        ({"memory": {"limit": "64"}}, "/memory/limit", None),
        ({"gpu": {"guarantee": 2000}}, "/gpu/guarantee", "guarantee_above_pool"),
        ({"gpu": {"guarantee": 1, "limit": "1/2"}}, "/gpu/guarantee", "guarantee_above_limit"),
        ({"weight": 0}, "/weight", "min_value"),
    ],
)
def test_what_cannot_be_is_refused_at_the_field_that_was_sent(root, cast, body, pointer, code):
    answer = patch(root, "quotas/nlp/dev", body)
    error = answer.json()["errors"][0]
    assert (answer.status_code, error["pointer"]) == (400, pointer) and code in (None, error["code"])


def test_one_team_gets_what_another_gives_in_one_save(root, cast):
    total = pool_total(cast.dev)[0]
    both = [{"team": "nlp", "pool": "dev", "gpu": {"guarantee": total / 1000}}]
    assert root.post("quotas:save", {"quotas": both}).status_code == 200
    both = [
        {"team": "vision", "pool": "dev", "gpu": {"guarantee": total / 1000}},
        {"team": "nlp", "pool": "dev", "gpu": {"guarantee": 0}},
    ]
    assert patch(root, "quotas/vision/dev", {"gpu": {"guarantee": total / 1000}}).status_code == 400
    rows = root.post("quotas:save", {"quotas": both}).json()["results"]
    assert {row["team"]: row["gpu"]["guarantee"]["value"] for row in rows} == {"vision": total, "nlp": 0}


def test_of_several_none_is_saved_where_one_is_refused(root, cast):
    bad = [
        {"team": "nlp", "pool": "dev", "weight": 7},
        {"team": "vision", "pool": "dev", "gpu": {"guarantee": 5000}},
    ]
    answer = root.post("quotas:save", {"quotas": bad})
    assert answer.json()["errors"][0]["pointer"] == "/quotas/1/gpu/guarantee"
    assert not Quota.objects.filter(weight=7).exists() and not Event.objects.filter(kind="quota").exists()


def test_a_quota_is_named_once(root, cast):
    make.team("robots")
    twice = [{"team": "robots", "pool": "dev", "weight": 2}, {"team": "robots", "pool": "dev", "weight": 3}]
    answer = root.post("quotas:save", {"quotas": twice})
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["pointer"], error["code"]) == (400, "/quotas/1", "quota_twice")
    assert not Quota.objects.filter(team__name="robots").exists()


def test_a_limit_of_ones_own_and_that_of_everyone(root, cast, ada):
    assert patch(root, "limits/everyone", {"gpu": "2", "notebooks_running": 3}).json()["notebooks_running"] == 3
    assert patch(root, "limits/ada", {"gpu": "1/2"}).json()["gpu"]["value"] == 500
    assert root.get("limits").json()["results"][0]["person"] == "everyone"
    assert ada.get("quotas").json()["me"]["gpu"]["limit"]["value"] == 500
    patch(root, "limits/ada", {"gpu": None})
    assert ada.get("quotas").json()["me"]["gpu"]["limit"]["value"] == 2000
    assert UserLimit.objects.get(user=cast.ada).gpu_milli is None
    assert root.get("limits/zoe").status_code == 404


def test_a_quota_until_a_moment_says_what_it_returns_to(root, ada, cast):
    until = (datetime.now(UTC) + timedelta(days=30)).replace(microsecond=0)
    shown = patch(root, "quotas/nlp/dev", {"gpu": {"limit": 1}, "until": until.isoformat()}).json()
    assert shown["until"] == until.isoformat().replace("+00:00", "Z")
    assert shown["then"]["gpu"] == {"limit": {"value": None, "text": ""}} and not shown["then"]["ends"]
    assert shown["then"]["text"].endswith("GPU limit 1, then none.")
    (seen,) = [row for row in ada.get("quotas").json()["results"] if row["pool"] == "dev"]
    assert seen["then"] == shown["then"] and patch(root, "quotas/nlp/train", {"weight": 2}).json()["then"] is None
    lasting = patch(root, "quotas/nlp/dev", {"until": None}).json()
    assert (lasting["until"], lasting["then"], lasting["gpu"]["limit"]["value"]) == (None, None, 1000)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"gpu": {"limit": 1}, "until": "2020-01-01T00:00:00Z"}, "until_past"),
        ({"gpu": {"limit": 1}, "until": "2999-01-01T00:00:00Z"}, "until_too_far"),
        ({"until": (datetime.now(UTC) + timedelta(days=1)).isoformat()}, "nothing_until"),
        ({"until": "friday"}, "invalid"),
    ],
)
def test_a_moment_that_cannot_be_is_refused_by_name(root, cast, body, code):
    answer = patch(root, "quotas/nlp/dev", body)
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["pointer"], error["code"]) == (400, "/until", code)
    assert not Event.objects.filter(kind="quota").exists()


def test_each_of_several_quotas_has_a_moment_of_its_own(root, cast):
    day = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    both = [
        {"team": "nlp", "pool": "dev", "gpu": {"limit": 1}, "until": day},
        {"team": "vision", "pool": "dev", "gpu": {"limit": 1}},
    ]
    rows = root.post("quotas:save", {"quotas": both}).json()["results"]
    assert {row["team"]: row["until"] is None for row in rows} == {"nlp": False, "vision": True}
    both[1]["until"] = "2020-01-01T00:00:00Z"
    (error,) = root.post("quotas:save", {"quotas": both}).json()["errors"]
    assert (error["pointer"], error["code"]) == ("/quotas/1/until", "until_past")


def test_only_admins_change_quotas_and_limits(cast, bob):
    refused = [
        patch(bob, "quotas/nlp/dev", {"weight": 2}),
        bob.delete("quotas/nlp/dev"),
        bob.post("quotas:save", {"quotas": []}),
        bob.get("limits"),
        patch(bob, "limits/bob", {"gpu": "8"}),
    ]
    assert {answer.status_code for answer in refused} == {403}
