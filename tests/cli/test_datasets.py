"""`tessera data`: names become ids, folders become places, and a version is waited for."""

import json

from tests.cli_server import Script

VERSION = {
    "dataset": "ds-3", "name": "dataset:nlp/corpus@v7", "version": 7, "state": "ready", "source": "home:corpus",
    "by": "ada", "note": "", "files": 12, "bytes": 4096, "new_bytes": 100, "digest": "f" * 64, "left_out": [],
    "left_out_count": 0, "error": None, "created_at": "2026-11-30T08:00:00Z", "ready_at": None, "deleted_at": None,
}  # fmt: skip
DATASET = {
    "id": "ds-3", "kind": "dataset", "name": "corpus", "team": "nlp", "owner": "ada", "description": "Words",
    "share": "team", "shared_with": [], "newest": 7, "stages": {"prod": 7},
}  # fmt: skip
OTHER = {**DATASET, "id": "ds-4", "team": "vision"}


def rows(*found: dict) -> tuple:
    return 200, {"results": list(found), "next_cursor": None}


def sent(server: Script, what: str) -> dict:
    ((_, _, _, body),) = server.of(what)
    return json.loads(body)


def test_ls_lists_what_one_may_read(server, tessera):
    server.on("GET /datasets", rows(DATASET))
    assert tessera("data", "ls").stdout.splitlines()[1].split() == ["corpus", "nlp", "v7", "team", "ada", "Words"]


def test_add_names_the_folder_and_waits_until_all_is_read(server, tessera, monkeypatch):
    monkeypatch.setattr("cli.commands.data.datasets.WAIT_S", 0)
    server.on("POST /datasets", (201, {**VERSION, "state": "taking"}))
    server.on("GET /datasets/ds-3/versions/7", (200, VERSION))
    done = tessera("data", "add", "nlp/corpus", "team:nlp/words/all", "--note", "more")
    assert done.exit_code == 0 and "is ready: 12 files, 4.1 kB, 100 B new" in done.stdout
    asked = sent(server, "POST /datasets")
    assert (asked["name"], asked["team"], asked["place"], asked["path"]) == ("corpus", "nlp", "team:nlp", "words/all")


def test_a_version_that_fails_says_why(server, tessera):
    server.on("POST /datasets", (201, {**VERSION, "state": "failed", "error": "log changed while it was read."}))
    done = tessera("data", "add", "corpus", "corpus")
    assert done.exit_code == 2 and "log changed while it was read." in done.stderr


def test_show_and_diff_name_versions(server, tessera):
    server.on("GET /datasets", rows(DATASET))
    server.on("GET /datasets/ds-3/versions", rows(VERSION))
    server.on("GET /datasets/ds-3", (200, DATASET))
    shown = tessera("data", "show", "corpus").stdout.splitlines()[1].split()
    assert shown[:3] == ["v7", "ready", "12"] and shown[-1] == "prod"
    server.on(
        "GET /datasets/ds-3/versions/7/diff",
        rows({"path": "a.txt", "change": "changed", "size": 3, "size_before": None}),
    )
    lines = tessera("data", "diff", "corpus@v6", "corpus@v7").stdout.splitlines()
    assert lines[1].split() == ["changed", "a.txt", "–", "3", "B"]


def test_a_stage_is_of_a_version_until_it_is_removed(server, tessera):
    server.on("GET /datasets", rows(DATASET))
    server.on("PATCH /datasets/ds-3", (200, DATASET))
    assert "corpus@prod is v7 now" in tessera("data", "stage", "corpus@v7", "prod").stdout
    assert sent(server, "PATCH /datasets/ds-3") == {"stages": {"prod": 7}}
    assert tessera("data", "stage", "corpus", "prod").exit_code == 2  # which version?
    assert "corpus@prod is no more" in tessera("data", "stage", "corpus", "prod", "--remove").stdout


def test_a_name_that_several_teams_have_asks_for_the_team(server, tessera):
    server.on("GET /datasets", rows(DATASET, OTHER))
    server.on("DELETE /datasets/ds-4/versions/2", (204, None))
    refused = tessera("data", "rm", "corpus@v2")
    assert refused.exit_code == 2 and "nlp, vision" in refused.stderr
    assert tessera("data", "rm", "vision/corpus@v2").exit_code == 0
    assert tessera("data", "rm", "vision/corpus").exit_code == 2  # which version?


def test_run_takes_datasets_and_folders(server, tessera):
    server.on(
        "POST /jobs", (201, {"id": "job-1", "name": "x", "state": "queued", "links": {"html": "http://x/j/job-1/"}})
    )
    tessera("run", "-d", "corpus@v7:in", "--data", "team:words:ro:out", "--", "true")
    assert sent(server, "POST /jobs")["data"] == {"in": "dataset:corpus@v7", "out": "team:words:ro"}
    assert tessera("run", "-d", "corpus", "--", "true").exit_code == 2
