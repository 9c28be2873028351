"""What a process imports: the Kubernetes client only where the jobs are on a cluster."""

import os
import subprocess
import sys

import pytest

PROCESSES = {
    "launcher": "import config.embedded.start",
    "web": "import config.asgi, config.urls; config.asgi.get_access()",
    "worker": "import config.celery; config.celery.app.loader.import_default_modules()",
    "command": "import django; django.setup()",
}
SAY = "; from scheduler.runtime import get_runtime; get_runtime(); import sys; print('kubernetes' in sys.modules)"


@pytest.mark.parametrize("role", PROCESSES)
def test_a_process_of_the_local_runtime_never_imports_kubernetes(role, tmp_path):
    environment = os.environ | {
        "TESSERA_RUNTIME": "runtimes.local.runtime.LocalRuntime",
        "TESSERA_DATA": str(tmp_path),
        "TESSERA_RUN": str(tmp_path / "run"),
        "TESSERA_ROLE": role,
        "TESSERA_SECRET_KEY": "x" * 50,
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }
    command = [sys.executable, "-c", PROCESSES[role] + SAY]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
