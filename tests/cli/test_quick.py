"""The command starts quickly, and its shells complete it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.http.transport import VERSION

ROOT = Path(__file__).parents[2]
SLOW = ("pydantic", "rich", "ruamel", "django", "asyncio", "importlib.metadata")


def run(*args, **environment):
    everything = {**os.environ, "TESSERA_URL": "http://127.0.0.1:1", "TESSERA_TOKEN": "tes_ada", **environment}
    return subprocess.run([sys.executable, *args], cwd=ROOT, env=everything, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("args", "environment"),
    [
        (["--version"], {}),
        (["--help"], {}),
        (["ps"], {}),
        (["why", "job-3"], {}),
        (["stop", "1", "2"], {}),
        (["open", "explore"], {}),
        ([], {"_TESSERA_COMPLETE": "complete_bash", "COMP_WORDS": "tessera st", "COMP_CWORD": "1"}),
        ([], {"_TESSERA_COMPLETE": "complete_bash", "COMP_WORDS": "tessera ps --", "COMP_CWORD": "2"}),
        ([], {"_TESSERA_COMPLETE": "complete_bash", "COMP_WORDS": "tessera why j", "COMP_CWORD": "2"}),
    ],
)
def test_what_is_not_needed_is_not_imported(args, environment):
    found = run("-X", "importtime", "-m", "cli", *args, **environment)
    imported = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines() if "|" in line}
    assert "cli.session" in imported and not imported.intersection(SLOW)


def test_its_version_needs_no_server():
    found = run("-m", "cli", "--version")
    assert (found.returncode, found.stdout) == (0, f"tessera {VERSION}\n")


@pytest.mark.parametrize("word", ["x", "-1", "501"])
def test_a_number_is_still_checked(word):
    found = run("-m", "cli", "ps", "--last", word)
    assert found.returncode == 2 and "--last" in found.stderr


def test_a_choice_is_still_checked():
    found = run("-m", "cli", "ps", "-o", "xml")
    assert found.returncode == 2 and "json" in found.stderr
