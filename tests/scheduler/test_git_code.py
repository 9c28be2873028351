"""Code from Git in real processes: fetched before the command, and stopped in the middle."""

import threading

import pytest

from jobs.control import stop_job
from jobs.states import JobState
from secret_store.services import set_secret
from tests import make
from tests.fakes.git_server import CANARY, serve_repositories
from tests.scheduler.test_main_job import drive

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_private_repository_is_fetched_by_the_task_and_a_stop_ends_that(local, ada, settings, tmp_path):
    settings.TESSERA_GIT_PRIVATE = ["127.0.0.0/8"]
    set_secret(actor=ada, name="GIT_TOKEN", value=CANARY)
    run = {"gpu": "1/4", "run": "sh say.sh; git log --format=%s", "workdir": "src", "secrets": {"GIT_TOKEN": "file"}}
    with serve_repositories(tmp_path / "served") as (address, handler):
        file = run | {"code": f"git+{address}/private/.git@main"}
        job = drive(make.job(ada, **file), JobState.SUCCEEDED, JobState.FAILED)
        log = local.logs.read(job.newest_tasks.get().uuid.hex, 0)[0]
        assert (job.state, log) == (JobState.SUCCEEDED, b"first\none\n")
        handler.stalls = threading.Event()
        handler.asked.clear()
        job = drive(make.job(ada, **file), JobState.RUNNING)
        assert handler.asked.wait(20)
        stop_job(actor=ada, job=job)
        job = drive(job, JobState.CANCELLED)
        assert b"first" not in local.logs.read(job.newest_tasks.get().uuid.hex, 0)[0]
        handler.stalls.set()
