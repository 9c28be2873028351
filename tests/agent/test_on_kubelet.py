"""The agent's device plugin beside a real kubelet: which card a pod gets, what it is refused, and what restarts change.

The cards are those of the doubled NVML, numbered from 40, so that other cards of the node are left alone.
"""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from agent.kubelet.slices import DRIVER
from cluster.models import Gpu
from dev.cluster.parts.node import start_node
from dev.cluster.processes import find_parts, kill
from runtimes.contract.node import GpuView
from runtimes.contract.task import GpuShare
from runtimes.gpu_sharing import SIMULATED, SLICE
from scheduler import tasks
from scheduler.inventory.nodes import record_inventory
from scheduler.reconcile.task_specs import build_task_spec
from tests import make
from tests.agent.sysfs import add_hca, add_pci
from tests.agent_slice import CARDS, MIB, NO_COMPILER, SOURCES, Built, must
from tests.api_client import Api
from tests.local_cluster import local_place
from tests.runtimes.kubernetes.world import ALL_NODES, KubernetesWorld, wait_slowly
from tests.web_process import running_web

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(900)]  # who waits for the cluster waits here

PLUGINS, SPECS = Path("/var/lib/kubelet/device-plugins"), Path("/var/run/cdi")
NO_KUBELET = "NO KUBELET: this machine is no node of the cluster, so that no device plugin can be tried."
FIRST, SELLABLE, UNITS = 40, 32_510, 126
PYTHON = "10.88.0.1:5000/python:3.11"


@pytest.fixture(scope="module")
def world(kubeconfig):
    if not (PLUGINS / "kubelet.sock").is_socket():
        pytest.skip(NO_KUBELET)
    world = KubernetesWorld(kubeconfig)
    yield world
    world.close()


@pytest.fixture
def node(world, machine, script):
    """A machine with two cards beside the kubelet; `start` runs its agent and waits until the cards are healthy."""
    machine.cards("v100", "count 2", f"first {FIRST}")
    machine.state.mkdir(mode=0o700)
    (machine.state / "places.json").write_text(json.dumps({str(FIRST + n): CARDS[n] for n in range(2)}))
    script.on("POST /agents/g1:report", (200, {"held_back": [], "next_in_s": 600}))

    def start(*words: str, driver: Path | None = None, server: str = script.url, token: str = "ten_word"):
        """driver: where a doubled libcuda.so.1 lies."""
        command = ("--server", server, "--kubelet", str(PLUGINS), "--cdi", str(SPECS), *words)
        path = f"{machine.environment['LD_LIBRARY_PATH']}:{driver}"
        agent = machine.start(*command, TESSERA_AGENT_TOKEN=token, LD_LIBRARY_PATH=path)
        wait_slowly(lambda: served(world) == [UNITS, UNITS])
        return agent

    yield start
    end(machine)
    wait_slowly(lambda: served(world) != [UNITS, UNITS])  # the next test is not to take these for its own
    for path in SPECS.glob("tessera*"):
        path.unlink()


def end(machine) -> None:
    for agent in machine.started:
        if agent.poll() is None:
            agent.send_signal(signal.SIGTERM)
            agent.wait(20)


def served(world) -> list[int]:
    """How many units of our two cards the node can give."""
    return [allocatable(world, FIRST + n) for n in range(2)]


def allocatable(world, place: int) -> int:
    """How many units of the card in this place the node can give; -1 where it never heard of it."""
    _, found = world.api.call("GET", f"{ALL_NODES}/{world.node}")
    return int(found["status"]["allocatable"].get(f"tessera.sh/g-{place}", -1))


def share(place: int, memory_mib: int, *, whole: bool = False, mode: str = SIMULATED) -> GpuShare:
    card = GpuView(
        CARDS[place], FIRST + place, "V100-32GB", "", 32_768, 258, None, "", mode == SIMULATED, mode, "Double."
    )
    return GpuShare(CARDS[place], FIRST + place, memory_mib, 50, whole, card)


