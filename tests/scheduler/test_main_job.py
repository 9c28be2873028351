"""The main job, with the real cycle, the real reconciler and real processes: from the queue to its log and its end."""

import time

import pytest

from events.models import Event
from jobs.control import hold_job, release_job, retry_job, stop_job
from jobs.models import Job
from jobs.states import JobState, TaskState
from quotas.models import Holding, Quota
from scheduler import tasks
from scheduler.inventory.nodes import record_inventory
from scheduler.preview.preview import check_possible
from tests import make
from tests.runtimes.local.fake_nvml import use_fake_nvml

pytestmark = pytest.mark.django_db(transaction=True)


def drive(job: Job, *states: str, seconds: float = 20, every_s: float = 0.0) -> Job:
    """Ring the loops, as beat would, until the job is in one of the states. every_s: the pause between, where it takes
    long, so that it does not cost the job its CPU time.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        tasks.cycle()
        tasks.reconcile()
        job = Job.objects.get(pk=job.pk)
        if job.state in states:
            return job
        time.sleep(every_s)
    tasks_now = list(job.tasks.values("state", "reason", "detail"))
    raise AssertionError(f"{job.public_id} is {job.state}: {job.wait_reasons} {tasks_now}")


def test_a_job_on_a_quarter_of_a_card_runs_and_its_log_is_kept(local, ada):
    job = make.job(ada, check=check_possible, gpu="1/4", run='echo "slice $TESSERA_GPU_MEMORY_MIB"')
    job = drive(job, JobState.SUCCEEDED, JobState.FAILED)
    task = job.newest_tasks.get()
    assert task.detail == ""
    assert (job.state, job.reason, job.exit_code) == (JobState.SUCCEEDED, "completed", 0)
    assert local.logs.read(task.uuid.hex, 0)[0] == b"slice 8127\n"
    assert task.cards[0]["memory_mib"] == 8127
    assert task.started_at and job.started_at and job.started_at <= job.ended_at
    assert not Holding.objects.live().exists()


def test_a_job_on_an_instance_of_a_card_sees_it_alone(new_runtime, monkeypatch):
    use_fake_nvml(monkeypatch, "vm-pcie", "A100", mig=(2,), instances={(2, 0): "3g.20gb", (2, 5): "1g.5gb"})
    runtime = new_runtime()
    monkeypatch.setattr(tasks, "get_runtime", lambda: runtime)
    (node,) = runtime.list_nodes()
    assert [gpu.index for gpu in node.gpus] == [0, 1, 3, 4, 5, 6, 7, 1200, 1205]
    record_inventory([node])
    nlp, train = make.team("nlp"), make.pool("train")
    make.quota(nlp, train)
    says = 'echo "$CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES $TESSERA_GPU_MEMORY_MIB $LD_PRELOAD$LD_LIBRARY_PATH"'
    job = make.job(make.user("ada", nlp), check=check_possible, gpu="A100-40GB-1g.5gb", run=says)
    assert job.pool == train
    task = drive(job, JobState.SUCCEEDED, JobState.FAILED).newest_tasks.get()
    (card,) = task.cards
    assert (card["uuid"], card["index"], card["enforcement"]) == ("MIG-00000002-0005", 1205, "mig")
    assert runtime.logs.read(task.uuid.hex, 0)[0].decode() == f"{card['uuid']} {card['uuid']} 4864 \n"


def test_every_move_is_one_event_in_a_dense_sequence(local, ada):
    job = drive(make.job(ada, gpu="1/4"), JobState.SUCCEEDED)
    for kind, pk in (("job", job.pk), ("task", job.newest_tasks.get().pk)):
        seqs = list(Event.objects.filter(kind=kind, object_id=pk).order_by("seq").values_list("seq", flat=True))
        assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) >= 2


def test_a_failing_job_says_its_exit_code(local, ada):
    job = drive(make.job(ada, run="echo bad >&2; exit 3"), JobState.FAILED)
    assert (job.reason, job.exit_code) == ("exit_nonzero", 3)


def test_a_job_fails_and_is_tried_again_where_its_rule_says_so(local, ada, monkeypatch):
    monkeypatch.setattr("jobs.lifecycle.RETRY_PAUSE_S", (0,))
    job = make.job(ada, run="exit 1", retry={"times": 2, "when": ["exit_nonzero"]})
    job = drive(job, JobState.FAILED)
    assert (job.attempt, job.retries_left, job.tasks.count()) == (3, 0, 3)


def test_a_running_job_stops_when_asked(local, ada):
    job = drive(make.job(ada, gpu="1/2", run="sleep 60"), JobState.RUNNING)
    stop_job(actor=ada, job=job)
    job = drive(job, JobState.CANCELLED, JobState.FAILED)
    assert (job.state, job.reason) == (JobState.CANCELLED, "stopped_by_user")
    assert not Holding.objects.live().exists()


def test_a_waiting_job_is_cancelled_at_once(local, ada):
    job = make.job(ada, gpu="1/2", hold=True)
    assert stop_job(actor=ada, job=job).state == JobState.CANCELLED


def test_a_held_job_waits_for_its_release(local, ada):
    job = make.job(ada, run="true")
    hold_job(actor=ada, job=job)
    tasks.cycle()
    job = Job.objects.get(pk=job.pk)
    assert job.state == JobState.QUEUED and job.wait_reasons[0] == {"code": "held", "params": {"who": "ada"}}
    release_job(actor=ada, job=job)
    drive(job, JobState.SUCCEEDED)


def test_an_ended_job_runs_again_as_a_new_attempt(local, ada):
    job = drive(make.job(ada, run="exit 1", retry=0), JobState.FAILED)
    job = retry_job(actor=ada, job=job)
    assert (job.state, job.attempt) == (JobState.QUEUED, 2)
    assert drive(job, JobState.FAILED).tasks.count() == 2


def test_a_gang_starts_together_and_knows_its_ranks(local, ada):
    job = make.job(ada, nodes=2, gpu="1/4", run="echo $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT")
    job = drive(job, JobState.SUCCEEDED)
    logs = sorted(local.logs.read(task.uuid.hex, 0)[0].decode() for task in job.newest_tasks)
    assert logs[0].startswith("0 of 2 at 127.0.0.1:23") and logs[1].startswith("1 of 2 at 127.0.0.1:23")
    assert logs[0].split("at ")[1] == logs[1].split("at ")[1]


def test_an_elastic_gang_starts_with_all_that_fit_and_its_programs_know_how_many(local, ada):
    job = make.job(ada, nodes="2..3", gpu="1/4", cpu="50m", memory="128MiB", run="echo $RANK of $WORLD_SIZE")
    assert job.newest_tasks.count() == 2
    job = drive(job, JobState.SUCCEEDED)
    logs = sorted(local.logs.read(task.uuid.hex, 0)[0].decode() for task in job.newest_tasks)
    assert logs == ["0 of 3\n", "1 of 3\n", "2 of 3\n"]


def test_the_next_attempt_of_an_elastic_gang_asks_its_least_again(local, ada):
    run = 'if [ "$RANK" = 2 ]; then exit 4; else sleep 60; fi'
    job = make.job(ada, nodes="1..3", gpu="1/4", cpu="50m", memory="128MiB", retry=0, run=run)
    job = drive(job, JobState.FAILED)
    assert sorted(task.reason for task in job.newest_tasks) == ["exit_nonzero", "gang_broken", "gang_broken"]
    assert retry_job(actor=ada, job=job).newest_tasks.count() == 1


def test_when_one_of_a_gang_fails_the_others_are_stopped(local, ada):
    job = make.job(ada, nodes=2, retry=0, run='if [ "$RANK" = 1 ]; then exit 4; else sleep 60; fi')
    job = drive(job, JobState.FAILED)
    assert (job.reason, job.exit_code) == ("exit_nonzero", 4)
    assert {task.reason for task in job.newest_tasks} == {"exit_nonzero", "gang_broken"}


def test_eight_jobs_of_4gb_share_a_card_and_the_ninth_says_why_it_waits(local, ada):
    jobs = [
        make.job(ada, check=check_possible, gpu="4GB", run="sleep 60", cpu="50m", memory="128MiB") for _ in range(9)
    ]
    tasks.cycle()
    states = [Job.objects.get(pk=job.pk).state for job in jobs]
    assert states == [JobState.STARTING] * 8 + [JobState.QUEUED]
    assert Job.objects.get(pk=jobs[8].pk).wait_reasons[0]["code"] in {"no_fit_now", "fragmented"}
    for job in jobs:
        stop_job(actor=ada, job=job)
    drive(jobs[0], JobState.CANCELLED)


def test_a_team_at_its_limit_waits_and_its_job_starts_after_a_release(local, ada):
    Quota.objects.filter(pool__name="dev").update(gpu_milli_limit=500)
    first = drive(make.job(ada, gpu="1/2", run="sleep 60"), JobState.RUNNING)
    second = make.job(ada, gpu="1/4")
    tasks.cycle()
    reason = Job.objects.get(pk=second.pk).wait_reasons[0]
    assert reason["code"] == "team_limit" and reason["params"]["limit"] == 500
    stop_job(actor=ada, job=first)
    drive(second, JobState.SUCCEEDED)


def test_a_job_survives_a_new_runtime_and_is_found_again(local, ada, monkeypatch, new_runtime):
    job = drive(make.job(ada, run="sleep 0.6; echo still here"), JobState.RUNNING)
    again = new_runtime()
    monkeypatch.setattr(tasks, "get_runtime", lambda: again)
    job = drive(job, JobState.SUCCEEDED)
    assert again.logs.read(job.newest_tasks.get(state=TaskState.SUCCEEDED).uuid.hex, 0)[0] == b"still here\n"
