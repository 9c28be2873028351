"""The command against the real portal, over real HTTP."""

import json
import threading
import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from cli.http.credentials import config_file
from cluster.models import Gpu
from jobs.models import CodePack, Job
from jobs.states import TaskState
from monitoring.models import CardNow
from quotas.models import UserLimit
from runtimes.log_store import LogStore
from tests import make
from tests.portal.pages.test_eta import tell

LOG = b"epoch 1\n\x1b[32mdone\x1b[0m\n"


@pytest.fixture
def running(cast):
    """A job of ada's on a quarter of a card."""
    job = make.job(cast.ada, name="train", gpu="1/4", pool="dev", time="2h")
    make.start(job)
    return job


def test_signing_in_and_who_one_is(ada, portal):
    shown = ada("whoami").stdout.splitlines()
    assert shown[0] == "user    ada" and f"server  {portal}" in shown and "teams   nlp (member)" in shown
    assert ada("version").stdout.splitlines()[1].startswith("platform  ")


def test_a_command_becomes_a_job(ada, portal):
    result = ada("run", "-g", "1/4", "-n", "first", "-e", "LR=1e-4", "--time", "2h", "--", "python", "train.py")
    job = Job.objects.get()
    assert result.stdout == f"{job.public_id} is queued. {portal}/j/{job.public_id}/\n", result.stderr
    spec = {key: job.spec[key] for key in ("name", "run", "gpu", "env", "time")}
    assert spec == {"name": "first", "run": "python train.py", "gpu": "1/4", "env": {"LR": "1e-4"}, "time": "2h"}


def test_a_job_file_with_its_code_becomes_a_job(ada, cast, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/train.py").write_text("print(1)")
    (tmp_path / "work/job.yaml").write_text("run: python train.py\ncode: .\ngpu: 1\n")
    result = ada("submit", str(tmp_path / "work/job.yaml"), "--set", "gpu=1/2", "-o", "name")
    job, pack = Job.objects.get(), CodePack.objects.get(user=cast.ada)
    assert result.stdout == f"{job.public_id}\n", result.stderr
    assert (job.spec["code"], job.spec["gpu"]) == (pack.digest, "1/2")
    assert "already there" in ada("submit", str(tmp_path / "work/job.yaml")).stderr


def test_what_could_never_run_is_refused_with_what_could(ada):
    result = ada("run", "-g", "9", "true")
    assert result.exit_code == 2 and not Job.objects.exists()
    assert result.stderr.startswith("gpu: ") and "(try: gpu: " in result.stderr and result.stderr.count("\n") == 1


def test_every_wrong_key_of_a_file_has_its_line(ada):
    result = ada("submit", "-", input="run: true\ngpus: 1\nnodes: 0\n")
    assert result.exit_code == 2
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["gpus", "nodes"], result.stderr


def test_a_limit_of_counts_is_a_denial(ada, cast):
    UserLimit.objects.create(user=cast.ada, jobs_waiting=1)
    assert ada("run", "true").exit_code == 0
    refused = ada("run", "true")
    assert refused.exit_code == 4 and "1" in refused.stderr


def test_a_token_without_the_scope_is_denied(ada, cast, monkeypatch):
    monkeypatch.setenv("TESSERA_TOKEN", make.token(cast.ada, "jobs:read"))
    denied = ada("run", "true")
    assert denied.exit_code == 4 and "jobs:write" in denied.stderr and "/settings/tokens" in denied.stderr


def test_an_expired_token_is_told_what_to_do(ada, cast, portal, monkeypatch):
    monkeypatch.setenv("TESSERA_TOKEN", make.expired_token(cast.ada))
    denied = ada("ps")
    assert denied.exit_code == 4 and f"tessera login {portal}" in denied.stderr


def test_ps_free_and_queue_fit_80_columns(ada, running, cast):
    make.job(cast.eve, name="secret", gpu="1", pool="dev")
    line = ada("ps").stdout.splitlines()[1].split()
    assert line[:5] == [running.public_id, "train", "running", "¼", "n1:0"] and line[6:8] == ["ends", "by"]
    free = ada("free").stdout.splitlines()
    assert [free[1].split()[i] for i in (0, 1, 2, 3)] == ["dev", "V100-32GB*", "0/1", "3"]
    queue = ada("queue").stdout
    assert "secret" not in queue and "vision" in queue and running.public_id in queue
    for shown in (ada("ps", "--all").stdout, "\n".join(free), queue):
        assert max(len(line) for line in shown.splitlines()) <= 80


def test_top_shows_how_busy_cards_are_and_what_is_not_known(ada, running, cast):
    known = {"gpu": Gpu.objects.get(index=0), "at": timezone.now(), "term": 1, "up_ms": 1, "source": "simulated"}
    CardNow.objects.create(**known, busy_percent=12.4, used_mib=6000)
    shown = ada("top")
    first, second = (line.split() for line in shown.stdout.splitlines()[1:])
    assert first[:5] == ["n1:0", "dev", "V100-32GB", "12", "%*"] and first[-2:] == [running.public_id, "?"]
    assert second[:5] == ["n1:1", "train", "V100-32GB", "?", "?"] and second[-1] == "–"
    assert "* simulated" in shown.stderr and max(len(line) for line in shown.stdout.splitlines()) <= 80
    assert "There is no pool x. There are: dev, train." in ada("top", "--pool", "x").stderr


def test_eff_shows_how_well_a_job_uses_what_it_holds(ada, running):
    make.use(running.newest_tasks.get(), busy=0.2, peak=0.5)
    lines = ada("eff", running.public_id).stdout.splitlines()
    assert lines[0] == "GPU busy        [||||                ] 20 %"
    assert "GPU memory peak [||||||||||          ] 4.3 GB of 8.5 GB" in lines
    assert "It keeps its share of the GPU busy 20 % of the time. (2.00 GPU-hours)" in lines
    assert any(line.startswith("Seen 100 % of the time; held 2.50 GPU-hours: active 2.50, idle 0.00") for line in lines)


def test_usage_sums_gpu_hours_and_writes_csv(ada, running):
    make.use(running.newest_tasks.get(), hours=8, seen=0.75)
    shown = ada("usage", "--by", "pool")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["POOL", "HELD", "ACTIVE", "ACTIVE", "%", "PAUSED", "IDLE", "UNKNOWN", "TASKS"],
        ["dev", "2.00", "1.50", "75", "%", "0.00", "0.00", "0.50", "1"],
    ]
    assert "complete up to" in shown.stderr and "simulated" in shown.stderr
    assert ada("usage", "-o", "csv").stdout.splitlines()[1].startswith("nlp,2.0")
    assert ada("ps", "-o", "csv").stdout.startswith("ID,NAME,STATE")
    assert "must be before the end" in ada("usage", "--from", "2030-01-01").stderr


