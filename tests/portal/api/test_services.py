"""Services over REST: made by their file, rolled out, woken and stopped, with keys; strangers see nothing."""

from datetime import timedelta
from time import time

import pytest

from common.locks import database_now
from common.steady_clock import steady_now
from monitoring.samples.services import record_traffic
from services.controlling import control_service
from services.in_flight import Loads
from services.models import CallCount, Replica, Service
from services.traffic import find_bucket
from services.traffic_counts import ERRORS, REQUESTS, add_counts
from services.usage import Calls, add_usage, drop_old_usage, list_usage, sum_usage
from tests import make


@pytest.fixture
def chat(cast):
    return make.service(cast.ada)


def file_of(**said: str) -> str:
    return make.SERVICE_FILE.format(**make.USUAL_SERVICE | said)


def test_one_is_made_by_its_file_and_shown(ada, cast):
    made = ada.post("services", {"job_file": file_of()})
    assert made.status_code == 201, made.content
    shown = made.json()
    assert (shown["name"], shown["team"], shown["owner"], shown["state"]) == ("chat", "nlp", "ada", "asleep")
    assert shown["links"]["call"].endswith("/-/nlp/chat") and made["Location"] == shown["links"]["self"]
    assert ada.get("services?q=cha&owner=me").json()["results"] == [shown]
    assert ada.post("services", {"job_file": file_of()}).json()["code"] == "name_taken"
    refused = ada.post("services", {"job_file": "kind: service\nrun: serve\n"}).json()
    assert [error["pointer"] for error in refused["errors"]] == ["/job_file/serve"]
    job = ada.post("jobs", {"kind": "service", "run": "serve", "serve": {"port": 8000}}).json()
    assert [(error["pointer"], error["code"]) for error in job["errors"]] == [("/kind", "service_not_here")]


def test_its_state_is_that_of_its_replicas(ada, cast, chat):
    def look(requests: int) -> dict:
        control_service(chat.pk, Loads({chat.pk: requests}), check=lambda draft: None, containers=False)
        return ada.get(f"services/{chat.public_id}").json()

    shown = look(1)
    assert shown["state"] == "waking" and "waits in the queue" in shown["wait"]
    replica = Replica.objects.get()
    [task] = make.start(replica.job)
    assert "not ready yet" in ada.get(f"services/{chat.public_id}").json()["wait"]
    Replica.objects.update(ready_task=task.uuid, ready_at=database_now())
    shown = look(1)
    assert (shown["state"], shown["wait"]) == ("up", "")
    told = {"job": replica.job.public_id, "revision": 1, "state": "RUNNING", "ready": True, "draining": False}
    in_flight = shown["in_flight"]  # None, or 0 where another test's gateway was up a moment ago
    assert not in_flight and shown["replicas"] == [told | {"gpu": "1/4", "node": "n1", "in_flight": in_flight}]
    changed = ada.patch(f"services/{chat.public_id}", {"job_file": file_of(access="key")}).json()
    assert (changed["state"], changed["revision"], changed["rollout"]) == ("updating", 1, 2)
    back = ada.post(f"services/{chat.public_id}:rollback", {}).json()
    assert (back["state"], back["rollout"]) == ("up", None)
    assert [one["number"] for one in ada.get(f"services/{chat.public_id}/revisions").json()["results"]] == [2, 1]
    assert ada.post(f"services/{chat.public_id}:stop").json()["state"] == "stopped"
    assert ada.post(f"services/{chat.public_id}:wake").json()["state"] == "up"
    assert ada.post(f"services/{chat.public_id}:sleep").status_code == 200


