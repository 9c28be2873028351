"""What is true after somebody was killed: a task ran at most once, and `exited` means that nothing of it is left."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from runtimes.contract.errors import Unavailable
from runtimes.local import launch, orphan_processes, processes
from runtimes.local.node.isolation_probe import SHARED, SOURCES, Isolation, MemoryControl
from runtimes.local.shim.cgroups import WATCHDOG
from runtimes.local.task_views import MOST_STARTS
from runtimes.local.taskdir import TaskDir
from tests.runtimes.worlds import LocalWorld, wait_for

NOTHING = {"isolation": Isolation(SHARED, False, False), "memory": MemoryControl(WATCHDOG)}


@pytest.fixture(params=[{}, NOTHING], ids=["all", "nothing"])
def world(request):
    world = LocalWorld(**request.param)
    yield world
    world.close()


@pytest.mark.parametrize("after_ms", [0, 5, 10, 15, 20, 25, 30, 40, 60])
def test_a_shim_killed_at_any_moment_leaves_nothing_and_never_runs_again(world, after_ms):
    spec = world.spec("setsid sleep 60 & sleep 60")
    world.runtime.start(spec)
    time.sleep(after_ms / 1000)
    world.kill_shim(spec.uuid)
    if world.task(spec.uuid).read("started") is None:  # nothing ran, so it may be started again
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
        world.kill_shim(spec.uuid)
    view = world.until(spec.uuid, "exited")
    world.runtime.start(spec)
    assert view.exit_code is None and view.cause == "container_lost"
    assert orphan_processes.find_orphan_processes(world.task(spec.uuid)) == []
    assert not [group for group in orphan_processes.list_task_groups(world.task(spec.uuid)) if os.path.exists(group)]
    assert world.runs(spec.uuid) <= 1 and world.view(spec.uuid) == view


def test_a_lost_task_is_lost_until_its_leftovers_are_gone(world, monkeypatch):
    spec = world.spec("setsid sleep 60 & sleep 60")
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    monkeypatch.setattr(
        orphan_processes, "kill_orphans", lambda task: [processes.read_process(os.getpid())]
    )  # one that will not die
    world.kill_shim(spec.uuid)
    assert world.view(spec.uuid).phase == "lost"
    monkeypatch.undo()
    assert world.until(spec.uuid, "exited").cause == "container_lost"


def test_a_task_whose_directory_was_removed_has_ended_when_nothing_of_it_is_left(world):
    """The stop makes the directory anew, and an empty one once read as: it never began."""
    spec = world.spec("setsid env -i sleep 60 & sleep 60")
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    task = world.task(spec.uuid)
    shutil.rmtree(task.path)
    assert world.view(spec.uuid) is None
    assert [one for one in orphan_processes.find_orphan_processes(task) if one.pid != os.getpid()]
    world.runtime.stop(spec.uuid, 0, epoch=5)
    assert world.view(spec.uuid).phase == "starting"  # what was left is being killed
    wait_for(lambda: not orphan_processes.find_orphan_processes(task))
    world.runtime.stop(spec.uuid, 0, epoch=5)
    assert world.view(spec.uuid).phase == "exited" and world.runs(spec.uuid) == 1


def test_a_full_disk_hides_no_other_task_and_starts_none(plain, monkeypatch):
    one, other = plain.spec("exit 4"), plain.spec("true")
    plain.runtime.start(one)
    plain.until(one.uuid, "exited")
    monkeypatch.setattr(launch, "ROOM_BYTES", 1 << 60)
    with pytest.raises(Unavailable, match="No space left"):
        plain.runtime.start(other)
    assert plain.view(other.uuid) is None
    monkeypatch.undo()
    plain.task(other.uuid).create()
    for _ in range(MOST_STARTS):
        plain.task(other.uuid).count_start()
    plain.runtime.config.start_patience_s = 0
    monkeypatch.setattr(TaskDir, "write", raise_full)
    assert {view.uuid: view.phase for view in plain.runtime.list_containers()} == {
        one.uuid: "exited",
        other.uuid: "lost",
    }
    monkeypatch.setattr(Path, "touch", raise_full)
    with pytest.raises(Unavailable):
        plain.runtime.forget(one.uuid)
    monkeypatch.undo()
    assert plain.view(other.uuid).cause == "start_failed"


def raise_full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_killed_worker_changes_nothing(plain):
    spec = plain.spec("sleep 60")
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from runtimes.contract.task import TaskSpec\nfrom runtimes.local.runtime import LocalRuntime\n"
        f"LocalRuntime('{plain.base}/data', '{plain.base}/data/logs', '{plain.base}/run', node_name='here')"
        f".start(TaskSpec(**{asdict(spec)!r}))\n"
        "import os, signal; os.kill(0, signal.SIGKILL)"
    )
    worker = subprocess.run([sys.executable, "-c", code], start_new_session=True, check=False)
    assert worker.returncode == -signal.SIGKILL
    plain.until(spec.uuid, "running")
    plain.another_runtime().stop(spec.uuid, 5, epoch=5)
    assert plain.until(spec.uuid, "exited").cause == "stopped" and plain.runs(spec.uuid) == 1


def test_a_worker_killed_between_mkdir_and_shim_is_repaired_by_the_next_start(plain):
    spec = plain.spec("exit 4")
    plain.task(spec.uuid).create()
    view = plain.view(spec.uuid)
    assert view.phase == "starting" and view.abandoned
    plain.runtime.start(spec)
    assert not plain.view(spec.uuid).abandoned
    assert plain.until(spec.uuid, "exited").exit_code == 4


def test_a_task_has_failed_once_nobody_takes_over_its_third_start(plain, monkeypatch):
    """Not before: a killed worker may have begun each of the others."""
    spec = plain.spec("exit 4")
    plain.runtime.config.start_patience_s = 0
    monkeypatch.setattr("runtimes.local.runtime.launch_task", raise_full)
    for _ in range(MOST_STARTS):
        assert (view := plain.view(spec.uuid)) is None or view.phase == "starting"
        with pytest.raises(Unavailable):
            plain.runtime.start(spec)
    monkeypatch.undo()
    assert plain.view(spec.uuid).cause == "start_failed"
    plain.runtime.start(spec)
    assert plain.view(spec.uuid).cause == "start_failed" and plain.runs(spec.uuid) == 0


def test_another_boot_id_ends_what_ran(plain):
    spec = plain.spec("sleep 60")
    plain.runtime.start(spec)
    plain.until(spec.uuid, "running")
    task = plain.task(spec.uuid)
    task.write("started", task.read("started") | {"boot_id": "another"})
    assert plain.view(spec.uuid).phase == "running"  # the lock says more than the file
    plain.kill_shim(spec.uuid)
    view = plain.until(spec.uuid, "exited")
    assert view.cause == "container_lost" and "started anew" in view.detail


def test_a_pid_that_belongs_to_somebody_else_is_not_believed(plain):
    spec = plain.spec("sleep 60")
    plain.runtime.start(spec)
    plain.until(spec.uuid, "running")
    plain.kill_shim(spec.uuid)
    wait_for(lambda: not orphan_processes.kill_orphans(plain.task(spec.uuid)))
    with subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) as stranger:
        stolen = {"pid": stranger.pid, "start": processes.read_process(stranger.pid).start - 1}
        task = plain.task(spec.uuid)
        task.write("started", task.read("started") | stolen)
        task.write("job", task.read("job") | stolen)
        plain.runtime.stop(spec.uuid, 0, epoch=5)
        assert plain.until(spec.uuid, "exited").cause == "container_lost"
        assert stranger.poll() is None
        stranger.kill()


def test_a_signal_is_not_sent_to_a_pid_with_another_start_time():
    with subprocess.Popen(["/bin/sleep", "60"]) as stranger:
        process = processes.read_process(stranger.pid)
        processes.send_signal(process._replace(start=process.start - 1), signal.SIGKILL)
        assert processes.is_alive(process.pid, process.start)
        processes.send_signal(process, signal.SIGKILL)
        assert stranger.wait() == -signal.SIGKILL


def test_stop_during_start_always_ends_it_and_runs_it_at_most_once(plain):
    specs = [plain.spec("sleep 60") for _ in range(12)]
    with ThreadPoolExecutor(8) as pool:
        for spec in specs:
            pool.submit(plain.runtime.start, spec)
            pool.submit(plain.runtime.stop, spec.uuid, 5, epoch=5)
    causes = {plain.until(spec.uuid, "exited").cause for spec in specs}
    assert causes <= {"stopped", "never_started"}
    assert all(plain.runs(spec.uuid) <= 1 for spec in specs)


def test_fifty_starts_at_once_run_each_task_exactly_once(plain):
    specs = [plain.spec("exit 0", cpu_milli=100) for _ in range(50)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(plain.runtime.start, specs + specs))
    assert {plain.until(spec.uuid, "exited").exit_code for spec in specs} == {0}
    assert [plain.runs(spec.uuid) for spec in specs] == [1] * 50


def test_an_exit_is_written_although_the_disk_is_full(plain):
    spec = plain.spec("sleep 60")
    plain.runtime.start(spec)
    plain.until(spec.uuid, "running")
    reserved = [name for name in os.listdir(plain.task(spec.uuid).path) if name.startswith(".exit.")]
    assert [os.stat(plain.task(spec.uuid) / name).st_blocks > 0 for name in reserved] == [True]
    plain.runtime.stop(spec.uuid, 5, epoch=5)
    plain.until(spec.uuid, "exited")
    assert not os.path.exists(plain.task(spec.uuid) / reserved[0])


def test_forget_removes_the_scratch_and_keeps_the_log(plain):
    spec = plain.spec("echo kept; touch big")
    plain.runtime.start(spec)
    plain.until(spec.uuid, "exited")
    assert os.path.exists(plain.runtime.machine.scratch_of(spec.uuid) + "/work/big")
    plain.runtime.forget(spec.uuid)
    assert not os.path.exists(plain.task(spec.uuid).path) and "kept" in plain.log(spec.uuid)


def test_the_shim_needs_little_time(plain):
    def latency() -> float:
        spec = plain.spec("exit 0", cpu_milli=100)
        began = time.monotonic()
        plain.runtime.start(spec)
        wait_for(lambda: plain.task(spec.uuid).read("started"))
        return time.monotonic() - began

    assert sorted(latency() for _ in range(9))[4] < 0.5  # median; far above what is measured, for busy machines


def test_the_shim_imports_nothing_of_django():
    python = shutil.which("python3", path=os.path.dirname(sys.executable)) or sys.executable
    code = (
        f"import sys; sys.path[:0] = {list(SOURCES)!r}; import runtimes.local.shim.shim; print('\\n'.join(sys.modules))"
    )
    run = subprocess.run([python, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not {"django", "subprocess", "dataclasses", "pynvml", "asyncio"} & loaded


def test_looking_at_tasks_never_disturbs_their_start(plain):
    specs = [plain.spec("exit 0", cpu_milli=100) for _ in range(30)]
    over = threading.Event()
    other = plain.another_runtime()

    def look():
        while not over.is_set():
            other.list_containers()

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(plain.runtime.start, specs))
    assert {plain.until(spec.uuid, "exited").exit_code for spec in specs} == {0}
    over.set()
    for looker in lookers:
        looker.join()
