"""The API's replay: a moment's cards and queue, refused by field where it cannot be told."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import Job
from tests import make
from tests.monitoring.test_replay import STEP, age

pytestmark = pytest.mark.django_db
PATH = "/api/v1/cluster/replay"


@pytest.fixture
def cast():
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
def ask(client, cast):
    def ask(person, **query):
        client.force_login(person)
        return client.get(PATH, query)

    return ask


def test_a_moment_has_who_held_and_who_waited(cast, ask):
    at = (timezone.now() - 2 * STEP).isoformat()
    told = ask(cast.ada, at=at).json()
    (part,) = told["gpus"][0]["slices"]
    assert (part["name"], part["state"], part["expected_end_at"], part["activity"]) == (
        "ran-then",
        "running",
        None,
        None,
    )
    assert [(row["name"], row["priority"], row["asks"]) for row in told["waiting"]] == [
        ("waits-long", "normal", [{"gpu": "1/4", "nodes": 1}])
    ]
    assert [(node["name"], node["state"]) for node in told["nodes"]] == [("n1", "ready")]
    assert [card["slices"] for card in ask(cast.ada).json()["gpus"]] == [[], []]


def test_a_stranger_is_told_the_team_alone_where_the_installation_says_so(cast, ask, settings):
    settings.TESSERA_VISIBILITY = "team"
    text = ask(cast.eve, at=(timezone.now() - 2 * STEP).isoformat()).content.decode()
    assert "nlp" in text and not [word for word in ("ran-then", "waits-long", "ada", "job-") if word in text]


def test_a_pool_is_told_alone(cast, ask):
    told = ask(cast.ada, pool="train").json()
    assert [card["pool"] for card in told["gpus"]] == ["train"] and told["waiting"] == []


@pytest.mark.parametrize("ago", [timedelta(days=8), timedelta(hours=-1)])
def test_a_moment_out_of_reach_names_the_field_and_the_span(cast, ask, ago):
    answer = ask(cast.ada, at=(timezone.now() - ago).isoformat())
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["pointer"], error["code"]) == (400, "/at", "out_of_range")
    assert set(error["params"]) >= {"min", "max"}


@pytest.mark.parametrize(("query", "pointer"), [({"at": "soon"}, "/at"), ({"pool": "nowhere"}, "/pool")])
def test_what_cannot_be_read_names_the_field(cast, ask, query, pointer):
    answer = ask(cast.ada, **query)
    assert answer.status_code == 400 and answer.json()["errors"][0]["pointer"] == pointer
