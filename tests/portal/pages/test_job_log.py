"""What stands above a log that an agent brings; parts of a log, and a search in it."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from accounts.models import User
from cluster.models import Agent, Node
from jobs.log_ingest import Piece, store_pieces
from jobs.models import Task
from jobs.states import TaskState
from runtimes.log_store import LogStore
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


# ---- parts of it, and a search ----


@pytest.fixture
def ask(page, client, settings, tmp_path):
    """ask("lines", line=3) → the answer's JSON; the log has 50,000 lines, an error and a colour."""
    lines = [b"line %d" % (n + 1) for n in range(50_000)]
    lines[30_000], lines[40_000] = b"\x1b[31mKeyError: 'x'\x1b[0m", b"Killed"
    LogStore(tmp_path).append(page.task.uuid.hex, 0, b"\n".join(lines))
    page()

    def get(what: str, **query) -> dict:
        address = f"/j/{page.task.job.public_id}/log/{page.task.uuid}/{what}"
        return client.get(address, query).json()

    return get


def test_a_line_comes_with_those_around_it_and_windows_join(ask):
    here = ask("lines", line=25_000)
    lines = here["text"].split("\n")
    assert lines[25_000 - here["line"]] == "line 25000" and here["size"] == ask("lines")["size"]
    after, before = ask("lines", **{"from": here["end"]}), ask("lines", before=here["start"])
    assert after["text"].startswith(f"line {after['line']}\n") and after["line"] == here["line"] + len(lines) - 1
    assert before["end"] == here["start"] and before["text"].endswith(f"line {here['line'] - 1}\n")
    assert len(here["text"]) < 100_000


def test_a_search_names_lines_and_where_it_goes_on(ask):
    found = ask("search", q="LINE 4999")
    assert found["lines"] == [4999, *range(49_990, 50_000)] and found["searched"] == found["size"]
    assert ask("search", q="nowhere")["lines"] == []
    some = ask("search", q="line")
    assert len(some["lines"]) == 1000 and some["next"] < some["size"]
    assert ask("search", q="line", **{"from": some["next"]})["lines"][0] == some["lines"][-1] + 1


def test_times_are_those_that_were_told_and_no_others(ask, page, tmp_path):
    assert ask("times", **{"from": 0, "to": 20}) == {"line": 1, "end": 14, "times": [0, 0]}
    store, task = LogStore(tmp_path), page.task.uuid.hex
    size = store.size(task)
    store.append(task, size, b"\nlast\n", [(size + 1, 1767225600)])
    assert ask("times", **{"from": size + 1, "to": size + 6}) == {
        "line": 50_001,
        "end": size + 6,
        "times": [1767225600],
    }


def test_without_words_it_looks_for_errors(ask):
    assert ask("search")["lines"] == [30_001, 40_001]


@pytest.mark.parametrize("query", [{"line": "x"}, {"from": "-1"}, {"before": "9" * 40}, {"from": "1.5"}, {"line": "²"}])
def test_a_bad_number_is_refused(page, client, query):
    page()
    for what in ("lines", "search"):
        address = f"/j/{page.task.job.public_id}/log/{page.task.uuid}/{what}"
        assert client.get(address, query).status_code == (400 if what == "lines" or "from" in query else 200)
    assert client.get(address, {"q": "x" * 201}).status_code == 400


def test_a_stranger_reads_and_finds_nothing(ask, page, client):
    client.force_login(User.objects.get(username="eve"))
    for what in ("lines", "times", "search", ""):
        address = f"/j/{page.task.job.public_id}/log/{page.task.uuid}/{what}".removesuffix("/")
        assert client.get(address).status_code == 404


def test_the_log_tab_has_a_search_and_the_overview_has_not(ask, page, client):
    full, short = page(), client.get(f"/j/{page.task.job.public_id}/").content.decode()
    assert "data-log-search" in full and "data-log-search" not in short
    assert f'data-page="/j/{page.task.job.public_id}/?tab=log&amp;task={page.task.uuid}"' in full


@pytest.mark.parametrize(
    ("asked", "status", "body", "said"),
    [
        ("bytes=0-5", 206, b"line 1", "bytes 0-5/{size}"),
        ("bytes=-10", 206, b"line 50000", "bytes {from}-{last}/{size}"),
        ("bytes=99999999-", 416, None, None),
        ("lines=1-2", 200, None, None),
    ],
)
def test_a_download_goes_on_at_any_byte(ask, page, client, asked, status, body, said):
    size = ask("lines")["size"]
    answer = client.get(f"/j/{page.task.job.public_id}/log/{page.task.uuid}", headers={"Range": asked})
    assert answer.status_code == status
    if said:
        assert answer["Content-Range"] == said.format(**{"size": size, "from": size - 10, "last": size - 1})
        assert async_to_sync(read)(answer) == body
        assert answer["Content-Length"] == str(len(body)) and answer["Content-Disposition"].startswith("attachment")


async def read(answer) -> bytes:
    return b"".join([piece async for piece in answer])
