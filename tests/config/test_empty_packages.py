from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("platform", "portal", "scheduler", "cli", "agent", "dev")


def test_every_init_file_is_empty():
    found = [path for source in SOURCES for path in (ROOT / source).rglob("__init__.py")]
    assert found
    models = [path for path in found if path.parent.name == "models"]  # Django looks for all tables of an app there
    assert [str(path) for path in found if path.stat().st_size and path not in models] == []


@pytest.mark.parametrize("name", ["start", "test", "check", "bench", "tessera", "cluster"])
def test_every_command_can_be_executed(name):
    assert (ROOT / "bin" / name).stat().st_mode & 0o111
