"""The platform that the tests of a file share. What they began in it ends with them: a machine keeps nothing of it."""

import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.stack import Stack, running_stack
from tests.shared_environment import prepare_shared_environment

ENDED_WITHIN_S = 20


@pytest.fixture(scope="module")
def stack():
    with passing_stack(notebooks=False) as running:
        yield running


@pytest.fixture(scope="module")
def stack_with_notebooks():
    """In which JupyterLab and TensorBoard can be started."""
    with passing_stack(environment=prepare_shared_environment()) as running:
        running.wait_for_environment()
        yield running


@contextmanager
def passing_stack(**how):
    with running_stack(**how) as running:
        yield running
    until = time.monotonic() + ENDED_WITHIN_S
    while (left := processes_of(running)) and time.monotonic() < until:
        time.sleep(0.2)
    assert not left, "these run on after the platform was stopped and its directory removed"


def processes_of(stack: Stack) -> list[str]:
    """Whatever names the platform's directory in its command or environment."""
    directory, found = str(stack.data).encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            if directory in words or directory in (process / "environ").read_bytes():
                found.append(f"{process.name} {words.replace(bytes(1), b' ').decode(errors='replace')[:200]}")
        except OSError:
            pass  # it has ended, or is another account's
    return found
