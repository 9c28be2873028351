"""What a job meets: its account, environment, limits, log; and how its end is told."""

import base64
import io
import os
import signal
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from runtimes.contract.errors import Rejected
from runtimes.contract.task import GpuShare, Peer, TaskSecret
from runtimes.local import orphan_processes
from runtimes.local.node.isolation_probe import OWN_UID, SHARED, Isolation, MemoryControl
from runtimes.local.processes import list_processes
from runtimes.local.shim.cgroups import V1, V2, WATCHDOG
from tests.runtimes.worlds import GID, UID, LocalWorld, command_line

NOTHING = {"isolation": Isolation(SHARED, False, False), "memory": MemoryControl(WATCHDOG)}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def world():
    world = LocalWorld()
    yield world
    world.close()


@pytest.fixture(params=[{}, NOTHING], ids=["all", "nothing"])
def both(request):
    world = LocalWorld(**request.param)
    yield world
    world.close()


# how it ended


@pytest.mark.parametrize(("run", "code", "number"), [("exit 0", 0, None), ("exit 137", 137, None)])
def test_the_exit_code_is_kept(both, run, code, number):
    view = both.run(run)
    assert (view.exit_code, view.signal, view.cause) == (code, number, "")


def test_the_signal_is_kept(both):
    view = both.run("kill -SEGV $$")
    assert (view.exit_code, view.signal, view.cause) == (None, 11, "")


