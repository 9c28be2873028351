"""Saved views of the list of jobs."""

import json

from jobs.states import TaskState
from tests import make
from tests.cli_server import a_job, ended


def a_view(name: str = "broken", **also) -> dict:
    return {
        "id": 3, "name": name, "whose": "mine", "kind": "", "state": [], "pool": "", "label": "", "owner": "",
        "days": "", "since": None, "until": None, "q": "", "sort": "-submitted", "jobs": {"owner": "me"}, **also,
    }  # fmt: skip


def views(*rows: dict) -> tuple:
    return 200, {"results": list(rows), "next_cursor": None}


def test_ps_lists_what_a_view_shows(server, tessera):
    query = {"state": "failed", "pool": "dev", "label": "exp:a"}
    server.on("GET /me/views", views(a_view(whose="team", state=["failed"], jobs=query)))
    server.on("GET /jobs", (200, {"results": [ended(2, "failed")], "next_cursor": None}))
    shown = tessera("ps", "--view", "broken").stdout
    assert "OWNER" in shown and "job-2" in shown
    ((_, asked, _, _),) = server.of("GET /jobs")
    assert "state=failed&pool=dev&label=exp%3Aa" in asked and "owner" not in asked


def test_a_view_of_all_states_shows_open_jobs_and_the_last_that_ended(server, tessera):
    server.on("GET /me/views", views(a_view(jobs={"owner": "me", "pool": "dev"})))
    opened, last = ({"results": [job], "next_cursor": None} for job in (a_job(3), ended(2)))
    server.on("GET /jobs", (200, opened), (200, last))
    assert tessera("ps", "--view", "broken", "--last", "1", "-o", "name").stdout == "job-3\njob-2\n"
    assert all("owner=me&pool=dev&state=" in asked for _, asked, _, _ in server.of("GET /jobs"))
    assert "limit=1&" in server.of("GET /jobs")[1][1]


def test_jobs_come_in_the_order_of_the_view(server, tessera):
    jobs = [
        a_job(9, name="c"),
        a_job(4, name="a", started_at="2026-01-01T10:00:00Z"),
        ended(3, name="b", ended_at="2026-01-01T12:00:00Z"),
        ended(2, name="a", ended_at="2026-01-01T11:00:00Z"),
    ]
    server.on("GET /jobs", (200, {"results": jobs, "next_cursor": None}))
    for sort, order in (("name", "4 2 3 9"), ("-ended", "3 2 9 4"), ("ended", "2 3 9 4"), ("submitted", "2 3 4 9")):
        server.on("GET /me/views", views(a_view(sort=sort, jobs={"state": "running,succeeded"})))
        found = tessera("ps", "--view", "broken", "-o", "name").stdout.split()
        assert found == [f"job-{number}" for number in order.split()], sort
    server.on("GET /me/views", views(a_view(sort="-ran", jobs={"state": "running,succeeded"})))
    assert tessera("ps", "--view", "broken", "-o", "name").stdout.split()[0] == "job-4"


def test_a_name_that_is_none_and_options_that_clash(server, tessera):
    server.on("GET /me/views", views(a_view()))
    missing = tessera("ps", "--view", "brokn")
    assert missing.exit_code == 3 and missing.stderr == "You have no view named brokn. Did you mean broken?\n"
    assert tessera("view", "rm", "x").stderr == "You have no view named x. Yours: tessera view ls\n"
    assert tessera("ps", "--view", "broken", "--all").exit_code == 2


def test_views_at_the_real_portal(cast, ada):
    for name in ("one", "two"):
        make.start(job := make.job(cast.ada, name=name, pool="dev"))
        make.end(job, TaskState.FAILED, "exit_nonzero", 1)
    make.job(cast.ada, name="waits")
    saved = ada("view", "save", "broken in dev", "--state", "failed", "--pool", "dev", "--sort", "name")
    assert (
        saved.stdout == "broken in dev shows failed of yours; pool dev. List them: tessera ps --view 'broken in dev'\n"
    )
    jobs = json.loads(ada("ps", "--view", "broken in dev", "-o", "json").stdout)["results"]
    assert [job["name"] for job in jobs] == ["one", "two"]
    assert ada("view", "ls").stdout.splitlines()[1].split("  ") == [
        "broken in dev",
        "failed of yours; pool dev",
        "name",
    ]
    refused = ada("view", "save", "other", "--state", "running")
    assert refused.exit_code == 2 and "waiting, active, done" in refused.stderr
    assert ada("view", "rm", "broken in dev").exit_code == 0
    assert ada("view", "ls", "-o", "name").stdout == ""