def test_a_canary_is_shown_and_ended_early(ada, bob, cast, chat):
    path = f"services/{chat.public_id}"
    assert ada.get(f"{path}/metrics").json()["cold_starts"] == {"median": None, "last": []}
    job = make.replica(chat).job.public_id
    make.canary(chat, file_of().replace("access: team", "canary: {share: 20%, back_if: {p95: 1.5x}}"))
    shown = ada.get(path).json()["canary"]
    assert (shown["revision"], shown["share"], shown["so_far"]["error_percent"]) == (2, 20, 3.33)
    assert shown["good"]["p95_ms"] == 2 and shown["back_if"] == {"error_percent": 2.0, "p95_factor": 1.5, "p95_ms": 3}
    metrics = bob.get(f"{path}/metrics").json()
    assert (metrics["window_s"], metrics["all"]["requests"], metrics["all"]["per_s"]) == (300, 330, 1.1)
    assert [(one["revision"], one["requests"]) for one in metrics["revisions"]] == [(2, 30), (1, 300)]
    starts = metrics["cold_starts"]
    assert [(one["job"], one["revision"]) for one in starts["last"]] == [(job, 1)]
    assert starts["median"]["program_s"] == starts["last"][0]["program_s"] >= 0
    assert bob.post(f"{path}:promote").status_code == 403
    early = ada.post(f"{path}:promote").json()
    assert (early["rollout"], early["canary"]) == (2, None)
    assert ada.post(f"{path}:promote").json()["code"] == "no_canary"


