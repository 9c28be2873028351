"""Logs that agents bring: only of tasks of their own machine, once each byte, and open until they are whole."""

import base64
from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Agent
from jobs.log_ingest import Piece, get_log_pace, store_pieces
from jobs.models import BroughtLog, Task
from jobs.states import TaskState
from runtimes.log_store import LogStore
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def store(settings, tmp_path) -> LogStore:
    settings.TESSERA_LOGS = tmp_path
    return LogStore(tmp_path)


@pytest.fixture
def task(db) -> Task:
    """Running on n1."""
    cast = make.cast()
    job = make.job(cast.ada, pool="dev")
    make.start(job)
    return job.newest_tasks.get()


@pytest.fixture
def agent(task) -> Agent:
    return make.agent("n1")


def bring(agent: Agent, task: Task, offset: int = 0, data: bytes = b"", **more) -> tuple[str, int]:
    (known,) = store_pieces(agent, [Piece(task.uuid.hex, offset, data, **more)])
    return known.state, known.size


def text(store: LogStore, task: Task) -> bytes:
    return store.read(task.uuid.hex, 0)[0]


def test_pieces_are_there_once_and_a_gap_is_answered_with_the_size(agent, task, store):
    assert bring(agent, task, 0, b"one\n") == ("open", 4)
    assert bring(agent, task, 0, b"one\ntwo\n") == ("open", 8)
    assert bring(agent, task, 20, b"late\n") == ("open", 8)
    assert text(store, task) == b"one\ntwo\n"


def test_no_agent_appends_to_a_task_of_another_machine(agent, task, store):
    other = make.agent("n2", key="tag_" + "o" * 43)
    assert bring(other, task, 0, b"forged\n") == ("unknown", 0) and text(store, task) == b""
    answer = Api(make.AGENT_KEY).post("agents/n2:logs", {"logs": []})
    assert (answer.status_code, answer.json()["code"]) == (403, "not_your_machine")


def test_a_log_is_open_until_its_agent_says_that_it_is_whole(agent, task, store):
    assert bring(agent, task, 0, b"one\n", end="whole") == ("open", 4)  # it runs: its agent cannot know
    make.move(task, TaskState.SUCCEEDED, "completed", exit_code=0)
    assert list(Task.objects.log_open()) == list(Task.objects.log_awaited()) == [task]
    assert bring(agent, task) == ("ended", 4)
    assert bring(agent, task, 4, b"last\n", end="whole") == ("done", 9)
    assert bring(agent, task, 9, b"more\n") == ("done", 9) and text(store, task) == b"one\nlast\n"
    assert not Task.objects.log_open().exists()


@pytest.mark.parametrize("gone", ["no agent", "revoked", "brings no logs", "long ago", "cut"])
def test_nobody_waits_for_a_log_that_nobody_can_bring(agent, task, gone):
    bring(agent, task)
    make.move(task, TaskState.FAILED, "exit_nonzero", exit_code=1)
    assert Task.objects.log_awaited().exists()
    if gone == "no agent":
        Agent.objects.all().delete()
    elif gone == "revoked":
        Agent.objects.update(revoked_at=timezone.now())
    elif gone == "brings no logs":
        Agent.objects.update(logs_at=None)
    elif gone == "long ago":
        Task.objects.update(ended_at=timezone.now() - timedelta(minutes=11))
    else:
        bring(agent, task, end="cut")
    assert not Task.objects.log_awaited().exists()


def test_a_log_that_is_behind_says_since_when(agent, task):
    bring(agent, task, 0, b"old\n", behind_s=40)
    behind = timezone.now() - BroughtLog.objects.get().behind_since
    assert timedelta(seconds=39) < behind < timedelta(seconds=50)
    bring(agent, task, 4, b"new\n", behind_s=0.5)
    assert BroughtLog.objects.get().behind_since is None


def test_no_log_is_longer_than_the_most(agent, task, store, monkeypatch):
    monkeypatch.setattr("jobs.log_ingest.MOST_BYTES", 100)
    monkeypatch.setattr("jobs.log_ingest.SLACK_BYTES", 10)
    assert bring(agent, task, 0, b"x" * 105)[1] == 105
    assert bring(agent, task, 105, b"y" * 50)[1] == 110
    assert bring(agent, task, 110, b"z")[1] == 110


def test_an_agent_brings_by_http(agent, task, store):
    said = {"task": task.uuid.hex, "offset": 0, "content": "b25lCg=="}
    answer = Api(make.AGENT_KEY).post("agents/n1:logs", {"logs": [said]})
    assert answer.json()["logs"] == [{"task": task.uuid.hex, "state": "open", "size": 4}]
    assert text(store, task) == b"one\n" and answer.json()["pause_s"] == 0.5
    bad = Api(make.AGENT_KEY).post("agents/n1:logs", {"logs": [{**said, "content": "b2"}]})
    pairs = Api(make.AGENT_KEY).post("agents/n1:logs", {"logs": [{**said, "moments": [[0]]}]})
    assert pairs.status_code == 400 and pairs.json()["errors"][0]["pointer"].startswith("/logs/0/moments")
    assert (bad.status_code, bad.json()["errors"][0]["code"]) == (400, "bad_base64")


def test_a_store_that_takes_nothing_lets_the_agent_come_again(agent, task, settings, tmp_path):
    (tmp_path / "file").touch()
    settings.TESSERA_LOGS = tmp_path / "file"
    said = {"task": task.uuid.hex, "offset": 0, "content": "b25lCg=="}
    assert Api(make.AGENT_KEY).post("agents/n1:logs", {"logs": [said]}).status_code == 503


def test_a_thousand_agents_call_more_rarely(agent):
    assert get_log_pace() == (0.5, 2.0)
    now = timezone.now()
    Agent.objects.bulk_create(Agent(node_name=f"m{n}", digest=str(n), logs_at=now) for n in range(1000))
    assert get_log_pace() == (10.0, 20.0)


def test_a_log_that_an_agent_brings_tells_when_its_lines_were_written(agent, task):
    said = {"task": task.uuid.hex, "content": base64.b64encode(b"one\ntwo\n").decode(), "moments": [[4, 60], [0, 0]]}
    assert Api(make.AGENT_KEY).post("agents/n1:logs", {"logs": [said]}).json()["moments"] is True
    owner = Api(make.token(task.job.user, "jobs:read"))
    shown = owner.get(f"jobs/{task.job.public_id}/logs", {"timestamps": "true"}).content.decode()
    assert shown == "- one\n1970-01-01T00:01:00Z two\n"
