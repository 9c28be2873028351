"""What stands above a log that an agent brings."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Agent, Node
from jobs.log_ingest import Piece, store_pieces
from jobs.models import Task
from jobs.states import TaskState
from tests import make

pytestmark = pytest.mark.django_db
BEHIND, SILENT, COMING = "behind: more is written", "has been silent for", "the end of its log is on the way"
LATER, CUT = "this log arrives when the task has ended", "The end of this log is missing"


@pytest.fixture
def page(db, client, settings, tmp_path):
    """page() → the log page of ada's task that runs on n1."""
    settings.TESSERA_LOGS = tmp_path
    cast = make.cast()
    job = make.job(cast.ada, pool="dev")
    make.start(job)

    def show() -> str:
        client.force_login(cast.ada)
        return client.get(f"/j/{job.public_id}/?tab=log").content.decode()

    show.task = job.newest_tasks.get()  # type: ignore[attr-defined]
    return show


@pytest.fixture
def bring(page):
    agent = make.agent("n1")

    def say(content: bytes = b"", **more) -> None:
        offset = more.pop("offset", 0)
        agent.refresh_from_db()
        task = Task.objects.get(pk=page.task.pk)
        store_pieces(agent, [Piece(task.uuid.hex, offset, content, **more)])

    return say


def notes(text: str) -> list[str]:
    return [words for words in (BEHIND, SILENT, COMING, LATER, CUT) if words in text]


def end(page) -> None:
    make.move(page.task, TaskState.SUCCEEDED, "completed", exit_code=0)


def test_of_a_task_that_only_starts_no_line_is_missing(page, bring):
    bring()
    Agent.objects.update(logs_at=timezone.now() - timedelta(hours=1))
    assert notes(page()) == [SILENT]
    Task.objects.filter(pk=page.task.pk).update(state=TaskState.STARTING, started_at=None)
    assert notes(page()) == []


def test_a_log_that_comes_as_it_is_written_needs_no_words(page, bring):
    bring(b"one\n")
    assert notes(page()) == []


def test_a_log_that_is_behind_says_since_when(page, bring):
    bring(b"one\n", behind_s=40)
    assert notes(page()) == [BEHIND]
    bring(b"two\n", offset=4)
    assert notes(page()) == []


def test_an_agent_that_is_silent_is_named(page, bring):
    bring(b"one\n")
    Agent.objects.update(logs_at=timezone.now() - timedelta(minutes=2))
    text = page()
    assert notes(text) == [SILENT] and "The agent of n1" in text


def test_the_end_is_on_its_way_and_then_there(page, bring):
    bring(b"one\n")
    end(page)
    assert notes(page()) == [COMING] and " data-live\n" in page()
    bring(b"two\n", offset=4, end="whole")
    assert notes(page()) == [] and " data-live\n" not in page()


def test_an_end_that_nobody_brought_is_said(page, bring):
    bring(b"one\n")
    end(page)
    Task.objects.update(ended_at=timezone.now() - timedelta(minutes=11))
    assert notes(page()) == [CUT]


def test_where_no_agent_is_the_log_comes_at_the_end(page):
    assert notes(page()) == []  # here its own shim writes it
    Node.objects.update(facts={"logs": "agent"})
    text = page()
    assert notes(text) == [LATER] and "No agent sends logs from n1" in text
    end(page)
    assert notes(page()) == []
