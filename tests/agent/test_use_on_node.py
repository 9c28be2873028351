"""What a task's pod uses, read on the node where it runs: the kernel's own counters, from the pod to the platform."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.models import Node, NodeState
from jobs.states import TaskState
from monitoring.models import TaskNow
from scheduler import tasks
from scheduler.inventory.nodes import record_inventory
from scheduler.reconcile.task_specs import build_task_spec
from tests import make
from tests.api_client import Api
from tests.runtimes.kubernetes.world import ALL_NODES, PYTHON, KubernetesWorld, wait_slowly
from tests.web_process import running_web

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(900)]  # who waits for the cluster waits here

WORK = """
import socket, time
held, end = bytearray(80 << 20), time.monotonic() + 240
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("works", flush=True)
while time.monotonic() < end:
    began = time.monotonic()
    while time.monotonic() - began < 0.1:
        pass
    for _ in range(64):
        out.sendto(bytes(1024), ("10.88.0.1", 9))
    time.sleep(0.1)
"""
"""Holds 80 MiB, works for half of a core as far as it may, and sends about 300 kB/s."""
FETCH = """
while :; do
  i=0
  while [ $i -lt 20000 ]; do i=$((i + 1)); done
  wget -q -O /dev/null http://10.88.0.1:5000/v2/
done
"""
"""Works, and asks the cluster's registry again and again."""
SAMPLES = "POST /agents/g1:samples"


@pytest.fixture(scope="module")
def world(kubeconfig):
    world = KubernetesWorld(kubeconfig)
    yield world
    world.close()


@pytest.fixture(scope="module")
def pods(world) -> Path:
    """The folder of logs of the node's kubelet."""
    _, found = world.api.call("GET", f"{ALL_NODES}/{world.node}/proxy/configz")
    folder = Path(found["kubeletconfig"]["podLogsDir"])
    if not folder.is_dir():
        pytest.skip("NO KUBELET: this machine is no node of the cluster.")
    return folder


def test_an_agent_tells_what_each_task_of_its_node_uses_and_goes_on_after_a_restart(world, pods, machine, script):
    script.on(SAMPLES, (200, {"taken": 1, "next": 2, "every_s": 1}))
    busy = world.spec(f"exec python3 -c '{WORK}'", image=PYTHON, cpu_milli=500, memory_mib=256, grace_s=1)
    idle = world.spec("sleep 240", grace_s=1)
    for spec in (busy, idle):
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
    agent = start(world, pods, machine, script.url)
    before = told(script, busy.uuid)
    after = wait_slowly(lambda: (now := told(script, busy.uuid)) and now["cpu_ms"] > before["cpu_ms"] + 1000 and now)
    quiet = told(script, idle.uuid)
    assert 80 <= after["memory_mib"] <= after["peak_mib"] <= 256 and quiet["memory_mib"] < 64
    assert 1 <= after["processes"] <= 4 and 1 <= quiet["processes"] <= 3
    assert quiet["cpu_ms"] < after["cpu_ms"] and after["read_kib"] >= 0
    assert after["net_tx_kib"] > before["net_tx_kib"] + 100 and quiet["net_tx_kib"] < 100
    agent.terminate()
    agent.wait(20)
    script.asked.clear()
    start(world, pods, machine, script.url)
    assert told(script, busy.uuid)["cpu_ms"] >= after["cpu_ms"]  # the pod's, not the agent's
    for spec in (busy, idle):
        world.runtime.stop(spec.uuid, 1, epoch=spec.epoch)
        world.until(spec.uuid, "exited")
    script.asked.clear()
    wait_slowly(lambda: bodies(script))
    wait_slowly(lambda: not {busy.uuid, idle.uuid} & {task["task"] for task in bodies(script)[-1]["tasks"]})


def start(world, pods: Path, machine, server: str, token: str = "ten_word"):
    words = ("--server", server, "--pods", str(pods), "--install", world.options["install"], "--no-cards")
    return machine.start(*words, TESSERA_AGENT_TOKEN=token)


def bodies(script) -> list[dict]:
    return [tick for *_, body in script.of(SAMPLES) for tick in json.loads(body)["ticks"]]


def told(script, uuid: str) -> dict:
    """The newest counters of a task."""
    return wait_slowly(
        lambda: next((task for tick in bodies(script)[::-1] for task in tick["tasks"] if task["task"] == uuid), None)
    )


@pytest.fixture(scope="module")
def web(django_db_setup):
    with running_web(host="127.0.0.1") as web:
        yield web.url


def test_a_job_on_the_cluster_shows_what_it_uses_on_its_page_and_over_rest(
    world, pods, machine, web, client, transactional_db
):
    """From the kernel's counters of its pod by the agent and the portal to its owner."""
    cast = make.cast()
    token = Api(make.token(make.admin())).post("agents:invite", {"node": world.node}).json()["token"]
    (view,) = (view for view in world.runtime.list_nodes() if view.name == world.node)
    record_inventory([replace(view, ready=True, cpu_milli=2_000, memory_mib=4_096)])
    Node.objects.exclude(name=world.node).update(state=NodeState.CORDONED)
    Node.objects.filter(name=world.node).update(pool=cast.dev)
    job = make.job(cast.ada, pool="dev", gpu="0", cpu="500m", memory="128MiB", run=FETCH)
    tasks.cycle()
    job.refresh_from_db()
    task = job.newest_tasks.get()
    assert task.node, job.wait_reasons
    spec = build_task_spec(task)
    world.runtime.start(spec)
    wait_slowly(lambda: (view := world.view(spec.uuid)) is not None and view.phase == "running")
    make.move(task, TaskState.RUNNING)
    start(world, pods, machine, web, token)
    wait_slowly(lambda: TaskNow.objects.filter(task=task, net_rx_kib_s__gt=0, cpu_milli__gt=0).exists())
    answer = Api(make.token(cast.ada)).get(f"jobs/{job.public_id}/metrics", {"step": 10}).json()
    lines = {line["metric"]: [value for value in line["values"] if value is not None] for line in answer["series"]}
    for metric in ("cpu_cores", "memory_mib", "net_rx_kib_s", "net_tx_kib_s"):
        assert max(lines[metric]) > 0, lines
    client.force_login(cast.ada)
    page = client.get(f"/j/{job.public_id}/").content.decode()
    assert "network: " in page and " received, " in page and "CPU: not known" not in page
    assert "cores busy" in client.get(f"/nodes/{world.node}/").content.decode()
    world.runtime.stop(spec.uuid, 1, epoch=spec.epoch)
    wait_slowly(lambda: world.view(spec.uuid).phase == "exited")