@pytest.mark.parametrize("is_known", [True, False])
def test_its_traffic_is_sampled_and_drawn(ada, chat, monkeypatch, is_known):
    """What was answered within the last half minute, whole slots of it; and that it is not known while nobody says."""
    now = time()
    if not is_known:
        monkeypatch.setattr("monitoring.samples.services.read_slots_of", lambda *asked: None)
    monkeypatch.setattr("monitoring.samples.services.read_loads", lambda: Loads({chat.pk: 3}) if is_known else None)
    make.replica(chat)
    for seconds, requests in ((9, 60), (20, 30), (90, 1000)):
        counts = {REQUESTS: requests, ERRORS: requests // 10, find_bucket(0.01): requests}
        add_counts({(chat.pk, chat.current_id, what): n for what, n in counts.items()}, now - seconds)
    record_traffic(now)
    asked = f"services/{chat.public_id}/metrics?step=10"
    lines = {line["metric"]: line for line in ada.get(asked).json()["series"]}
    known = {metric: {value for value in line["values"] if value is not None} for metric, line in lines.items()}
    assert known["replicas"] == known["ready_replicas"] == {1.0}
    if is_known:
        assert (known["requests_per_s"], known["errors_per_s"], known["in_flight"]) == ({3.0}, {0.3}, {3.0})
        assert 8 < min(known["p50_ms"]) < max(known["p95_ms"]) < 12 and lines["p50_ms"]["unit"] == "ms"
    else:
        assert not any(known[metric] for metric in ("requests_per_s", "p95_ms", "in_flight"))
    assert ada.get(f"{asked}&metrics=nothing").json()["errors"][0]["code"] == "unknown_metric"


def test_it_is_scaled_until_its_next_file(ada, bob, chat):
    path = f"services/{chat.public_id}"
    assert ada.post(f"{path}:scale", {"replicas": "1..2"}).json()["scale"] == "1..2"
    control_service(chat.pk, Loads({chat.pk: 9}), check=lambda draft: None, containers=False)
    assert Replica.objects.count() == 2
    for wrong, code in (("0", "no_replicas"), ("4..2", "bad_span"), ("many", "wrong_type"), ("101", "too_large")):
        [error] = ada.post(f"{path}:scale", {"replicas": wrong}).json()["errors"]
        assert (error["pointer"], error["code"]) == ("/replicas", code)
    assert bob.post(f"{path}:scale", {"replicas": "2"}).status_code == 403
    ada.patch(path, {"job_file": file_of(access="key")})
    assert ada.get(path).json()["scale"] == "0..4"
    assert ada.post(f"{path}:scale", {"replicas": 3}).json()["scale"] == "3"
    assert ada.post(f"{path}:scale", {"replicas": None}).json()["scale"] == "0..4"


def test_keys_are_shown_once(ada, bob, chat):
    path = f"services/{chat.public_id}/keys"
    made = ada.post(path, {"name": "bot", "days": 7})
    assert made.status_code == 201 and made.json()["secret"].startswith("tsk_")
    [listed] = bob.get(path).json()["results"]
    assert listed["name"] == "bot" and "secret" not in listed
    assert bob.post(path, {"name": "mine"}).status_code == 403
    assert bob.delete(f"{path}/{listed['id']}").status_code == 204
    assert ada.get(path).json()["results"] == []
    limited = ada.post(path, {"name": "x", "per_minute": 60}).json()
    assert (limited["per_minute"], limited["in_flight"]) == (60, None)
    own = f"{path}/{limited['id']}"
    changed = ada.patch(own, {"per_minute": None, "in_flight": 4}).json()
    assert (changed["per_minute"], changed["in_flight"]) == (None, 4)
    assert ada.patch(own, {"per_minute": 0}).json()["errors"][0]["pointer"] == "/per_minute"
    assert bob.patch(own, {"in_flight": 1}).status_code == 403
    assert ada.post(path, {"name": "x", "days": 0}).json()["errors"][0]["pointer"] == "/days"


def test_usage_is_told_by_day_and_key(ada, chat):
    today = steady_now().date()
    add_usage(today, {Calls(chat.pk, CallCount.BY_BROWSER): (4, 0)})
    for day, name, key in ((today, "bot", 7), (today, "", 0), (today - timedelta(days=3), "bot", 7)):
        add_usage(day, {Calls(chat.pk, key, name): (5, 1)})
    add_usage(today, {Calls(chat.pk, 7, "bot"): (2, 0)})
    told = ada.get(f"services/{chat.public_id}/usage").json()["results"]
    assert [(one["by"], one["key"], one["name"], one["requests"], one["failed"]) for one in told] == [
        ("browser", None, "", 4, 0),
        ("token", None, "", 5, 1),
        ("key", 7, "bot", 7, 1),
        ("key", 7, "bot", 5, 1),
    ]
    assert len(ada.get(f"services/{chat.public_id}/usage?days=3").json()["results"]) == 3
    [bot, tokens, _browsers] = sum_usage(list_usage(chat, 30), today)
    assert (bot.today, bot.week, bot.all, bot.errors, tokens.all) == (7, 12, 12, 2, 5)
    chat.call_counts.filter(key=0).update(day=today - timedelta(days=401))
    drop_old_usage()
    assert chat.call_counts.count() == 3


def test_its_replicas_are_hidden_and_shown_among_jobs(ada, cast, chat):
    replica, job = make.replica(chat).job.public_id, make.job(cast.ada).public_id
    for kind, shown in (("", {replica, job}), ("service", {replica}), ("batch", {job}), ("interactive", set())):
        asked = {"kind": kind} if kind else {}
        assert {one["id"] for one in ada.get("jobs", asked).json()["results"]} == shown
        view = ada.post("me/views", {"name": "these"} | asked).json()
        assert (view["kind"], view["jobs"].get("kind", "")) == (kind, kind)
    page = ada.client
    page.force_login(cast.ada)
    for kind, words, rows in (("service", "Replicas of services", [replica]), ("batch", "Jobs", [job])):
        text = page.get(f"/jobs/?kind={kind}").content.decode()
        assert [one for one in (replica, job) if f'id="row-{one}"' in text] == rows
        assert f'<option value="{kind}" selected>{words}</option>' in text


def test_it_is_deleted_with_its_replicas(ada, chat):
    control_service(chat.pk, Loads({chat.pk: 1}), check=lambda draft: None, containers=False)
    assert ada.delete(f"services/{chat.public_id}").status_code == 204
    assert ada.get(f"services/{chat.public_id}").status_code == 404
    assert Replica.objects.get().job.state == "CANCELLED" and not Service.objects.live().exists()


def test_a_stranger_finds_nothing(eve, chat):
    assert eve.get("services").json()["results"] == []
    path = f"services/{chat.public_id}"
    answers = [eve.get(path), eve.patch(path, {}), eve.delete(path), eve.post(f"{path}:wake"), eve.get(f"{path}/keys")]
    assert [answer.status_code for answer in answers] == [404] * 5
