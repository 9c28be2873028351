"""A gateway, a running task behind it with people and their keys, and the command line of one of them."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from accounts.ssh_keys import add_ssh_key
from jobs.models import Task
from tests import make
from tests.runtimes.worlds import LocalWorld, wait_for
from tests.ssh_gateway import ROOT, Gateway, nobody_is_inside


@pytest.fixture(scope="package")
def gateway(django_db_setup, tmp_path_factory):
    if not shutil.which("ssh"):
        pytest.skip("needs the OpenSSH client")
    local = LocalWorld()
    gateway = Gateway(tmp_path_factory.mktemp("keys"), local)
    yield gateway
    gateway.stop()
    gateway.web.close()
    local.close()


@pytest.fixture
def world(gateway, transactional_db):
    """ada's running job, with a real process behind it, and a key each for her and for eve."""
    cast = make.cast()
    spec = gateway.local.spec("sleep 600")
    task = make.start(make.job(cast.ada, gpu="1/4", pool="dev"))[0]
    Task.objects.filter(pk=task.pk).update(uuid=spec.uuid)
    gateway.local.runtime.start(spec)
    gateway.local.until(spec.uuid, "running")
    wait_for(lambda: os.path.exists(gateway.local.task(spec.uuid) / "door"))
    for person in (cast.ada, cast.eve):
        add_ssh_key(user=person, key=(gateway.home / f"{person.username}.pub").read_text())
    yield SimpleNamespace(
        cast=cast, gateway=gateway, job=task.job, task=Task.objects.get(pk=task.pk), name=task.job.public_id
    )
    gateway.local.runtime.stop(spec.uuid, grace_s=0, epoch=5)
    wait_for(nobody_is_inside)  # so that nothing is written any more when the tables are emptied


@pytest.fixture
def tessera(world, tmp_path):
    """Runs the command as a program of its own, with ada's token, and a home of its own whose SSH key is hers."""
    world.gateway.options()  # waits until the gateway answers
    (tmp_path / ".ssh").mkdir()
    for name in ("ada", "ada.pub"):
        shutil.copy(world.gateway.home / name, tmp_path / ".ssh" / name.replace("ada", "id_ed25519"))
    environment = {
        **os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TESSERA_URL": world.gateway.url, "TESSERA_TOKEN": make.token(world.cast.ada), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    # ssh takes the home of the account, not HOME: the key is named, as an agent would
    run = {"env": environment, "capture_output": True, "timeout": 60, "cwd": tmp_path, "stdin": subprocess.DEVNULL}
    wrapper = tmp_path / "bin"
    wrapper.mkdir()
    for program in ("ssh", "scp"):
        (wrapper / program).write_text(
            f'#!/bin/sh\nexec {shutil.which(program)} -F none -i {tmp_path}/.ssh/id_ed25519 "$@"\n'
        )
        (wrapper / program).chmod(0o755)
    environment["PATH"] = f"{wrapper}:{os.environ['PATH']}"
    return lambda *args, **also: subprocess.run([sys.executable, "-m", "cli", *args], **{**run, **also})
