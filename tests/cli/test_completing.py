"""What the shells offer for a half-written word, asked by the shells themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_server import a_job, ended

ROOT = Path(__file__).parents[2]
ASK = {
    "bash": 'COMP_WORDS=({line}) COMP_CWORD={last}; _tessera_completion tessera; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "complete -C '{line}'",
}
"""The function that the Tab key calls. zsh has no way to call it without a terminal."""


@pytest.fixture(scope="module")
def command(tmp_path_factory) -> Path:
    """`tessera` in a folder for PATH."""
    command = tmp_path_factory.mktemp("bin") / "tessera"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m cli "$@"\n')
    command.chmod(0o755)
    return command


@pytest.fixture(scope="module", params=list(ASK))
def script(request, command) -> tuple[str, str]:
    """(a shell's name, the script that `tessera --show-completion` prints for it)."""
    if shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param} here")
    environment = {**os.environ, "_TESSERA_COMPLETE": f"source_{request.param}"}
    printed = subprocess.run([command], env=environment, capture_output=True, text=True, check=True)
    return request.param, printed.stdout


@pytest.fixture
def offers(command, script, tmp_path):
    """What a shell that has loaded the script offers for a line."""
    shell, text = script

    def ask(line: str) -> list[str]:
        path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
        asking = ASK[shell].format(line=line, last=line.count(" "))
        lines = [shell, "-c", f"{text}\n{asking}"]
        found = subprocess.run(lines, env=environment, capture_output=True, text=True, timeout=60)
        assert not found.stderr, found.stderr
        return [offer.partition("\t")[0] for offer in found.stdout.splitlines() if offer]

    return ask


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tessera st", ["stop"]),
        ("tessera ssh", ["ssh", "ssh-config", "ssh-key"]),
        ("tessera nb st", ["start", "stop"]),
        ("tessera files r", ["rm"]),
        ("tessera ps --st", ["--state"]),
        ("tessera ps -o y", ["yaml"]),
        ("tessera open --in v", ["vscode"]),
        ("tessera nb zzz", []),
    ],
)
def test_commands_and_options(server, offers, line, expected):
    assert offers(line) == expected


def test_ids_are_asked_from_the_platform(server, offers):
    server.on("GET /jobs", (200, {"results": [a_job(7), a_job(71), ended(8)], "next_cursor": None}))
    assert offers("tessera stop job-7") == ["job-7", "job-71"]
    assert offers("tessera stop job-7 job-7") == ["job-71"]
    assert "state=queued" in server.of("GET /jobs")[0][1]


def test_jobs_by_name_and_their_tasks(server, offers):
    tasks = [{"role": "main", "rank": rank} for rank in (0, 1)]
    server.on(
        "GET /jobs",
        (200, {"results": [a_job(7, tasks=tasks), a_job(8, name="test", tasks=tasks)], "next_cursor": None}),
    )
    assert offers("tessera stop t") == ["train", "test"] and offers("tessera stop ") == ["job-7", "job-8"]
    assert offers("tessera logs train.m") == ["train.main.0", "train.main.1"]
    assert offers("tessera logs job-7.main.1") == ["job-7.main.1"]


def test_names_of_notebooks_and_pools(server, offers):
    server.on("GET /notebooks", (200, {"results": [{"id": "nb-5", "name": "explore", "state": "stopped"}]}))
    server.on("GET /pools", (200, {"results": [{"name": "dev"}, {"name": "train"}]}))
    assert offers("tessera nb open ex") == ["explore"]
    assert offers("tessera queue --pool t") == ["train"]


def test_nothing_is_said_where_nothing_is_known(offers, monkeypatch):
    monkeypatch.setenv("TESSERA_URL", "http://127.0.0.1:1")
    assert offers("tessera stop job-zzz") == []
