"""`tessera volumes`: names become ids, and what is not said stays as it is."""

import json

from tests.cli_server import Script

VOLUME = {
    "id": 3, "name": "imagenet", "source": "/data/imagenet", "read_only": True, "description": "", "team": None,
    "created_at": "2026-11-30T08:00:00Z",
}  # fmt: skip
OWN = {**VOLUME, "id": 4, "team": "nlp", "read_only": False}


def sent(server: Script, what: str) -> dict:
    ((_, _, _, body),) = server.of(what)
    return json.loads(body)


def test_ls_tells_where_each_lies(server, tessera):
    server.on("GET /volumes", (200, {"results": [VOLUME, OWN]}))
    lines = [line.split() for line in tessera("volumes", "ls").stdout.splitlines()]
    assert lines[1:] == [
        ["imagenet", "/data/imagenet", "all", "read-only", "–"],
        ["imagenet", "/data/imagenet", "nlp", "writable", "–"],
    ]


def test_add_is_read_only_unless_it_is_said(server, tessera):
    server.on("POST /volumes", (201, VOLUME))
    done = tessera("volumes", "add", "imagenet", "/data/imagenet")
    assert done.stdout.strip() == "volume:imagenet is /data/imagenet, read-only, for all."
    assert sent(server, "POST /volumes")["read_only"] is True


def test_set_and_rm_find_the_one_that_is_meant(server, tessera):
    server.on("GET /volumes", (200, {"results": [VOLUME, OWN]}))
    server.on("PATCH /volumes/4", (200, OWN))
    server.on("DELETE /volumes/3", (204, None))
    assert tessera("volumes", "set", "imagenet", "--team", "nlp", "--writable").exit_code == 0
    assert sent(server, "PATCH /volumes/4") == {"read_only": False}
    assert tessera("volumes", "set", "imagenet").exit_code == 2
    assert tessera("volumes", "rm", "imagenet").exit_code == 0
    assert tessera("volumes", "rm", "words").exit_code == 3