def said_by(world, run: str, *shares: GpuShare, **fields) -> str:
    spec = world.spec(run, gpus=shares, **fields)
    world.runtime.start(spec)
    view = world.until(spec.uuid, "exited")
    assert view.exit_code == 0, (view, view.exit_code is not None and world.log(spec.uuid))
    return world.log(spec.uuid).decode()


def start_until_taken(world, run: str, *shares: GpuShare) -> str:
    """What it says. A kubelet that has just come back refuses pods whose cards were not told to it again yet; the
    platform starts them again, as the next try does here.
    """

    def try_once() -> str:
        spec = world.spec(run, gpus=shares)
        world.runtime.start(spec)
        view = world.until(spec.uuid, "exited")
        assert view.cause in ("", "refused_by_node"), view
        return "" if view.cause else world.log(spec.uuid).decode()

    return wait_slowly(try_once)


SAY = "env | grep -E '^(TESSERA_(GPU_[0-9]+|SLICE_BY)|NVIDIA_VISIBLE_DEVICES)=' | sort"


def test_a_pod_gets_exactly_the_card_that_it_was_placed_on(world, node):
    node("--simulated")
    void = "NVIDIA_VISIBLE_DEVICES=void\n"
    second = f"TESSERA_GPU_41={CARDS[1]}\n"
    assert said_by(world, SAY, share(1, 8_127)) == f"{void}{second}TESSERA_SLICE_BY=watchdog\n"
    both = f"{void}TESSERA_GPU_40={CARDS[0]}\n{second}"
    assert said_by(world, SAY, share(0, SELLABLE, whole=True), share(1, SELLABLE, whole=True)) == both
    assert said_by(world, SAY) == void


def test_a_pod_that_needs_rdma_gets_the_adapters_that_have_a_link(world, node, tmp_path):
    """Simulated ones: an empty device stands for each."""
    device = add_pci(tmp_path, "pci0000:16", "0000:16:01.0", "0000:17:00.0")
    add_hca(tmp_path, "mlx5_0", device)
    add_hca(tmp_path, "mlx5_1", device, state="1: DOWN")
    node("--simulated", "--sys", str(tmp_path))
    run = "ls -1 /dev/infiniband && echo x >/dev/infiniband/uverbs0 && echo $NCCL_IB_HCA"
    told = wait_slowly(lambda: (said := said_by_any(world, run, hcas=("mlx5_0",))) and said.splitlines())
    assert told == ["rdma_cm", "uverbs0", "=mlx5_0"]
    assert "No such file" in said_by(world, "ls /dev/infiniband 2>&1 || true")


def said_by_any(world, run: str, **fields) -> str:
    """What it says; "" where the node did not know the resource yet."""
    spec = world.spec(run, **fields)
    world.runtime.start(spec)
    view = world.until(spec.uuid, "exited")
    return world.log(spec.uuid).decode() if view.exit_code == 0 else ""