def test_usage_tells_how_long_jobs_waited(ada, running):
    since = timezone.now() - timedelta(minutes=10)
    Job.objects.filter(pk=running.pk).update(submitted_at=since, eligible_at=since)
    shown = ada("usage", "--report", "waits")
    first = shown.stdout.splitlines()[1].split()
    assert first[:2] == ["part", "1"] and first[2].startswith(("10m", "9m")) and first[5:] == ["–", "–", "–", "–"]
    assert "Waits from submit to start, complete up to" in shown.stderr
    assert ada("usage", "--report", "waits", "-o", "csv").stdout.startswith("size,started_jobs,started_p50_s")
    assert "model" in ada("usage", "--report", "waits", "--by", "model").stderr


def test_usage_tells_what_failed(ada, running):
    make.use(running.newest_tasks.get(), hours=8)
    make.end(running, TaskState.FAILED, "exit_nonzero", 1)
    lines = [line.split() for line in ada("usage", "--report", "failures", "--by", "user").stdout.splitlines()]
    assert lines[1:] == [["ada", "1", "2.00", "2.00", "–", "–", "–"]]


def test_usage_tells_what_cards_drew(ada, running):
    make.use(running.newest_tasks.get(), hours=8)
    shown = ada("usage", "--report", "energy", "--by", "pool")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["POOL", "KWH", "MEAN", "W", "HELD", "H", "UNKNOWN", "H"],
        ["dev", "?", "?", "2.00", "2.00"],
    ]
    assert ada("usage", "--report", "energy", "-o", "csv").stdout.startswith("team,")


