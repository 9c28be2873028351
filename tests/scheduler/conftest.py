"""A local runtime with two simulated cards, its inventory taken, and people with quota."""

import tempfile
from pathlib import Path

import make
import pytest

from runtimes.local.runtime import LocalRuntime
from scheduler import tasks
from scheduler.inventory import record_inventory
from tests.runtimes.worlds import end_tasks


@pytest.fixture
def new_runtime(tmp_path):
    """Makes runtimes on the same data. Sockets and task mounts lie where another uid may pass, as in life."""
    with tempfile.TemporaryDirectory(prefix="tessera-test-") as place:
        Path(place).chmod(0o755)
        yield lambda: LocalRuntime(
            tmp_path / "data", tmp_path / "logs", Path(place) / "run", "2xV100-32GB", node_name="here"
        )
        end_tasks(tmp_path / "data")


@pytest.fixture
def local(new_runtime, monkeypatch):
    """A local runtime on this machine with two simulated cards, its inventory taken, and ada's team with quota."""
    runtime = new_runtime()
    monkeypatch.setattr(tasks, "the_runtime", lambda: runtime)
    record_inventory(runtime.list_nodes())
    nlp = make.team("nlp")
    for name in ("dev", "train"):
        make.quota(nlp, make.pool(name))
    make.user("ada", nlp)
    return runtime


@pytest.fixture
def ada(local):
    return make.User.objects.get(username="ada")
