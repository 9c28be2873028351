"""What pods write, through a real kubelet, an agent and the portal, into the log store: as it is written, and whole."""

import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from cluster.agents import invite_agent
from cluster.models import Agent
from events.record_and_publish import SYSTEM
from jobs.models import BroughtLog, Task
from jobs.states import TASK_FINAL, TaskState
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.watch.reflectors import ClusterView
from runtimes.log_reading import LogReader
from runtimes.log_store import LogStore
from scheduler import tasks
from scheduler.lease import acquire
from scheduler.reconcile.actions import encode_action
from scheduler.reconcile.watch_loop import WatchLoop
from tests import make
from tests.runtimes.kubernetes.world import pod_path
from tests.web_process import WebProcess

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300, func_only=True)]
BESIDE_OTHERS = True
ROOT = Path(__file__).parents[2]
DEADLINE_S = 90
T = TaskState


@pytest.fixture(scope="module")
def pods(world) -> Path:
    """The folder of logs of the node's kubelet."""
    if not world.has_kubelet:
        pytest.skip("NO KUBELET: only fake nodes are there.")
    _, found = world.api.call("GET", f"/api/v1/nodes/{quote(world.node, safe='')}/proxy/configz")
    folder = Path(found["kubeletconfig"]["podLogsDir"])
    if not os.access(folder, os.R_OK):
        pytest.skip("THE NODE IS ANOTHER MACHINE: its agent cannot run here.")
    return folder


class Scene:
    """Everything that a log goes through. The watch is turned by hand, between looks."""

    def __init__(self, world, view, folder: Path, pods: Path):
        self.world, self.view, self.folder, self.pods = world, view, folder, pods
        self.watch = WatchLoop(
            view, lambda orders: tasks.act([encode_action(order) for order in orders]), threading.Event()
        )
        self.epoch = acquire("reconcile")
        self.store = LogStore(folder / "logs")
        self.web = WebProcess(host="127.0.0.1", TESSERA_LOGS=folder / "logs")
        self.web.start()
        _, self.token = invite_agent(actor=SYSTEM, node_name=world.node)
        self.agent: subprocess.Popen | None = None

    def start_agent(self) -> None:
        words = ["--server", self.web.url, "--state", str(self.folder / "agent"), "--pods", str(self.pods)]
        install = self.world.runtime.config.install
        command = [sys.executable, "-m", "agent", *words, "--install", install]
        environment = {**os.environ, "TESSERA_AGENT_TOKEN": self.token, "PYTHONPATH": str(ROOT)}
        self.agent = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
        self.until(lambda: Agent.objects.filter(node_name=self.world.node).exists())

    def kill_agent(self) -> None:
        self.agent.kill()
        self.agent.wait(10)

    def until(self, look: Callable, deadline_s: float = DEADLINE_S):
        """Rounds as the loop makes them, until it is so."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            self.watch.round(self.epoch)
            if found := look():
                return found
            self.view.wait(0.1)
        raise AssertionError(f"nothing came of it in {deadline_s} s")

    def text(self, task: Task) -> bytes:
        return self.store.read(task.uuid.hex, 0, 1 << 30)[0]

    def seconds(self, task: Task) -> list[int]:
        """When each line was written."""
        log = LogReader(self.store, task.uuid.hex)
        return log.read_times(0, log.size)[1]

    def followed(self, task: Task) -> bytes:
        """What `tessera logs -f` gets, to its end."""
        headers = {"Authorization": f"Bearer {make.token(task.job.user)}"}
        address = f"{self.web.url}/api/v1/jobs/{task.job.public_id}/logs?follow=true"
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:
            return answer.read()

    def is_whole(self, task: Task) -> bool:
        return BroughtLog.objects.filter(task=task, end=BroughtLog.End.WHOLE).exists()

    def state(self, task: Task) -> str:
        task.refresh_from_db()
        return task.state

    def is_kept(self, task: Task) -> bool:
        """Whether the task's pod is there and not forgotten."""
        return any(
            names.LABEL_FORGOTTEN not in pod["metadata"].get("labels", {}) for pod in self.world.pods(task.uuid.hex)
        )

    def close(self) -> None:
        if self.agent is not None:
            self.kill_agent()
        self.web.kill()
        self.web.close()


