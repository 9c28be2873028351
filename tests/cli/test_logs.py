"""Logs over a network that fails, and staying with a job until it starts or ends."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cli import following
from tests.cli_server import a_job, chunks, drop, ended

ROOT = Path(__file__).parents[2]
LOG = "GET /jobs/job-1/logs"


def offsets(server) -> list[str]:
    return [path.partition("offset=")[2].partition("&")[0] for _, path, _, _ in server.of(LOG)]


def test_a_cut_connection_goes_on_at_the_byte_where_it_stopped(server, tessera):
    server.on("GET /jobs/job-1", (200, a_job()), (200, ended()))
    server.on(
        LOG,
        chunks("第1".encode()[:2], whole=False),
        drop,
        chunks("第1".encode()[2:], b"\nline 2\nli", whole=False),
        chunks(b"ne 3\n"),
    )
    result = tessera("logs", "-f", "1")
    assert (result.exit_code, result.stdout) == (0, "第1\nline 2\nline 3\n")
    assert offsets(server) == ["0", "2", "2", "14"]


def test_an_answer_shorter_than_it_says_is_read_on(server, tessera):
    def short(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "10")
        handler.end_headers()
        handler.wfile.write(b"12345")

    server.on("GET /jobs/job-1", (200, ended()))
    server.on(LOG, short, chunks(b"67890"))
    assert tessera("logs", "job-1").stdout == "1234567890" and offsets(server) == ["0", "5"]


def test_a_follower_goes_on_when_the_platform_ends_the_stream_early(server, tessera):
    server.on("GET /jobs/job-1", (200, a_job()), (200, a_job()), (200, ended()))
    server.on(LOG, chunks(b"one "), chunks(b"two"))
    assert tessera("logs", "-f", "1").stdout == "one two"


def test_a_follower_stays_with_the_task_that_it_began_with(server, tessera):
    server.on("GET /jobs/job-1", (200, a_job()), (200, ended()))
    server.on(LOG, chunks(b"a", whole=False, task="t-1"), chunks(b"b", task="t-1"))
    tessera("logs", "-f", "1")
    assert all("task=t-1" in path for _, path, _, _ in server.of(LOG))


def test_the_next_attempt_is_followed_too(server, tessera):
    again = a_job(attempt=2, tasks=[{**a_job()["tasks"][0], "uuid": "t-2"}])
    server.on(
        "GET /jobs/job-1",
        (200, a_job()),
        (200, again),
        (200, again),
        (200, {**again, "state": "failed", "reason": "time_limit", "reason_text": "The time limit was reached."}),
    )
    server.on(LOG, chunks(b"first\n"), chunks(b"second\n", task="t-2"))
    result = tessera("logs", "-f", "1")
    assert (result.exit_code, result.stdout) == (1, "first\nsecond\n")
    assert result.stderr == "job-1 is tried again: attempt 2.\njob-1 failed: The time limit was reached.\n"


def test_a_log_of_a_platform_that_stays_away_ends(server, tessera, monkeypatch):
    monkeypatch.setattr(following, "GIVE_UP_AFTER_S", 0.05)
    server.on("GET /jobs/job-1", (200, a_job()))
    server.on(LOG, drop)
    result = tessera("logs", "1")
    assert result.exit_code == 6 and "Trying again." in result.stderr


def test_a_rank_that_is_not_there_is_said(server, tessera):
    server.on("GET /jobs/job-1", (200, a_job()))
    result = tessera("logs", "1", "--rank", "3")
    assert (result.exit_code, result.stderr) == (2, "rank: job-1 has no task 3. The highest is 0.\n")


def test_following_a_new_job_leaves_stdout_to_its_log(server, tessera):
    server.on("POST /jobs", (201, a_job(state="queued")))
    server.on("GET /jobs/job-1", (200, a_job(state="queued")), (200, a_job()), (200, ended()))
    server.on(LOG, chunks(b"hello\n"))
    result = tessera("run", "-f", "--", "echo", "hello")
    assert (result.exit_code, result.stdout) == (0, "hello\n")
    assert result.stderr.splitlines() == [
        "job-1 is queued. http://localhost/j/job-1/", "job-1 waits: #2 · the team is at its limit",
    ]  # fmt: skip


@pytest.mark.parametrize(("state", "exit_code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_waiting_for_the_end_answers_with_it(server, tessera, state, exit_code):
    server.on("POST /jobs", (201, a_job(state="queued")))
    server.on("GET /jobs/job-1", (200, a_job()), drop, (200, ended(state=state, reason="x", reason_text="So it went.")))
    assert tessera("run", "--wait", "end", "true").exit_code == exit_code


def test_waiting_for_the_start_returns_when_it_runs_and_no_later_than_asked(server, tessera):
    server.on("POST /jobs", (201, a_job(state="queued")))
    server.on("GET /jobs/job-1", (200, a_job(state="queued")), (200, a_job()))
    assert tessera("run", "-q", "--wait", "start", "true").exit_code == 0
    server.on("GET /jobs/job-1", (200, a_job(state="queued")))
    result = tessera("run", "-q", "--wait", "start", "--timeout", "0s", "true")
    assert (result.exit_code, result.stderr) == (5, "job-1 is still queued after 0s.\n")


def on_a_terminal(url: str, *args: str, **also: str) -> bytes:
    """What a real terminal gets from a real process."""
    main, terminal = pty.openpty()
    environment = {**os.environ, "TESSERA_URL": url, "TESSERA_TOKEN": "tes_ada", "PYTHONPATH": str(ROOT), **also}
    process = subprocess.Popen([sys.executable, "-m", "cli", *args], stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(main, 4096):
            shown += piece
    except OSError:  # Linux's end of a terminal
        pass
    finally:
        os.close(main)
        process.wait(20)
    return shown


def test_a_terminal_gets_colours_and_nothing_that_moves_it(server):
    server.on("GET /jobs/job-1", (200, ended()))
    server.on(LOG, chunks(b"\x1b[31mred\x1b[2J\x1b]0;pwned\x07 \x1b[", b"1mbold\n"))
    assert on_a_terminal(server.url, "logs", "1") == b"\x1b[31mred \x1b[1mbold\r\n\x1b[0m"
    assert on_a_terminal(server.url, "logs", "1", NO_COLOR="1") == b"red bold\r\n"


def part(content: bytes, following_offset: int, size: int):
    """What the platform selects of a part of a log."""

    def answer(handler):
        handler.send_response(200)
        told = {"Content-Length": len(content), "X-Log-Next-Offset": following_offset, "X-Log-Size": size}
        for name, value in told.items():
            handler.send_header(name, str(value))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def test_lines_are_searched_part_by_part_until_the_end(server, tessera):
    server.on("GET /jobs/job-1", (200, ended()))
    server.on(LOG, part(b"loss 1\n", 4000, 9000), part(b"", 8000, 9000), part(b"loss 2\n", 9100, 9100))
    assert tessera("logs", "1", "--grep", "loss", "--timestamps").stdout == "loss 1\nloss 2\n"
    assert offsets(server) == ["0", "4000", "8000"]
    assert all("search=loss" in path and "timestamps=1" in path for _, path, _, _ in server.of(LOG))


def test_a_log_that_does_not_go_on_ends_the_search(server, tessera):
    server.on("GET /jobs/job-1", (200, ended()))
    server.on(LOG, part(b"x\n", 0, 9000))
    assert tessera("logs", "1", "--grep", "x").stdout == "x\n"


def test_what_is_followed_is_not_searched(server, tessera):
    result = tessera("logs", "-f", "1", "--grep", "x")
    assert result.exit_code == 2 and "Leave it out" in result.stderr


def test_a_task_is_named_by_its_jobs_name(server, tessera):
    tasks = [{"uuid": f"t-{role}", "role": role, "rank": 0, "ended_at": None} for role in ("main", "side")]
    server.on("GET /jobs", (200, {"results": [ended(name="train", tasks=tasks)], "next_cursor": None}))
    server.on("GET /jobs/job-1", (200, ended(name="train", tasks=tasks)))
    server.on(LOG, chunks(b"one"))
    for name in ("train.side.0", "job-1.side.0", "1.side.0"):
        assert tessera("logs", name).stdout == "one", name
        assert "task=t-side" in server.of(LOG)[-1][1]
    assert tessera("logs", "job-1.side.1").stderr == "job-1 has no task side.1. It has: main.0, side.0\n"
    assert tessera("logs", "train.side.0", "--rank", "0").exit_code == 2
    missing = tessera("logs", "train.sid.0")
    assert missing.exit_code == 3 and "Did you mean train.side.0" in missing.stderr
