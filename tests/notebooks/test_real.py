"""A real notebook: the environment is prepared from its lock, JupyterLab starts in a task, and the probe hears it."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from bench.stack import take_environment
from jobs.models import Job, JobKind
from notebooks.environment import READY, environment_path, python_of, read_state
from notebooks.kept_packages import SCRIPT
from notebooks.models import Notebook
from notebooks.services import create_notebook, start_notebook
from notebooks.tasks import mark_ready_notebooks
from runtimes.local.access.access import LocalAccess
from runtimes.local.runtime import LocalRuntime
from scheduler.reconcile.task_specs import build_task_spec
from tests import make
from tests.shared_environment import prepare_shared_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.django_db, pytest.mark.begins_first]
WAIT_S = 60
ASK = """
import os, sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3", startup_timeout=60)
heard = []
client.execute_interactive(
    "import sys, kept; print(sys.prefix, kept.WORD)", output_hook=lambda said: heard.append(said["content"]), timeout=60
)
manager.shutdown_kernel(now=True)
print("".join(one.get("text", "") for one in heard))
"""


@pytest.fixture
def place():
    """Where jobs under accounts of their own can pass, which pytest's own directories do not let them."""
    with tempfile.TemporaryDirectory(prefix="tessera-test-", ignore_cleanup_errors=True) as made:
        os.chmod(made, 0o711)
        yield Path(made)


def test_jupyterlab_answers_inside_its_task(settings, place, monkeypatch):
    settings.TESSERA_DATA, settings.TESSERA_FILES = place / "data", place / "files"
    options = {name: place / name for name in ("data", "log", "run", "files")}
    for path in options.values():
        path.mkdir(mode=0o711)
    take_environment(settings.TESSERA_DATA, prepare_shared_environment())
    assert (environment_path(settings.TESSERA_DATA) / READY).exists()
    assert read_state(settings.TESSERA_DATA)["step"] == "done"
    named = {f"{name}_dir": path for name, path in options.items()}
    runtime, access = LocalRuntime(**named, node_name="n1"), LocalAccess(**named)
    monkeypatch.setattr("notebooks.tasks.get_access", lambda: access)
    cast = make.cast()
    explore = create_notebook(user=cast.ada, name="explore", gpu="0", memory_mib=2048, cpu_milli=1000)
    explore = start_notebook(actor=cast.ada, notebook=explore, check=lambda draft: None, containers=False)
    assert Job.objects.get().kind == JobKind.INTERACTIVE
    [task] = make.start(explore.job)
    runtime.start(build_task_spec(task))
    try:
        until = time.monotonic() + WAIT_S
        while mark_ready_notebooks() and time.monotonic() < until:
            time.sleep(0.1)
        log = "".join(path.read_text(errors="replace") for path in options["log"].rglob("*") if path.is_file())
        assert Notebook.objects.get(pk=explore.pk).state == "RUNNING", log[-3000:]
    finally:
        runtime.stop(task.uuid.hex, 2, epoch=task.epoch)
        while any(view.phase in ("starting", "running") for view in runtime.list_containers()):
            time.sleep(0.05)


def test_what_pip_brought_is_in_the_kernel_of_the_next_start(tmp_path):
    python = str(python_of(prepare_shared_environment()))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "VIRTUAL_ENV": str(tmp_path / "env"), "python": python}

    def start_again(then: str) -> str:
        place = tmp_path / f"runtime-{len(list(tmp_path.iterdir()))}"
        place.mkdir()
        argv = ["sh", "-c", f"{SCRIPT}\n{then}"]
        done = subprocess.run(argv, env={**env, "JUPYTER_RUNTIME_DIR": str(place)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "env").mkdir()
    start_again(
        '"$VIRTUAL_ENV/bin/pip" --version && d=$("$VIRTUAL_ENV/bin/python" -c "import site; '
        'print(site.getsitepackages()[0])") && echo "WORD = 7" >"$d/kept.py"'
    )
    assert start_again(f"\"$python\" -c '{ASK}'").strip() == f"{tmp_path / 'env'} 7"