def test_usage_tells_how_right_told_starts_were(ada, running):
    tell(running, timedelta())
    lines = [line.split() for line in ada("usage", "--report", "eta").stdout.splitlines()]
    assert lines[1][:3] == ["dev", "1", "100"]


def test_a_day_is_told_by_half_hours(ada, cast):
    shown = ada("day", "2026-11-01")
    assert shown.stdout.splitlines()[0].split() == ["FROM", "CAPACITY", "HELD", "ACTIVE", "IDLE", "UNKNOWN"]
    assert shown.stdout.splitlines()[1].split() == ["00:00", *["?"] * 5] and len(shown.stdout.splitlines()) == 49
    assert "2026-11-01, UTC: held ? of the time" in shown.stderr
    assert ada("day", "yesterday").exit_code == 2 and "no pool" in ada("day", "--pool", "none").stderr


def test_why_names_the_reason(ada, cast):
    job = make.job(cast.ada, name="waits")
    Job.objects.filter(pk=job.pk).update(
        wait_reasons=[{"code": "held", "params": {"who": "bob"}}], wait_position=1, wait_of=1
    )
    lines = ada("why", str(job.pk)).stdout.splitlines()
    assert lines[0].endswith("number 1 of 1 in pool dev.") and lines[1] == "held by bob"
    assert json.loads(ada("why", str(job.pk), "-o", "json").stdout)["reasons"][0]["code"] == "held"


def test_a_job_is_held_released_stopped_and_queued_again(ada, cast):
    name = make.job(cast.ada).public_id
    job = Job.objects.filter(pk=name.removeprefix("job-"))
    assert ada("hold", name).exit_code == 0 and job.get().held_by == "ada"
    assert ada("release", name).exit_code == 0 and job.get().held_at is None
    assert ada("stop", name).stdout == f"{name} is cancelled.\n"
    assert ada("hold", name).exit_code == 2
    assert ada("retry", name).stdout == f"{name} is queued.\n" and job.get().attempt == 2


@pytest.mark.parametrize("verb", ["why", "logs", "stop", "retry", "hold", "release"])
def test_a_stranger_s_job_is_not_found(ada, cast, verb):
    job = make.job(cast.eve)
    result = ada(verb, job.public_id)
    assert (result.exit_code, result.stdout) == (3, "") and result.stderr
    assert Job.objects.get(pk=job.pk).stop_requested_at is None


def test_a_log_is_followed_as_it_is_written_until_the_job_ends(ada, running):
    task = running.newest_tasks.get()
    store = LogStore(settings.TESSERA_LOGS)

    def work():
        at = 0
        for byte in LOG:
            at = store.append(task.uuid.hex, at, bytes([byte]))
            time.sleep(0.01)
        make.move(task, TaskState.FAILED, "exit_nonzero", exit_code=3)
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    result = ada("logs", "-f", running.public_id)
    worker.join()
    assert (result.exit_code, result.stdout) == (1, "epoch 1\ndone\n")
    assert f"{running.public_id} failed: exit 3" in result.stderr
    assert ada("logs", running.public_id).stdout == "epoch 1\ndone\n"


def test_signing_out_leaves_nothing(ada):
    assert "tes_" in config_file().read_text()
    ada("logout")
    assert "tes_" not in config_file().read_text() and ada("ps").exit_code == 4


def test_a_job_is_put_in_one_pool_and_back_in_all(ada, cast):
    make.start(make.job(cast.eve, gpu="1", pool="train")), make.start(make.job(cast.eve, gpu="1", pool="dev"))
    job = make.job(cast.ada, gpu="1")
    assert ada("change", job.public_id, "pool=dev").exit_code == 0 and Job.objects.get(pk=job.pk).choices == []
    assert ada("change", job.public_id, "pool=").exit_code == 0
    assert Job.objects.get(pk=job.pk).pool_names == ["train", "dev"]
    assert "train,dev" in ada("queue").stdout
    assert "It also waits in dev, and starts in the first with room." in ada("why", job.public_id).stdout


def test_the_platform_answers_in_the_language_of_the_command(cast, ada):
    cast.ada.language = "zh-hans"
    cast.ada.save(update_fields=["language"])
    refused = ada("stop", "999999")
    assert refused.exit_code == 3 and refused.stderr.startswith("job-999999: ") and refused.stderr.isascii()
