"""Lists and many: filters, sorts, fields, pages that hold under a sort; many jobs at once; how often one may call."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.ssh_keys import add_ssh_key
from events.models import Event
from events.notices import notify
from jobs.models import Job, Priority
from jobs.states import TaskState
from notebooks.services import create_notebook, start_notebook
from portal.api.about import describe
from tests import make
from tests.api_client import Api
from tests.described_world import make_room

pytestmark = pytest.mark.django_db
OWN_SHAPE = {"/api/v1/quotas"}  # says one's own limits beside the rows


def ids(answer):
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


def test_filters_by_user_kind_label_and_time(ada, cast):
    mine = make.job(cast.ada, pool="dev", labels={"exp": "a"})
    theirs = make.job(cast.bob, pool="dev", labels={"exp": "b"})
    Job.objects.filter(pk=mine.pk).update(submitted_at="2020-01-01T00:00Z")
    for query, expected in (
        ({"user": "me"}, [mine]),
        ({"user": "bob"}, [theirs]),
        ({"label": "exp:a"}, [mine]),
        ({"label": "exp"}, [theirs, mine]),
        ({"label": "other"}, []),
        ({"kind": "batch"}, [theirs, mine]),
        ({"kind": "service"}, []),
        ({"since": "2021-01-01T00:00:00Z"}, [theirs]),
    ):
        assert ids(ada.get("jobs", query)) == [job.public_id for job in expected], query
    assert ada.get("jobs", {"kind": "dance"}).status_code == 400


@pytest.mark.parametrize(
    "sort", ["name", "-name", "priority", "-priority", "submitted_at", "-submitted_at", "id", "-id"]
)
def test_pages_under_a_sort_hold_every_row_once(ada, cast, sort):
    for number in range(7):
        job = make.job(cast.ada, pool="dev", name=f"job {number % 3}")
        Job.objects.filter(pk=job.pk).update(priority=[Priority.LOW, Priority.HIGH][number % 2])
    seen, query = [], {"sort": sort, "limit": 2}
    while True:
        answer = ada.get("jobs", query).json()
        seen += answer["results"]
        if answer["next_cursor"] is None:
            break
        query["cursor"] = answer["next_cursor"]
    key = sort.removeprefix("-")
    order = {"priority": lambda row: Priority[row["priority"].upper()], "id": lambda row: int(row["id"][4:])}
    values = [order.get(key, lambda row: row[key])(row) for row in seen]
    assert len({row["id"] for row in seen}) == 7 and values == sorted(values, reverse=sort[0] == "-")


def test_a_cursor_of_another_sort_is_refused(ada, cast):
    for _ in range(3):
        make.job(cast.ada, pool="dev")
    cursor = ada.get("jobs", {"sort": "name", "limit": 1}).json()["next_cursor"]
    assert ada.get("jobs", {"sort": "-name", "cursor": cursor}).json()["errors"][0]["code"] == "bad_cursor"
    assert ada.get("jobs", {"sort": "spec"}).status_code == 400


def test_every_list_is_narrowed_sorted_and_cut_by_one_mechanism():
    """A list without `fields`, or a page without `sort`, `limit` and `cursor`, is written past api.http.lists."""
    for path, operations in describe()["paths"].items():
        names = {one["name"] for one in operations.get("get", {}).get("parameters", [])}
        if list_in(operations) and path not in OWN_SHAPE:
            assert "fields" in names, path
            assert {"sort", "limit", "cursor"} <= names or not {"sort", "limit", "cursor"} & names, path


def list_in(operations):
    """Whether GET answers in the envelope of a list."""
    try:
        answer = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    except KeyError:
        return False
    return "next_cursor" in describe()["components"]["schemas"][answer.rpartition("/")[2]]["properties"]


def test_notebooks_are_filtered_and_sorted(ada, cast, settings, tmp_path):
    make_room(settings, tmp_path)
    old, works = (create_notebook(user=cast.ada, name=name, gpu="1/4") for name in ("old", "works"))
    start_notebook(actor=cast.ada, notebook=works, check=lambda draft: None, containers=False)
    for query, expected in (
        ({}, [works, old]),
        ({"state": "stopped"}, [old]),
        ({"state": "queued,starting"}, [works]),
        ({"state": "running"}, []),
        ({"q": "OL"}, [old]),
        ({"team": "nlp", "sort": "name"}, [old, works]),
        ({"team": "vision"}, []),
        ({"sort": "-created_at", "limit": 1}, [works]),
    ):
        assert ids(ada.get("notebooks", query)) == [notebook.public_id for notebook in expected], query
    refused = ada.get("notebooks", {"state": "asleep"}).json()["errors"][0]
    assert (refused["pointer"], refused["code"]) == ("/state", "unknown_value")


@pytest.mark.parametrize(
    "path",
    ["jobs", "nodes", "gpus", "pools", "capacity", "notices", "notebooks", "webhooks", "me/tokens", "me/ssh-keys",
     "files/places"],
)  # fmt: skip
def test_fields_narrow_the_rows_and_unknown_ones_are_named(ada, cast, path, settings, tmp_path):
    settings.TESSERA_FILES = tmp_path
    job = make.job(cast.ada, pool="dev")
    make.webhook(cast.ada)
    create_notebook(user=cast.ada, name="explore", gpu="1/4")
    add_ssh_key(user=cast.ada, key=make.ssh_key(), name="laptop")
    notify(user_id=cast.ada.pk, kind="job_started", about=job)
    whole = ada.get(path).json()["results"][0]
    wanted = sorted(whole)[:2]
    assert sorted(ada.get(path, {"fields": ",".join(wanted)}).json()["results"][0]) == wanted
    refused = ada.get(path, {"fields": "id,nonsense"})
    assert refused.status_code == 400 and refused.json()["errors"][0]["pointer"] == "/fields"


def test_many_are_stopped_and_each_answer_stands_by_itself(ada, bob, cast):
    mine, theirs = make.job(cast.ada, pool="dev"), make.job(cast.bob, pool="dev")
    secret = make.job(cast.eve, pool="dev")
    asked = {"ids": [mine.public_id, theirs.public_id, secret.public_id, "nb-1", mine.public_id]}
    results = {row["id"]: row for row in ada.post("jobs:stop", asked).json()["results"]}
    assert len(results) == 4 and results[mine.public_id] == {
        "id": mine.public_id, "ok": True, "state": "cancelled", "error": None
    }  # fmt: skip
    codes = [results[name]["error"]["code"] for name in (theirs.public_id, secret.public_id, "nb-1")]
    assert codes == ["not_permitted", "not_found", "not_found"]
    assert Job.objects.get(pk=secret.pk).stop_requested_at is None


def test_fourteen_stops_take_as_many_statements_as_two(ada, cast):
    """Of waiting and running jobs alike; one by one each took thirty, and a hundred 20 s beside a cycle."""
    few, many = ([make.job(cast.ada, pool="dev", gpu="1/8") for _ in range(count)] for count in (2, 14))
    for job in (*few[:1], *many[:7]):
        make.start(job)
    costs = []
    for jobs in few, many:
        with CaptureQueriesContext(connection) as seen:
            results = ada.post("jobs:stop", {"ids": [job.public_id for job in jobs]}).json()["results"]
        costs.append(len(seen))
        assert [row["state"] for row in results] == ["running"] * (len(jobs) // 2) + ["cancelled"] * (len(jobs) // 2)
    assert costs[1] <= costs[0] <= 40
    events = Event.objects.filter(verb="stop_requested", kind=Job.KIND)
    assert {(event.object_id, event.actor) for event in events} == {(job.pk, "ada") for job in (*few, *many)}


def test_many_are_retried(ada, cast):
    ended, waiting = make.job(cast.ada, pool="dev"), make.job(cast.ada, pool="dev")
    make.start(ended)
    make.end(ended, TaskState.FAILED, "exit_nonzero", 1)
    results = ada.post("jobs:retry", {"ids": [ended.public_id, waiting.public_id]}).json()["results"]
    assert [(row["ok"], row["state"]) for row in results] == [(True, "queued"), (False, None)]
    assert results[1]["error"]["code"] == "only_ended_jobs"


@pytest.mark.parametrize("sent", [{}, {"ids": []}, {"ids": ["job-1"] * 201}, {"ids": "job-1"}, []])
def test_what_is_no_list_of_jobs_is_refused(ada, sent):
    assert ada.post("jobs:stop", sent).status_code == 400


def test_notices_are_listed_in_words_and_marked(ada, bob, cast):
    job = make.job(cast.ada, pool="dev", name="train")
    notice = notify(user_id=cast.ada.pk, kind="job_failed", about=job, params={"name": "train", "reason": "time_limit"})
    (shown,) = ada.get("notices", {"unread": "true"}).json()["results"]
    assert shown["title"] == f"train ({job.public_id}) failed" and shown["text"].startswith(
        "The time limit was reached."
    )
    assert bob.post("notices:read", {"ids": [notice.pk]}).json() == {"unread": 0}
    assert ada.get("notices", {"unread": "true"}).json()["results"]
    assert ada.post("notices:read", {}).json() == {"unread": 0}


def test_every_answer_says_how_many_calls_are_left_and_the_last_says_when(ada, bob, settings):
    settings.TESSERA_RATES = {**settings.TESSERA_RATES, "calls": (3, 3600)}
    first = ada.get("me")
    assert first["RateLimit-Policy"] == '"calls";q=3;w=3600' and first["RateLimit"].startswith('"calls";r=2;t=')
    ada.get("jobs"), ada.get("nowhere")
    refused = ada.get("me")
    assert refused.status_code == 429 and int(refused["Retry-After"]) > 0 and ";r=0;" in refused["RateLimit"]
    assert refused.json()["code"] == "too_many_requests" and bob.get("me").status_code == 200


def test_all_tokens_and_pages_of_a_person_share_one_budget(ada, bob, cast, client, settings):
    settings.TESSERA_RATES = {**settings.TESSERA_RATES, "calls": (3, 3600)}
    minted = ada.post("me/tokens", {"name": "more", "scopes": ["jobs:read"]}).json()["secret"]
    client.force_login(cast.ada)
    assert Api(minted).get("jobs").status_code == client.get("/api/v1/me").status_code == 200
    assert {Api(minted).get("jobs").status_code, client.get("/api/v1/me").status_code, ada.get("me").status_code} == {
        429
    }
    assert bob.get("me").status_code == 200


def test_submits_have_a_limit_of_their_own(ada, settings):
    settings.TESSERA_RATES = {**settings.TESSERA_RATES, "submits": (1, 3600)}
    assert ada.post("jobs", {"run": "true"}).status_code == 201
    refused = ada.post("jobs", {"run": "true"})
    assert refused.status_code == 429 and ada.get("jobs").status_code == 200


def test_a_cache_that_does_not_answer_stops_nobody(ada, settings):
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "unix:///nowhere"}}
    settings.TESSERA_RATES = {**settings.TESSERA_RATES, "calls": (1, 3600)}
    for _ in range(3):
        answer = ada.get("me")
        assert answer.status_code == 200 and "RateLimit" not in answer and "RateLimit-Policy" in answer
