"""Tasks of a gang in pods of their own: they find each other by names, from before they run."""

from uuid import uuid4

import pytest

from runtimes.contract.task import Peer, TaskSpec
from runtimes.kubernetes.pods import names
from tests.runtimes.kubernetes.world import KubernetesWorld, wait_slowly

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("kubelet")]
BESIDE_OTHERS = True

# Each listens where all were told that the first one does, on an address of its own, and asks each of the others.
MEET = """\
python3 - <<'PY'
import os, socket, threading
port, peers = int(os.environ["MASTER_PORT"]), os.environ["TESSERA_PEERS"].split(",")
here = socket.create_server(("", port))
def answer():
    for _ in peers:
        there, _ = here.accept()
        there.sendall(os.environ["RANK"].encode())
        there.close()
served = threading.Thread(target=answer)
served.start()
def ask(name):
    for _ in range(300):
        try:
            with socket.create_connection((name, port), 5) as there:
                return there.makefile().read()
        except ConnectionRefusedError:
            threading.Event().wait(0.1)
told = [ask(name) for name in peers]
served.join()
print(os.environ["RANK"], "met", *told, "master", socket.gethostbyname(os.environ["MASTER_ADDR"]))
PY
"""
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
exec python3 - <<'PY'
import os, socket, time
where = os.environ["ROLE_HEAD_0"], int(os.environ["ROLE_HEAD_0_PORT_29400"])
for _ in range(300):
    try:
        there = socket.create_connection(where)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
hosts = open(os.environ["TESSERA_HOSTS"] + "/worker").read()
there.sendall(f"{os.environ['ROLE_RANK']}/{os.environ['ROLE_WORLD_SIZE']} of {hosts!r}\\n".encode())
PY
"""


def gang(world: KubernetesWorld, **roles: tuple[int, str, dict[int, int]]) -> list[TaskSpec]:
    """roles: how many, what they run, their ports."""
    wanted = [(role, ports) for role, (count, _, ports) in roles.items() for _ in range(count)]
    peers = tuple(Peer("10.88.0.1", role, 1, ports, uuid4().hex) for role, ports in wanted)
    image = world.options["image"].rpartition("/")[0] + "/python:3.11"
    more = {"peers": peers, "ports": (23_000,), "image": image}
    return [
        world.spec(roles[peer.role][1], uuid=peer.uuid, rank=rank, role=peer.role, port_map=peer.ports, **more)
        for rank, peer in enumerate(peers)
    ]


def ends(world: KubernetesWorld, specs: list[TaskSpec]) -> list[str]:
    """What each said, when all have ended well."""
    for spec in specs:
        view = world.until(spec.uuid, "exited")
        assert (view.exit_code, view.cause) == (0, ""), world.log(spec.uuid).decode()
    return [world.log(spec.uuid).decode() for spec in specs]


def test_all_ranks_meet_by_name_whoever_comes_up_first(world):
    specs = gang(world, main=(3, MEET, {}))
    for spec in specs[1:]:
        world.runtime.start(spec)
    world.until(specs[1].uuid, "running")  # it waits for the first one's name before it begins
    world.runtime.start(specs[0])
    said = [text.split() for text in ends(world, specs)]
    assert [words[:6] for words in said] == [[str(rank), "met", "0", "1", "2", "master"] for rank in range(3)]
    assert {words[6] for words in said} == {world.view(specs[0].uuid).address}


def test_roles_find_each_other_by_variables_and_host_files(world):
    specs = gang(world, head=(1, LISTEN, {29400: 29400}), worker=(2, SAY, {}))
    for spec in specs:
        world.runtime.start(spec)
    heard, *_ = ends(world, specs)
    hosts = repr("worker-0 slots=1\nworker-1 slots=1\n")
    assert sorted(heard.splitlines()) == [f"heard 0/2 of {hosts}", f"heard 1/2 of {hosts}"]


def test_two_gangs_in_one_team_do_not_meet(world):
    first, second = gang(world, main=(2, MEET, {})), gang(world, main=(2, MEET, {}))
    for spec in (*first, *second):
        world.runtime.start(spec)
    for specs in (first, second):
        assert {text.split()[-1] for text in ends(world, specs)} == {world.view(specs[0].uuid).address}


def test_a_task_that_is_stopped_while_it_waits_for_the_others_runs_nothing(world):
    alone = gang(world, main=(2, "echo never", {}))[1]
    world.runtime.start(alone)
    world.until(alone.uuid, "running")
    world.runtime.stop(alone.uuid, 10, epoch=alone.epoch)
    view = world.until(alone.uuid, "exited")
    assert view.cause == "stopped" and b"never" not in world.log(alone.uuid)


def test_a_task_knows_who_it_is(world):
    spec = world.spec("id -un; id -gn", user="ada", team="blue")
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    assert world.log(spec.uuid).decode().split() == ["ada", "blue"]


def test_names_go_with_their_pods_and_one_service_serves_all_gangs(world):
    specs = gang(world, main=(2, MEET, {}))
    for spec in specs:
        world.runtime.start(spec)
    ends(world, specs)
    for spec in specs:
        world.runtime.forget(spec.uuid)
    inside = f"/api/v1/namespaces/{names.name_team_namespace(world.runtime.config.install, 20000)}"
    _, services = world.api.call("GET", f"{inside}/services")
    assert [each["metadata"]["name"] for each in services["items"]] == [names.GANG_SERVICE]
    slices = inside.replace("/api/v1", "/apis/discovery.k8s.io/v1") + "/endpointslices"

    def named() -> list[dict]:
        _, found = world.api.call("GET", slices)
        return [end for each in found["items"] for end in each["endpoints"] or ()]

    wait_slowly(lambda: not named(), lambda: str(named()))
