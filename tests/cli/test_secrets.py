"""`tessera secrets`: the value comes from standard input and is shown nowhere."""

import json

from tests.cli_server import Script

CANARY = "c4nary-f00d-1234"
ROW = {
    "id": 4, "name": "HUB", "team": None, "version": 2, "changed_at": "2026-11-30T08:00:00Z", "changed_by": "ada",
    "used_at": "2026-11-30T09:00:00Z", "used_by": "job-7",
}  # fmt: skip
OF_TEAM = {**ROW, "id": 5, "team": "nlp", "used_at": None, "used_by": None}


def secrets(*rows: dict) -> tuple:
    return 200, {"results": list(rows), "next_cursor": None}


def sent(server: Script) -> dict:
    ((_, _, _, body),) = server.of("POST /secrets")
    return json.loads(body)


def test_ls_tells_whose_they_are_and_when_they_were_used(server, tessera):
    server.on("GET /secrets", secrets(ROW, OF_TEAM))
    lines = tessera("secrets", "ls").stdout.splitlines()
    assert lines[1].split() == ["HUB", "mine", "2", "2026-11-30", "by", "ada", "2026-11-30", "by", "job-7"]
    assert lines[2].split()[:2] == ["HUB", "nlp"]


def test_the_value_is_read_and_never_printed(server, tessera):
    server.on("POST /secrets", (201, ROW))
    done = tessera("secrets", "set", "HUB", input=f"{CANARY}\n")
    assert done.exit_code == 0 and CANARY not in done.stdout + done.stderr
    assert sent(server) == {"name": "HUB", "value": CANARY}


def test_several_lines_keep_their_end(server, tessera):
    server.on("POST /secrets", (201, OF_TEAM))
    tessera("secrets", "set", "HUB", "--team", "nlp", input="a\nb\n")
    assert sent(server) == {"name": "HUB", "value": "a\nb\n", "team": "nlp"}


def test_rm_deletes_the_one_that_is_meant(server, tessera):
    server.on("GET /secrets", secrets(ROW, OF_TEAM))
    server.on("DELETE /secrets/5", (204, None))
    assert tessera("secrets", "rm", "HUB", "--team", "NLP", "--force").exit_code == 0
    ((_, asked, _, _),) = server.of("DELETE /secrets/5")
    assert "force=true" in asked
    missing = tessera("secrets", "rm", "NONE")
    assert missing.exit_code == 3 and "You have no secret" in missing.stderr
