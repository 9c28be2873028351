"""The slice library built once for all its tests, and slices of it."""

import shutil
import subprocess

import pytest
from agent_slice import LIMIT, NO_COMPILER, Built, Slice


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Built:
    if not (shutil.which("gcc") and shutil.which("make")):
        pytest.skip(NO_COMPILER)
    return Built(tmp_path_factory.mktemp("slice")).build()


@pytest.fixture
def make_slice(tmp_path):
    made = []

    def make(built: Built, *limits: int) -> Slice:
        made.append(Slice(built, tmp_path / f"slice{len(made)}", list(limits) or [LIMIT, LIMIT // 2]))
        return made[-1]

    return make


@pytest.fixture
def a_slice(built, make_slice) -> Slice:
    return make_slice(built)


@pytest.fixture
def processes():
    """Ends whatever a test started, by its own handle."""
    started: list[subprocess.Popen] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