def test_a_pod_gets_exactly_the_instance_of_a_card_that_it_was_placed_on(world, node, machine):
    """Of a third card, which MIG cuts."""
    machine.cards("v100", "count 3", f"first {FIRST}", "mig 2", "instance 20 3", "instance 24 1")
    parts = {5200: "MIG-a1000000-0000-5000-8000-000000000015", 5204: "MIG-a1000000-0000-5000-8000-000000000019"}
    places = machine.state / "places.json"
    places.write_text(json.dumps(json.loads(places.read_text()) | {str(index): parts[index] for index in parts}))
    node("--simulated")
    units = {5200: 3 * 4864 // 256, 5204: 4864 // 256}
    wait_slowly(lambda: all(allocatable(world, index) == count for index, count in units.items()))
    small = GpuView(parts[5204], 5204, "V100-32GB-1g.5gb", "", 4864, 0, None, "", True, SIMULATED, "Double.")
    said = said_by(world, SAY, GpuShare(small.uuid, 5204, 4864, 100, True, small))
    assert said == f"NVIDIA_VISIBLE_DEVICES=void\nTESSERA_GPU_5204={small.uuid}\n"
    assert allocatable(world, FIRST + 2) == -1


def test_a_node_that_does_not_hold_slices_any_more_starts_none(world, node):
    """It was placed on the agent's word of before."""
    node("--simulated")
    spec = world.spec("echo it runs", gpus=(share(0, 8_127, mode=SLICE),))
    world.runtime.start(spec)
    assert world.until(spec.uuid, "exited").cause == "start_failed"
    assert "The node did not do what its agent said of its cards: TESSERA_SLICE_BY" in world.log(spec.uuid).decode()


def test_what_is_more_than_a_card_has_waits_until_there_is_room(world, node):
    node("--simulated")
    half = world.spec("sleep 60", gpus=(share(0, SELLABLE // 2),), grace_s=1)
    more = world.spec("true", gpus=(share(0, SELLABLE // 2 + 512),))
    world.runtime.start(half)
    world.until(half.uuid, "running")
    world.runtime.start(more)
    wait_slowly(lambda: "Insufficient tessera.sh/g-40" in world.view(more.uuid).detail)
    assert "another half" in said_by(world, "echo another half", share(0, SELLABLE // 2))
    world.runtime.stop(half.uuid, 1, epoch=half.epoch)
    assert world.until(more.uuid, "exited").exit_code == 0


def test_a_card_that_breaks_takes_nothing_new_and_the_pods_on_it_stay(world, node, machine):
    node("--simulated")
    stays = world.spec("sleep 60", gpus=(share(0, 8_127),), grace_s=1)
    world.runtime.start(stays)
    world.until(stays.uuid, "running")
    machine.cards("v100", "count 2", f"first {FIRST}", "xid 0 79")
    wait_slowly(lambda: served(world) == [0, UNITS])
    assert world.view(stays.uuid).phase == "running"
    world.runtime.stop(stays.uuid, 1, epoch=stays.epoch)
    world.until(stays.uuid, "exited")


def test_an_agent_that_comes_back_serves_its_cards_and_knows_who_has_them(world, node, machine):
    node("--simulated")
    held = world.spec("sleep 120", gpus=(share(0, SELLABLE // 2),), grace_s=1)
    world.runtime.start(held)
    world.until(held.uuid, "running")
    end(machine)
    wait_slowly(lambda: served(world) == [0, 0])
    node("--simulated")
    assert world.view(held.uuid).phase == "running"
    more = world.spec("true", gpus=(share(0, SELLABLE // 2 + 512),))
    world.runtime.start(more)
    wait_slowly(lambda: "Insufficient tessera.sh/g-40" in world.view(more.uuid).detail)
    world.runtime.stop(held.uuid, 1, epoch=held.epoch)
    assert world.until(more.uuid, "exited").exit_code == 0


def test_after_a_restart_of_the_kubelet_all_is_as_before(world, node):
    place = local_place()
    if place.kubeconfig != world.options["kubeconfig"]:
        pytest.skip("NOT OUR CLUSTER: its kubelet is nobody's to restart.")
    node("--simulated")
    held = world.spec("sleep 240", gpus=(share(0, SELLABLE // 2),), grace_s=1)
    world.runtime.start(held)
    world.until(held.uuid, "running")
    kill([find_parts(place)["kubelet"]])
    start_node(place)
    known = wait_for_registration()
    assert known == {f"tessera-g-{FIRST + n}" for n in range(2)}
    more = world.spec("true", gpus=(share(0, SELLABLE // 2 + 512),))
    world.runtime.start(more)
    wait_slowly(lambda: "Insufficient tessera.sh/g-40" in world.view(more.uuid).detail)
    assert f"TESSERA_GPU_41={CARDS[1]}" in start_until_taken(world, SAY, share(1, 8_127))
    assert world.view(held.uuid).phase == "running"
    world.runtime.stop(held.uuid, 1, epoch=held.epoch)
    assert world.until(more.uuid, "exited").exit_code == 0


def wait_for_registration() -> set[str]:
    """The sockets of the agent's cards: a kubelet that starts removes those of before."""

    def there() -> set[str]:
        found = {path.name.split(".")[0] for path in PLUGINS.glob(f"tessera-g-{FIRST // 10}*.sock")}
        return found if len(found) == 2 else set()

    return wait_slowly(there)


@pytest.fixture(scope="module")
def web(django_db_setup):
    with running_web(host="127.0.0.1") as web:
        yield web.url


def test_from_a_report_to_a_job_on_the_card_that_was_approved(world, node, machine, web, transactional_db):
    """All of it real but the card: the agent, the portal, the scheduler, the kubelet and the container."""
    cast = make.cast()
    Gpu.objects.filter(node=cast.node).update(healthy=False)
    root = Api(make.token(make.admin()))
    token = root.post("agents:invite", {"node": world.node}).json()["token"]
    node("--simulated", server=web, token=token)
    (view,) = (view for view in world.runtime.list_nodes() if view.name == world.node)
    view = replace(view, ready=True, cpu_milli=2_000, memory_mib=4_096)  # whatever others ask for at the moment
    for approved, known in ((False, []), (True, [(FIRST, True, SIMULATED), (FIRST + 1, True, SIMULATED)])):
        if approved:
            root.post(f"agents/{world.node}:approve", {"seen": root.get(f"agents/{world.node}").json()["seen"]})
        record_inventory([view])
        cards = Gpu.objects.present().filter(node__name=world.node).order_by("index")
        assert list(cards.values_list("index", "simulated", "enforcement")) == known
    cards.update(pool=cast.dev)
    run = f"{SAY}; echo $TESSERA_GPU_MEMORY_MIB of $CUDA_VISIBLE_DEVICES"
    job = make.job(cast.ada, pool="dev", gpu="1/2", cpu="50m", memory="128MiB", run=run)
    tasks.cycle()
    job.refresh_from_db()
    assert job.newest_tasks.get().node, job.wait_reasons
    spec = build_task_spec(job.newest_tasks.get())
    world.runtime.start(spec)
    until_exited(world, spec.uuid)
    told = world.log(spec.uuid).decode().splitlines()
    assert told[1:] == [f"TESSERA_GPU_{FIRST}={CARDS[0]}", "TESSERA_SLICE_BY=watchdog", f"16255 of {CARDS[0]}"]


def until_exited(world, uuid: str) -> None:
    wait_slowly(
        lambda: (view := world.view(uuid)) is not None and view.phase == "exited", lambda: str(world.pods(uuid))
    )


@pytest.fixture(scope="module")
def doubles(tmp_path_factory) -> Built:
    """The slice library with its hook, and a doubled driver."""
    if not Path("/usr/bin/gcc").exists():
        pytest.skip(NO_COMPILER)
    built = Built(tmp_path_factory.mktemp("built")).build()
    must(["make", "-s", "-C", SOURCES, "all", "hook", f"BUILD={built.root / 'host'}"])
    return built


@pytest.fixture
def toolkit(doubles):
    """A CDI spec as NVIDIA's toolkit writes it, of the doubled driver: twice, as images with a compat copy have it."""
    places = ["/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/compat"]
    files = {f"{place}/{path.name}": path for place in places for path in doubles.driver.glob("*.so.1")}
    files["/usr/local/bin/trial"] = doubles.root / "host/trial"
    mounts = [
        {"hostPath": str(path), "containerPath": target, "options": ["ro", "bind"]} for target, path in files.items()
    ]
    devices = [{"name": uuid, "containerEdits": {"mounts": mounts}} for uuid in CARDS]
    path = SPECS / "doubled-nvidia.json"
    SPECS.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices}))
    there = DRIVER.exists()
    yield doubles
    path.unlink()
    if not there:
        shutil.rmtree(DRIVER, ignore_errors=True)


def test_a_program_in_half_of_a_card_sees_half_of_it_and_is_refused_the_next_mib(world, node, machine, toolkit):
    node("--slice", str(toolkit.root / "host"), driver=toolkit.driver)
    half = SELLABLE // 2
    trial = f"trial {CARDS[0]} {half * MIB} </dev/null | tail -1"
    for where in ("/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/compat"):
        run = f"export LD_LIBRARY_PATH={where}; {trial}"
        told = json.loads(said_by(world, run, share(0, half, mode=SLICE), image=PYTHON, memory_mib=128))
        seen = {name: told[name] // MIB for name in ("device_bytes", "total_bytes", "nvml_bytes")}
        assert seen == dict.fromkeys(seen, 16_255)
        assert (told["half"], told["more"]) == (0, 2)  # CUDA_ERROR_OUT_OF_MEMORY
    whole = said_by(world, trial, share(0, SELLABLE, whole=True, mode=SLICE), image=PYTHON, memory_mib=128)
    assert json.loads(whole)["total_bytes"] == SELLABLE * MIB
    wait_slowly(lambda: not os.listdir(machine.state / "slice/tasks"))


HOLD = """import ctypes, time
cuda, card, context, place = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(card), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), card)
cuda.cuCtxSetCurrent(context)
print(cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(1000 << 20)), flush=True)
time.sleep(300)
"""


def test_what_a_pod_holds_of_its_slice_is_told_to_the_platform(world, node, script, toolkit):
    script.on("POST /agents/g1:slices", (200, {"taken": 1}))
    node("--slice", str(toolkit.root / "host"), driver=toolkit.driver)
    run = f"export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu; python3 -c '{HOLD}'"
    shares = (share(0, SELLABLE // 2, mode=SLICE),)
    spec = world.spec(run, gpus=shares, image=PYTHON, memory_mib=128, grace_s=1)
    world.runtime.start(spec)
    world.until(spec.uuid, "running")

    def told() -> list[dict]:
        said = (json.loads(body) for *_, body in script.of("POST /agents/g1:slices"))
        return [card for one in said for use in one["slices"] if use["task"] == spec.uuid for card in use["cards"]]

    wait_slowly(lambda: any(card["used_mib"] == 1000 for card in told()), lambda: str((told(), world.log(spec.uuid))))
    assert told()[-1] | {"used_mib": 1000, "peak_mib": 1000} == told()[-1]
    assert (told()[-1]["uuid"], told()[-1]["limit_mib"], told()[-1]["over"]) == (CARDS[0], 16_255, "")
    world.runtime.stop(spec.uuid, 1, epoch=spec.epoch)
    world.until(spec.uuid, "exited")


def test_two_slices_of_two_cards_are_kept_apart(world, node, machine, toolkit):
    node("--slice", str(toolkit.root / "host"), driver=toolkit.driver)
    run = "ls /run/tessera/slice; touch /run/tessera/slice/x || trial $CARD 1048576 </dev/null | tail -1"
    shares = share(0, 8_127, mode=SLICE), share(1, 4_000, mode=SLICE)
    told = said_by(world, run, *shares, image=PYTHON, memory_mib=128, env={"CARD": CARDS[1]})
    lines = told.splitlines()
    assert lines[:2] == ["limits", "usage"] and "Read-only file system" in lines[2]
    assert json.loads(lines[-1])["nvml_bytes"] == 4_000 * MIB


def test_a_slice_without_the_drivers_library_does_not_start(world, node, machine, toolkit):
    """As on a node whose toolkit lost its spec's files: nothing ever runs that nobody holds to its memory."""
    spec = json.loads((SPECS / "doubled-nvidia.json").read_text())
    for device in spec["devices"]:
        device["containerEdits"] = {"env": ["NOTHING=1"]}
    (SPECS / "doubled-nvidia.json").write_text(json.dumps(spec))
    node("--slice", str(toolkit.root / "host"), driver=toolkit.driver)
    started = world.spec("echo it runs", gpus=(share(0, 8_127, mode=SLICE),), image=PYTHON)
    world.runtime.start(started)
    wait_slowly(
        lambda: "driver's is not in the container" in json.dumps([p["status"] for p in world.pods(started.uuid)])
    )
    assert world.log(started.uuid) == b"" if world.runs(started.uuid) else True
