"""Jobs of unlike roles, from the job file to real processes: they meet, and one role's end is the job's."""

from pathlib import Path

import pytest

from common.errors import Impossible
from events.models import Event
from jobs.control import retry_job, stop_job
from jobs.models import Job
from jobs.states import JobState
from quotas.models import Holding
from scheduler import tasks
from scheduler.preview.preview import check_possible
from secret_store.services import set_secret
from tests import make
from tests.scheduler.test_main_job import drive

pytestmark = pytest.mark.django_db(transaction=True)

END = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
SMALL = {"cpu": "50m", "memory": "128MiB"}
LISTEN = """\
python3 - <<'PY'
import os, socket
here = socket.create_server(("", int(os.environ["TESSERA_PORT_29400"])))
for _ in range(2):
    there, _ = here.accept()
    print("heard", there.makefile().readline().strip(), flush=True)
PY
"""
SAY = """\
python3 - <<'PY'
import os, socket, time
where = os.environ["ROLE_HEAD_0"], int(os.environ["ROLE_HEAD_0_PORT_29400"])
for _ in range(100):
    try:
        there = socket.create_connection(where)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
there.sendall(f"worker {os.environ['ROLE_RANK']}/{os.environ['ROLE_WORLD_SIZE']} rank {os.environ['RANK']}\\n".encode())
PY
sleep 60
"""


def roles(**said) -> dict:
    return {name: SMALL | role for name, role in said.items()}


def said_by(local, job: Job, role: str, rank: int) -> str:
    return local.logs.read(job.newest_tasks.get(role=role, rank=rank).uuid.hex, 0)[0].decode()


def ends_of(job: Job) -> dict[str, str]:
    return {f"{task.role}.{task.rank}": task.reason for task in job.newest_tasks}


def test_unlike_roles_meet_and_the_end_of_the_head_is_the_end_of_the_job(local, ada):
    head = {"run": LISTEN, "ports": [29400], "ends_job": "all"}
    workers = {"run": SAY, "gpu": "1/4", "count": 2}
    job = drive(make.job(ada, check=check_possible, roles=roles(head=head, worker=workers)), *END)
    assert (job.state, job.reason, job.exit_code) == (JobState.SUCCEEDED, "completed", 0)
    assert sorted(said_by(local, job, "head", 0).splitlines()) == ["heard worker 0/2 rank 1", "heard worker 1/2 rank 2"]
    assert ends_of(job) == {"head.0": "completed", "worker.1": "job_done", "worker.2": "job_done"}
    assert not Holding.objects.live().exists() and job.attempt == 1


def test_each_task_holds_what_its_own_role_asks(local, ada):
    head, workers = {"run": "sleep 60", "cpu": "100m"}, {"run": "sleep 60", "gpu": "1/4", "count": 2}
    job = make.job(ada, check=check_possible, roles=roles(head=head, worker=workers))
    tasks.cycle()
    held = Holding.objects.live().filter(gpu__isnull=True).order_by("cpu_milli").values_list("cpu_milli", flat=True)
    assert list(held) == [50, 50, 100]
    assert Holding.objects.live().filter(gpu__isnull=False).count() == 2
    stop_job(actor=ada, job=job)
    drive(job, JobState.CANCELLED)


@pytest.mark.parametrize(
    ("then", "lives_on", "ends"),
    [
        ("true", "exec sleep 60", (JobState.SUCCEEDED, "completed", 0)),
        ("exit 3", "exec sleep 60", (JobState.FAILED, "exit_nonzero", 3)),
        ("true # a comment", "sleep 0.2; exit 4", (JobState.FAILED, "exit_nonzero", 4)),
    ],
)
def test_a_main_program_runs_beside_the_first_task_of_a_role(local, ada, then, lives_on, ends):
    serve = f"echo $ROLE_RANK > ~/up-$ROLE_RANK; {lives_on}"
    main = {"role": "head", "run": f"until [ -e ~/up-0 ]; do sleep 0.1; done; echo main $ROLE_RANK\n{then}"}
    said = {"roles": roles(head={"run": serve, "count": 2}), "main": main | {"ends_job": "4" not in lives_on}}
    job = drive(make.job(ada, check=check_possible, retry=0, **said), *END)
    assert (job.state, job.reason, job.exit_code) == ends
    assert (said_by(local, job, "head", 0), said_by(local, job, "head", 1)) == ("main 0\n", "")


