"""`tessera backup` hands its words to the platform's own program, and says where there is none."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cli.commands import administration
from cli.main import app


@pytest.fixture
def started(monkeypatch):
    """The commands that would be run; each ends with 3."""
    commands: list[list[str]] = []

    def run(command, env):
        commands.append(command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(administration.subprocess, "run", run)
    return commands


def test_options_and_exit_code_are_those_of_the_program(started):
    done = CliRunner().invoke(app, ["backup", "--homes", "reference", "/mnt", "--help"])
    assert done.exit_code == 3
    assert started == [
        [sys.executable, "-m", administration.PROGRAM, "backup", "--homes", "reference", "/mnt", "--help"]
    ]


def test_elsewhere_it_says_what_to_run(started, tmp_path, monkeypatch):
    monkeypatch.setattr(administration, "ROOT", tmp_path)
    done = CliRunner().invoke(app, ["backup-key", "key"])
    assert done.exit_code == 2 and not started
    assert "docker compose exec worker python manage.py backup_key" in done.output