@pytest.fixture
def scene(world, pods, transactional_db, monkeypatch, settings, tmp_path):
    settings.TESSERA_LOGS = tmp_path / "logs"
    monkeypatch.setattr(tasks, "get_runtime", lambda: world.runtime)
    with ClusterView(world.runtime) as view:
        scene = Scene(world, view, tmp_path, pods)
        yield scene
        scene.close()


def up_s() -> float:
    """Since this machine was started: its pods read the same clock."""
    return float(Path("/proc/uptime").read_text().split()[0])


def test_lines_are_there_while_the_task_runs_and_the_log_is_whole_when_it_is_over(scene, placed):
    scene.start_agent()
    task, late = placed("for n in 1 2 3; do echo line $n $(cat /proc/uptime); sleep 3; done; printf bye"), []
    for count in (1, 2, 3):
        scene.until(lambda count=count: scene.text(task).count(b"\n") >= count)
        late.append(up_s() - float(scene.text(task).splitlines()[-1].split()[2]))
    assert scene.state(task) not in TASK_FINAL
    scene.until(lambda: scene.is_whole(task))
    assert scene.text(task).endswith(b"bye") and scene.state(task) == T.SUCCEEDED
    scene.until(lambda: not scene.is_kept(task))
    assert scene.followed(task) == scene.text(task)
    first, second, third, last = scene.seconds(task)
    assert 3 <= second - first <= 20 and 3 <= third - second <= 20 and last >= third
    print("seconds from a line's writing to the store:", [round(each, 2) for each in late])
    assert max(late) < 10  # below one where the machine has little else to do


def test_a_flood_over_several_files_is_whole_though_agent_and_portal_are_killed(scene, placed):
    scene.start_agent()
    lines = [f"{number} {'x' * 1000}" for number in range(21_000)]
    some = 'awk -v from={0} \'BEGIN {{ s = sprintf("%1000s", ""); gsub(" ", "x", s); '
    some += "for (n = from; n < from + 7000; n++) print n, s }}'"
    task = placed("; sleep 12; ".join(some.format(start) for start in (0, 7000, 14_000)))
    scene.until(lambda: len(scene.text(task)) > 1_000_000)
    scene.kill_agent()
    scene.start_agent()
    scene.until(lambda: len(scene.text(task)) > 8_000_000)
    scene.web.kill()
    time.sleep(3)
    scene.web.start()
    scene.until(lambda: scene.is_whole(task), 150)
    assert scene.text(task).decode().splitlines() == lines
    (folder,) = scene.pods.glob(f"*{task.uuid.hex}*")
    assert len(list((folder / "main").iterdir())) > 1  # it was rotated


def test_the_log_of_a_pod_that_is_deleted_by_hand_is_whole(scene, placed):
    scene.start_agent()
    task = placed("trap 'echo last words; exit 0' TERM; echo first words; while :; do sleep 0.2; done")
    scene.until(lambda: scene.text(task))
    (pod,) = scene.world.pods(task.uuid.hex)
    scene.world.api.call("DELETE", pod_path(pod), {"gracePeriodSeconds": 5})
    scene.until(lambda: scene.is_whole(task))
    lines = scene.text(task).splitlines()
    assert lines[0] == b"first words" and b"last words" in lines and scene.state(task) in TASK_FINAL


def test_a_pod_is_kept_until_its_agent_has_brought_its_log(scene, placed):
    scene.start_agent()
    task = placed("echo begun; sleep 10; echo done")
    scene.until(lambda: scene.text(task))
    scene.kill_agent()
    scene.until(lambda: scene.state(task) == T.SUCCEEDED)
    for _ in range(20):
        scene.watch.round(scene.epoch)
        scene.view.wait(0.1)
    assert scene.is_kept(task) and not scene.is_whole(task)
    scene.start_agent()
    scene.until(lambda: scene.is_whole(task) and not scene.is_kept(task))
    assert scene.text(task) == b"begun\ndone\n"
    begun, done = scene.seconds(task)
    assert 9 <= done - begun <= 60  # the agent that told of the second line did not see the first