def test_a_role_has_data_a_directory_and_secrets_of_its_own_beside_the_jobs(local, ada):
    for name in ("ALL", "OWN"):
        set_secret(actor=ada, name=name, value="c4nary-f00d")
    sizes = "echo ${#ALL} ${#OWN}"
    where = 'cat ../shared/f ../own/f 2>/dev/null || cat shared/f own/f 2>/dev/null; basename "$PWD"'
    fill = "mkdir -p ~/a ~/b; echo a > ~/a/f; echo b > ~/b/f"
    assert drive(make.job(ada, check=check_possible, run=fill, **SMALL), *END).state == JobState.SUCCEEDED
    head = {"run": f"{where}; {sizes}", "workdir": "src", "data": {"own": "home:b:ro"}, "secrets": ["OWN"]}
    said = {"data": {"shared": "home:a:ro", "src": "home:c"}, "secrets": ["ALL"]}
    both = roles(head=head, worker={"run": f"ls; {sizes}"})
    job = drive(make.job(ada, check=check_possible, roles=both, **said), *END)
    assert job.state == JobState.SUCCEEDED, [task.detail for task in job.newest_tasks]
    assert said_by(local, job, "head", 0).split() == ["a", "b", "src", "11", "11"]
    assert said_by(local, job, "worker", 1).split() == ["shared", "src", "11", "0"]


def test_a_worker_that_fails_fails_the_job_before_the_head_is_done(local, ada):
    said = roles(head={"run": "sleep 60", "ends_job": "all"}, worker={"run": "exit 4", "count": 2})
    job = drive(make.job(ada, retry=0, roles=said), *END)
    assert (job.state, job.reason, job.exit_code) == (JobState.FAILED, "exit_nonzero", 4)
    assert ends_of(job)["head.0"] == "gang_broken"


def test_a_worker_that_fails_is_tried_again_with_all_roles(local, ada, monkeypatch):
    monkeypatch.setattr("jobs.lifecycle.RETRY_PAUSE_S", (0,))
    said = roles(head={"run": "sleep 60"}, worker={"run": "exit 4"})
    job = drive(make.job(ada, retry={"times": 1, "when": ["exit_nonzero"]}, roles=said), JobState.FAILED)
    assert [(task.attempt, task.role, task.rank) for task in job.tasks.order_by("pk")] == [
        (1, "head", 0), (1, "worker", 1), (2, "head", 0), (2, "worker", 1),
    ]  # fmt: skip


def test_without_a_role_that_ends_it_a_job_is_done_when_all_its_tasks_are(local, ada):
    said = roles(head={"run": "true"}, worker={"run": "sleep 1"})
    job = drive(make.job(ada, roles=said), *END)
    assert set(ends_of(job).values()) == {"completed"} and job.state == JobState.SUCCEEDED


def test_the_first_of_a_role_that_needs_any_ends_the_job(local, ada):
    run = 'if [ "$ROLE_RANK" = 1 ]; then echo found; else sleep 60; fi'
    said = roles(search={"run": run, "count": 3, "ends_job": "any"}, store={"run": "sleep 60"})
    job = drive(make.job(ada, roles=said), *END)
    assert job.state == JobState.SUCCEEDED
    assert ends_of(job) == {
        "search.0": "job_done", "search.1": "completed", "search.2": "job_done", "store.3": "job_done",
    }  # fmt: skip


def test_a_job_that_is_done_may_be_run_again(local, ada):
    said = roles(head={"run": "true", "ends_job": "all"}, worker={"run": "sleep 60"})
    job = drive(make.job(ada, roles=said), *END)
    job = retry_job(actor=ada, job=job)
    assert (job.stop_requested_at, job.stop_reason) == (None, "")
    assert drive(job, *END).state == JobState.SUCCEEDED