def test_a_job_that_ignores_sigterm_is_killed_after_its_grace(both):
    spec = both.spec("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    both.runtime.start(spec)
    both.until(spec.uuid, "running")
    both.runtime.stop(spec.uuid, 1, epoch=5)
    view = both.until(spec.uuid, "exited")
    assert (view.signal, view.cause) == (9, "stopped")


def test_a_second_stop_with_less_patience_is_obeyed(both):
    spec = both.spec("trap '' TERM; while :; do sleep 0.05; done")
    both.runtime.start(spec)
    both.until(spec.uuid, "running")
    both.runtime.stop(spec.uuid, 600, epoch=5)
    both.runtime.stop(spec.uuid, 0, epoch=5)
    assert both.until(spec.uuid, "exited").signal == 9


def test_a_job_may_save_its_work_when_it_is_stopped(both):
    spec = both.spec("trap 'echo saved; exit 0' TERM; while :; do sleep 0.05; done")
    both.runtime.start(spec)
    both.until(spec.uuid, "running")
    both.runtime.stop(spec.uuid, 10, epoch=5)
    view = both.until(spec.uuid, "exited")
    assert (view.exit_code, view.cause) == (0, "stopped") and "saved" in both.log(spec.uuid)


def test_what_a_job_leaves_behind_ends_with_it(both):
    spec = both.spec("setsid sh -c 'trap \"\" TERM; sleep 61 & sleep 62' >/dev/null 2>&1 & exit 5", grace_s=0)
    both.runtime.start(spec)
    view = both.until(spec.uuid, "exited")
    assert view.exit_code == 5 and view.cause == ""
    assert orphan_processes.find_orphan_processes(both.task(spec.uuid)) == []


def test_stop_kills_the_whole_tree_whatever_session_it_moved_to(both):
    # No other test's programs last as long: those of pods on this machine are seen here, too.
    spec = both.spec("(setsid sh -c 'setsid env -i sleep 4063 & sleep 4064' &); sleep 4065")
    both.runtime.start(spec)
    both.until(spec.uuid, "running")
    both.runtime.stop(spec.uuid, 1, epoch=5)
    both.until(spec.uuid, "exited")
    left = [b" ".join(command_line(process.pid)).strip() for process in list_processes()]
    assert not {b"sleep 4063", b"sleep 4064", b"sleep 4065"} & set(left)


def test_a_job_without_a_program_failed_to_start(both):
    view = both.run("true", workdir="nowhere")
    assert view.cause == "start_failed" and "nowhere" in view.detail and view.started_at is None


# limits


@pytest.mark.parametrize("memory", [None, MemoryControl(WATCHDOG)], ids=["probed", "watchdog"])
def test_a_job_above_its_memory_ends_with_out_of_memory(memory):
    world = LocalWorld(memory=memory)
    view = world.run("head -c 300m /dev/zero | tail -c 300m | sleep 60", memory_mib=100)
    assert view.cause == "out_of_memory" and view.peak_memory_mib >= 90
    world.close()


def test_shared_pages_count_once_for_the_watchdog():
    world = LocalWorld(memory=MemoryControl(WATCHDOG))
    hold = "import os, time; x = b'x' * (60 << 20); [os.fork() for _ in range(2)]; time.sleep(1.5)"
    view = world.run(f'/usr/bin/python3 -c "{hold}"', memory_mib=150)
    assert (view.exit_code, view.cause) == (0, "") and 60 <= view.peak_memory_mib <= 150
    world.close()


def test_memory_is_limited_by_the_strongest_means_and_the_node_says_which(world):
    kind = world.runtime.list_nodes()[0].facts["memory_limit"]
    assert kind == world.runtime.machine.memory.kind and kind in (V1, V2, WATCHDOG)


FORKS = """
import os, time
born = 0
try:
    while born < 100:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        born += 1
except BlockingIOError:
    print(born, "and no more")
    raise SystemExit(1)
print("all were born")
"""


@pytest.mark.parametrize("memory", [None, MemoryControl(WATCHDOG)], ids=["probed", "no groups"])
def test_a_fork_bomb_ends_at_the_tasks_own_limit(memory):
    world = LocalWorld(memory=memory, processes_most=40)
    holds = world.runtime.list_nodes()[0].facts["process_limit"]
    assert holds == ("task" if world.runtime.machine.memory.pids_parent else "account" if os.geteuid() == 0 else "none")
    if holds == "none":
        pytest.skip("nothing here limits processes, and the node says so")
    bomb = world.spec(f"/usr/bin/python3 -c '{FORKS}'", uid=UID + 40, grace_s=0)  # no other test has these accounts
    world.runtime.start(bomb)
    assert world.run("sh -c 'exit 3' & wait $!", uid=UID + 41).exit_code == 3  # its neighbour has room
    view = world.until(bomb.uuid, "exited")
    born, *words = world.log(bomb.uuid).split()
    assert 30 <= int(born) < 40 and words == ["and", "no", "more"] and view.exit_code == 1
    assert ("40 processes" in view.detail) == (holds == "task")
    world.close()


def test_without_a_limit_on_processes_the_node_says_so():
    world = LocalWorld(processes_most=0)
    assert world.runtime.list_nodes()[0].facts["process_limit"] == "none"
    assert world.run(f"/usr/bin/python3 -c '{FORKS}'", grace_s=0).exit_code == 0
    world.close()


def test_max_time_kills_what_ignores_sigterm(both):
    view = both.run("trap '' TERM; while :; do sleep 0.05; done", max_time_s=1, grace_s=1)
    assert (view.cause, view.signal) == ("time_limit", 9) and "1 s" in view.detail


def test_no_address_space_limit(world):
    spec = world.spec("ulimit -v; ulimit -c")
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    assert world.log(spec.uuid).split() == ["unlimited", "0"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_whole_cores_are_pinned_and_dealt_out(world):
    specs = [world.spec("taskset -cp $$; sleep 60", cpu_milli=1000) for _ in range(2)]
    for spec in specs:
        world.runtime.start(spec)
    pins = [world.task(spec.uuid).read("spec.json")["plan"]["cpus"] for spec in specs]
    assert [len(pin) for pin in pins] == [1, 1] and pins[0] != pins[1]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_cores_and_memory_are_those_of_the_numa_node(both, monkeypatch):
    """The kernel's own NUMA node 0, of which this test lets only one core be."""
    (first, *_), core = both.runtime.machine.numa, max(os.sched_getaffinity(0))
    monkeypatch.setattr(both.runtime.machine, "numa", (replace(first, cpus=(core,)),))
    monkeypatch.setattr(both.runtime.machine, "memory_nodes", frozenset({first.id}))
    command = "taskset -cp $$ | sed 's/.*: //'; cut -d' ' -f2 /proc/self/numa_maps | sort -u"
    for cpu_milli in (1000, 500):
        spec = both.spec(command, cpu_milli=cpu_milli, numa=(first.id,))
        both.runtime.start(spec)
        both.until(spec.uuid, "exited")
        assert both.log(spec.uuid).split() == [str(core), f"prefer:{first.id}"]


def test_less_than_a_core_is_not_pinned(world):
    spec = world.spec("true", cpu_milli=500)
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    assert world.task(spec.uuid).read("spec.json")["plan"]["cpus"] == []


# what it sees


def test_the_environment_holds_nothing_inherited(both, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "canary-1")
    monkeypatch.setenv("DATABASE_URL", "canary-2")
    spec = both.spec(
        "cat /proc/self/environ | tr '\\0' '\\n'; cat /proc/1/environ /proc/$PPID/environ", env={"MINE": "1"}
    )
    both.runtime.start(spec)
    both.until(spec.uuid, "exited")
    names = {line.split("=")[0] for line in both.log(spec.uuid).splitlines() if "=" in line}
    assert "canary" not in both.log(spec.uuid) and {"MINE", "HOME", "PATH", "TESSERA_JOB"} <= names
    assert not names & {"SECRET_KEY", "DATABASE_URL", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST"}


def test_a_job_ignores_no_signal_that_the_platforms_starter_did(both):
    """Who starts the platform in the background of a script has it ignore SIGINT and SIGQUIT."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        spec = both.spec("grep SigIgn /proc/self/status")
        both.runtime.start(spec)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    both.until(spec.uuid, "exited")
    assert both.log(spec.uuid).split() == ["SigIgn:", "0" * 16]


def test_a_gang_finds_its_rank_and_its_master(world):
    spec = world.spec(
        "echo $TESSERA_JOB $RANK/$LOCAL_RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT",
        rank=1,
        peers=(Peer("10.0.0.1"), Peer("10.0.0.2")),
        ports=(23456,),
    )
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    assert world.log(spec.uuid).strip() == "job-412 1/0/2 10.0.0.1:23456"


def test_a_user_cannot_set_what_would_widen_the_slice(world):
    gpu = world.runtime.list_nodes()[0].gpus[0]
    share = GpuShare(gpu.uuid, 0, 8127, 25, False)
    evil = {"CUDA_VISIBLE_DEVICES": "all", "NVIDIA_VISIBLE_DEVICES": "all", "TESSERA_TASK": "x", "LD_PRELOAD": "/x"}
    spec = world.spec("env", gpus=(share,), env=evil)
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    env = dict(line.split("=", 1) for line in world.log(spec.uuid).splitlines() if "=" in line)
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == gpu.uuid
    assert env["TESSERA_GPU_MEMORY_MIB"] == "8127" and env["TESSERA_TASK"] == spec.uuid and "LD_PRELOAD" not in env


def test_a_card_that_is_not_here_is_rejected(world):
    with pytest.raises(Rejected, match="GPU-other"):
        world.runtime.start(world.spec("true", gpus=(GpuShare("GPU-other", 0, 1, 1, False),)))


def test_a_task_without_a_proper_uuid_is_rejected(world):
    with pytest.raises(Rejected):
        world.runtime.stop("../../etc", 0, epoch=1)


@as_root
def test_as_root_a_job_has_its_own_account_and_no_way_back(world):
    spec = world.spec("id -u; id -g; id -G; grep NoNewPrivs /proc/self/status; grep CapEff /proc/self/status")
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    assert world.log(spec.uuid).split() == [str(UID), str(GID), str(GID), "NoNewPrivs:", "1", "CapEff:", "0" * 16]


@as_root
def test_as_root_a_job_without_uid_is_rejected(world):
    with pytest.raises(Rejected, match="root"):
        world.runtime.start(world.spec("true", uid=0))


@as_root
@pytest.mark.parametrize("namespaces", [True, False])
def test_as_root_a_job_cannot_read_the_platforms_data(namespaces):
    world = LocalWorld(isolation=None if namespaces else Isolation(OWN_UID, True, False))
    data = world.base / "data"
    (data / "secret").write_text("canary")
    (data / "secret").chmod(0o600)
    look = f"cat {data}/secret {data}/tasks/*/spec.json {data}/tasks/$TESSERA_TASK/spec.json; ls {data} {data}/tasks/*"
    spec = world.spec(f"{look}; ls {world.base}/run; cat {data}/logs/*/*; echo done")
    data.chmod(0o700)
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    log = world.log(spec.uuid)
    assert "canary" not in log and "spec.json\n" not in log and log.strip().endswith("done")
    world.close()


def test_in_namespaces_a_job_sees_only_itself(world):
    if not world.runtime.machine.isolation.namespaces:
        pytest.skip("this kernel allows no namespaces here")
    spec = world.spec(f"echo /proc/[0-9]*; test -e {world.base}/data/tasks || echo hidden; pwd; echo $HOME")
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    processes, hidden, work, home = world.log(spec.uuid).splitlines()
    assert processes == "/proc/1 /proc/2" and hidden == "hidden"
    assert (work, home) == (f"{world.base}/run/task/work", f"{world.base}/run/task/home")


def test_the_node_says_how_jobs_are_kept_apart(both):
    assert both.runtime.list_nodes()[0].facts["isolation"] == both.runtime.machine.isolation.words
    assert both.runtime.machine.isolation.words in ("own uid", "own namespaces", "shared account")


def test_no_file_of_the_job_is_left_open_for_it(both):
    spec = both.spec("ls /proc/self/fd | tr '\\n' ' '")
    both.runtime.start(spec)
    both.until(spec.uuid, "exited")
    assert both.log(spec.uuid).split() == ["0", "1", "2", "3"]  # 3 is the listing itself


# its code


def archive(tmp_path, *members: tuple[tarfile.TarInfo, bytes]) -> str:
    path = tmp_path / "code.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    path.chmod(0o600)
    return str(path)


def file(name: str, mode: int = 0o644, **fields) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode = mode
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def test_code_is_unpacked_beside_the_task_and_is_its_own(both, tmp_path):
    code = archive(tmp_path, (file("src/train.sh", 0o755), b"#!/bin/sh\necho trained by $(stat -c %u train.sh)\n"))
    spec = both.spec("./train.sh; touch here", code_path=code, workdir="src")
    both.runtime.start(spec)
    assert both.until(spec.uuid, "exited").exit_code == 0
    owner = UID if both.runtime.machine.isolation.separate_uids else os.geteuid()
    assert both.log(spec.uuid).strip() == f"trained by {owner}"


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil"])
def test_code_that_leads_out_of_its_directory_does_not_start(world, tmp_path, name):
    view = world.run("true", code_path=archive(tmp_path, (file(name), b"x")))
    assert view.cause == "start_failed" and "log" in view.detail and "archive_bad_name" in world.log(view.uuid)


def test_a_link_in_code_that_leads_out_does_not_start(world, tmp_path):
    link = file("link", type=tarfile.SYMTYPE, linkname="/etc")
    view = world.run("ls", code_path=archive(tmp_path, (link, b""), (file("plain"), b"x")))
    assert view.cause == "start_failed" and "archive_link" in world.log(view.uuid)


def test_a_link_in_code_that_stays_inside_is_kept(world, tmp_path):
    link = file("link", type=tarfile.SYMTYPE, linkname="plain")
    view = world.run("cat link", code_path=archive(tmp_path, (link, b""), (file("plain"), b"inside")))
    assert view.exit_code == 0 and world.log(view.uuid) == "inside"


def test_code_that_is_no_archive_does_not_start(world, tmp_path):
    (tmp_path / "code.tar.gz").write_bytes(b"no archive")
    view = world.run("true", code_path=str(tmp_path / "code.tar.gz"))
    assert view.cause == "start_failed" and world.runs(view.uuid) == 0


def test_a_slice_of_a_simulated_card_is_resized_by_the_ledger_alone(world):
    """Nothing holds a program to a card that is none, so there is nothing to change."""
    card = world.runtime.list_nodes()[0].gpus[0]
    spec = world.spec("sleep 60", gpus=(GpuShare(card.uuid, card.index, 8127, 25, False),))
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    world.runtime.resize(spec.uuid, {card.uuid: 16255}, serial=1)
    without = world.spec("sleep 60")
    world.runtime.start(without)
    world.until(without.uuid, "running")
    with pytest.raises(Rejected, match="no such task with a slice"):
        world.runtime.resize(without.uuid, {card.uuid: 16255}, serial=1)


def test_values_of_secrets_are_masked_and_written_nowhere(world):
    value = "c4nary-5ecret-value"
    run = 'printf "say "; for part in "${TOKEN%%-*}" "-5ecret" "-value"; do printf %s "$part"; sleep 0.2; done'
    encoded = 'printf " %s\\n" "$(printf %s "$TOKEN" | base64)"; nonsense-"$TOKEN"'
    view = world.run(f"{run}; {encoded}", secrets=(TaskSecret("TOKEN", value),))
    assert view.exit_code == 127
    log = world.log(view.uuid)
    assert log.startswith("say " + "*" * len(value) + " ") and value not in log
    assert base64.b64encode(value.encode()).decode()[:12] not in log
    written = [path for path in world.base.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]
    assert written == [] and not list(Path("/dev/shm").glob(f"tessera-{view.uuid}"))


def test_secrets_leave_the_memory_of_the_machine_when_the_shim_is_killed(world):
    spec = world.spec("sleep 60", secrets=(TaskSecret("TOKEN", "c4nary-5ecret-value"),))
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    world.kill_shim(spec.uuid)
    world.until(spec.uuid, "exited")
    assert not list(Path("/dev/shm").glob(f"tessera-{spec.uuid}"))