def test_an_elastic_role_grows_and_its_tasks_know_how_many_they_are(local, ada):
    show = "echo $RANK/$WORLD_SIZE $ROLE_RANK/$ROLE_WORLD_SIZE; cat $TESSERA_HOSTS/worker"
    said = roles(head={"run": "true"}, worker={"run": show, "count": "1..3", "gpu": "1/4"}, log={"run": show})
    job = make.job(ada, check=check_possible, roles=said)
    assert job.newest_tasks.count() == 3
    job = drive(job, *END)
    assert [(task.role, task.rank) for task in job.in_order(job.newest_tasks)] == [
        ("head", 0), ("worker", 1), ("worker", 3), ("worker", 4), ("log", 2),
    ]  # fmt: skip
    hosts = "worker-0 slots=1\nworker-1 slots=1\nworker-2 slots=1\n"
    assert [said_by(local, job, "worker", rank) for rank in (1, 3, 4)] == [
        f"{rank}/5 {number}/3\n{hosts}" for number, rank in enumerate((1, 3, 4))
    ]
    assert said_by(local, job, "log", 2) == f"2/5 0/1\n{hosts}"


def test_a_gang_of_roles_of_which_one_has_no_room_does_not_start_at_all(local, ada):
    first = make.job(ada, gpu="1", pool="dev", run="sleep 60")
    tasks.cycle()
    said = roles(head={"run": "true"}, worker={"run": "true", "gpu": "1"})
    second = make.job(ada, roles=said, pool="dev")
    tasks.cycle()
    second = Job.objects.get(pk=second.pk)
    assert second.state == JobState.QUEUED and second.wait_reasons
    assert Holding.objects.live().exclude(task__in=[t.uuid for t in first.newest_tasks]).count() == 0
    stop_job(actor=ada, job=first)
    assert drive(second, *END).state == JobState.SUCCEEDED


def test_a_head_without_cards_runs_where_its_workers_cards_are_though_nobody_else_may_there(local, ada):
    said = roles(head={"run": "true"}, worker={"run": "true", "gpu": "1"})
    job = drive(make.job(ada, check=check_possible, roles=said, pool="train"), *END)
    assert job.state == JobState.SUCCEEDED and job.pool.name == "train"
    with pytest.raises(Impossible):
        make.job(ada, check=check_possible, run="true", pool="train")


def test_the_history_says_when_each_role_came_and_went(local, ada):
    said = roles(head={"run": "true", "ends_job": "all"}, worker={"run": "sleep 60"})
    job = drive(make.job(ada, roles=said), *END)
    rows = Event.objects.filter(kind="task", object_id__in=[task.pk for task in job.newest_tasks])
    ended = {row.params["role"]: row.reason for row in rows if row.to_state in ("SUCCEEDED", "STOPPED")}
    assert ended == {"head": "completed", "worker": "job_done"}


INTO_WORKERS = """\
for n in 0 1; do
  "$PRTE_MCA_plm_ssh_agent" worker-$n 'echo "$TESSERA_ROLE $ROLE_RANK on $CUDA_VISIBLE_DEVICES in $(pwd)"'
done
"""


@pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="OpenSSH is not installed here")
def test_a_launcher_starts_programs_inside_of_its_workers(local, ada):
    worker = {"run": "$TESSERA_HOSTS/listen.sh", "ports": [2222], "gpu": "1/4", "count": 2}
    said = roles(launcher={"run": INTO_WORKERS, "ends_job": "all"}, worker=worker)
    job = drive(make.job(ada, retry=0, roles=said), *END, seconds=40)
    assert job.state == JobState.SUCCEEDED, said_by(local, job, "worker", 1)
    cards = [task.cards[0]["uuid"] for task in job.newest_tasks.filter(role="worker").order_by("rank")]
    places = [line.split(" in ") for line in said_by(local, job, "launcher", 0).splitlines()]
    assert [place[0] for place in places] == [f"worker {n} on {card}" for n, card in enumerate(cards)]
    assert all(place[1].endswith("/work") for place in places)
