"""What only a real API server can say of our pods and our namespaces."""

import copy
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.task import GpuShare
from runtimes.kubernetes.cluster.namespaces import ensure_namespace
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.manifest import build_pod
from runtimes.kubernetes.pods.views import has_ended, is_tombstone
from runtimes.kubernetes.runtime import ALL_PODS
from runtimes.kubernetes.watch.informer_cache import build_key
from runtimes.kubernetes.watch.reflectors import ClusterView
from tests.runtimes.kubernetes.specs import CARDS, CONFIG, MODES, TASKS, task
from tests.runtimes.kubernetes.test_manifest import hostile_specs
from tests.runtimes.kubernetes.world import TOO_MUCH, pod_path, wait_slowly

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def world(world):
    ensure_namespace(world.api, world.runtime.config, 20000)
    return world


def try_out(world, pod: dict) -> tuple[str, str]:
    """(next_step, words) of creating this pod, without doing it."""
    pod = copy.deepcopy(pod)
    pod["metadata"]["namespace"] = names.name_team_namespace(world.runtime.config.install, 20000)
    where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    handled = ("reject", "no_right", "no_room", "gone", "unknown")
    answer, _ = world.api.call("POST", where, pod, query={"dryRun": "All"}, handles=handled)
    return answer.next_step, answer.words


@pytest.mark.parametrize("name", [*TASKS, *MODES])
def test_our_pods_are_accepted_under_the_strictest_pod_security(world, name):
    spec, cards = MODES[name] if name in MODES else (TASKS[name], CARDS)
    assert try_out(world, build_pod(spec, CONFIG, cards)) == ("done", "")


def test_what_hostile_tasks_become_is_accepted_or_is_no_pod_at_all(world):
    """Whatever people write ends as text in an ordinary pod: the server finds nothing that breaks a rule."""
    taken = 0
    for spec in list(hostile_specs())[::3]:
        try:
            pod = build_pod(replace(spec, uid=20001, gid=20000), CONFIG, CARDS)
        except Rejected:
            continue
        next_step, words = try_out(world, pod)
        assert next_step in ("done", "reject") and "PodSecurity" not in words, (spec, words)
        taken += next_step == "done"
    assert taken > 30


def past_us():
    """Pods that our own rights might send if we were made to: name → change of the pod's spec and of its container."""
    yield (
        "hostPath",
        {"volumes": [{"name": each, "hostPath": {"path": "/"}} for each in ("scratch", "shm", "pod-files")]},
        {},
    )
    yield "hostNetwork", {"hostNetwork": True}, {}
    yield "hostPID", {"hostPID": True}, {}
    yield "hostIPC", {"hostIPC": True}, {}
    yield "root", {"securityContext": {"runAsUser": 0}}, {}
    yield "no seccomp", {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "Unconfined"}}}, {}
    yield "sysctls", {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, {}
    yield "a host port", {}, {"ports": [{"containerPort": 80, "hostPort": 80}]}
    yield "procMount", {"hostUsers": False}, {"securityContext": {"procMount": "Unmasked"}}
    yield "privileged", {}, {"securityContext": {"privileged": True}}
    yield "escalation", {}, {"securityContext": {"allowPrivilegeEscalation": True, "capabilities": {"drop": ["ALL"]}}}
    yield "kept capabilities", {}, {"securityContext": {"allowPrivilegeEscalation": False}}
    for name in ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "NET_RAW"):
        inside = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": [name]}}
        yield name, {}, {"securityContext": inside}


PAST_US = {name: (outer, inner) for name, outer, inner in past_us()}


@pytest.mark.parametrize("name", PAST_US)
def test_what_breaks_out_is_refused_by_the_namespace_too(world, name):
    outer, inner = PAST_US[name]
    pod = build_pod(task(), CONFIG, CARDS)
    pod["spec"] |= outer
    pod["spec"]["containers"][0] |= inner
    next_step, words = try_out(world, pod)
    assert next_step == "reject" and ("PodSecurity" in words or "Unsupported value" in words or "Forbidden" in words), (
        words
    )


def test_the_namespace_is_closed_and_its_account_gives_no_token(world):
    name = names.name_team_namespace(world.runtime.config.install, 20000)
    _, policies = world.api.call("GET", f"/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies")
    _, account = world.api.call("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")
    assert policies["items"][0]["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert account["automountServiceAccountToken"] is False


def test_a_namespace_of_somebody_else_is_left_alone(world):
    install = world.runtime.config.install
    strange = world.another_runtime(install=f"s{install[1:]}")
    taken = {"name": f"s{install[1:]}-team-20009", "labels": {names.LABEL_INSTALL: install}}
    world.api.call("POST", "/api/v1/namespaces", {"metadata": taken})
    with pytest.raises(Rejected, match="choose another TESSERA_INSTALL"):
        strange.start(world.spec("true", gid=20009))


def test_a_pod_of_somebody_else_that_has_a_tasks_name_is_left_alone(world):
    spec = world.spec("true")
    pod = build_pod(spec, world.runtime.config, {})
    pod["metadata"]["labels"][names.LABEL_TASK] = "f" * 32
    world.api.call("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
    with pytest.raises(Rejected, match="Another pod is called"):
        world.runtime.start(spec)


def test_a_full_namespace_makes_a_task_wait_and_asks_ever_more_seldom(world):
    spec = world.spec("true", gid=20010)
    ensure_namespace(world.api, world.runtime.config, 20010)
    namespace = names.name_team_namespace(world.runtime.config.install, 20010)
    quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
    world.api.call("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    wait_slowly(lambda: world.api.call("GET", f"/api/v1/namespaces/{namespace}/resourcequotas/full")[1].get("status"))
    with pytest.raises(Unavailable, match="exceeded quota"):
        world.runtime.start(spec)
    sent = sum(world.api.counts.requests.values())
    with pytest.raises(Unavailable, match="refused this task lately"):
        world.runtime.start(spec)
    assert sum(world.api.counts.requests.values()) - sent <= 2


def test_who_asks_again_because_an_answer_was_lost_is_not_refused_for_what_is_full_since(world):
    """A quota is asked before a name is found taken, so that the refusal says nothing of the pod that is there."""
    spec = world.spec("true", gid=20011)
    world.runtime.start(spec)
    namespace = names.name_team_namespace(world.runtime.config.install, 20011)
    quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "1"}}}
    world.api.call("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    where = f"/api/v1/namespaces/{namespace}/resourcequotas/full"
    wait_slowly(lambda: world.api.call("GET", where)[1].get("status", {}).get("used", {}).get("pods") == "1")
    world.runtime.start(spec)
    assert len(world.pods(spec.uuid)) == 1


def test_an_ended_pod_that_is_deleted_by_hand_is_still_counted(world, kubelet):
    spec = world.spec("exit 3")
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    (pod,) = world.pods(spec.uuid)
    world.api.call("DELETE", pod_path(pod), {"gracePeriodSeconds": 0})
    view = world.view(spec.uuid)
    assert (view.phase, view.exit_code, view.cause) == ("exited", 3, "")
    world.runtime.forget(spec.uuid)
    assert world.view(spec.uuid) is None
    world.runtime.start(spec)
    assert world.runs(spec.uuid) == 1 and world.view(spec.uuid) is None


def test_a_pod_that_is_deleted_by_hand_while_it_runs_is_a_lost_container(world, kubelet):
    spec = world.spec("sleep 60", grace_s=1)
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    (pod,) = world.pods(spec.uuid)
    world.api.call("DELETE", pod_path(pod))
    view = world.until(spec.uuid, "exited")
    assert (view.cause, view.signal) == ("stopped", 15)  # with no wish to stop: the row becomes FAILED, container_lost
    assert has_ended(world.pods(spec.uuid)[0])


def test_a_task_runs_as_its_person_and_sees_no_token(world, kubelet):
    spec = world.spec(
        "id -u; id -g; ls /var/run/secrets/kubernetes.io 2>&1; echo $NVIDIA_VISIBLE_DEVICES; pwd; echo $HOME"
    )
    world.runtime.start(spec)
    world.until(spec.uuid, "exited")
    uid, gid, secrets, devices, cwd, home = world.log(spec.uuid).decode().splitlines()
    assert (uid, gid, devices, cwd, home) == ("20001", "20000", "void", "/tessera/work", "/tessera/home")
    assert "No such file" in secrets


def test_out_of_memory(world, kubelet):
    spec = world.spec(TOO_MUCH, memory_mib=64)
    world.runtime.start(spec)
    view = world.until(spec.uuid, "exited")
    assert (view.cause, view.signal) == ("out_of_memory", 9)


def test_an_image_that_is_not_there_ends_with_the_registrys_words(world, kubelet, monkeypatch):
    monkeypatch.setattr("runtimes.kubernetes.pods.causes.TRIES_S", 2)
    spec = world.spec("true", image=world.options["image"].rpartition("/")[0] + "/nothing:1")
    world.runtime.start(spec)
    wait_slowly(lambda: world.view(spec.uuid).cause == "image_pull")
    world.runtime.stop(spec.uuid, 10, epoch=spec.epoch)
    view = world.until(spec.uuid, "exited")
    assert view.cause == "image_pull" and "nothing:1" in view.detail


def test_what_was_forgotten_long_ago_is_swept(world, monkeypatch):
    spec = world.spec("true")
    world.runtime.stop(spec.uuid, 0, epoch=1)
    world.runtime.forget(spec.uuid)
    assert len(world.pods(spec.uuid)) == 1
    assert world.runtime.sweep() == 0
    monkeypatch.setattr("runtimes.kubernetes.runtime.KEPT_HOURS", -2)
    assert world.runtime.sweep() >= 1
    wait_slowly(lambda: not world.pods(spec.uuid))


def test_a_list_of_versions_is_the_list_without_what_they_are_of(world):
    world.runtime.stop(world.spec("true").uuid, 0, epoch=1)
    mark = f"{names.LABEL_INSTALL}={world.runtime.config.install}"
    before = world.runtime.api.list_all(ALL_PODS, labels=mark)
    bare = world.runtime.api.list_versions(ALL_PODS, labels=mark)
    kept = ("name", "namespace", "resourceVersion")
    assert bare.items and len(bare.items) >= len(before.items)
    assert all(tuple(thing["metadata"]) == kept and all(thing["metadata"].values()) for thing in bare.items)
    assert {build_key(thing) for thing in before.items} <= {build_key(thing) for thing in bare.items}


def test_whoever_is_known_to_be_wanted_is_started_by_one_request(world):
    world.runtime.start(world.spec("true"))  # its node and its namespace have been looked at
    before = dict(world.runtime.api.counts.requests)
    world.runtime.start(world.spec("true", looked_at=time.monotonic()))
    world.runtime.start(world.spec("true", looked_at=time.monotonic() - 60))
    sent = {what: count - before.get(what, 0) for what, count in world.runtime.api.counts.requests.items()}
    assert {what: count for what, count in sent.items() if count} == {("POST", 201): 2, ("GET", 404): 1}


def test_a_stop_that_knows_the_team_takes_the_name_that_its_pod_would_have(world):
    """So a start that is on its way meanwhile makes none, though it looks for no tombstone."""
    spec = world.spec("sleep 60")
    world.runtime.stop(spec.uuid, 1, epoch=spec.epoch, gid=spec.gid)
    world.runtime.start(replace(spec, looked_at=time.monotonic()))
    (tombstone,) = world.pods(spec.uuid)
    assert is_tombstone(tombstone) and world.view(spec.uuid).cause == "never_started"
    assert tombstone["metadata"]["namespace"] == names.name_team_namespace(world.runtime.config.install, spec.gid)
    world.runtime.forget(spec.uuid)
    world.runtime.start(replace(spec, looked_at=time.monotonic()))
    assert [is_tombstone(pod) for pod in world.pods(spec.uuid)] == [True]


def test_a_stop_whose_pod_is_made_meanwhile_ends_it(world, monkeypatch):
    spec = world.spec("sleep 60")
    find, looks = world.runtime._find_pods, []

    def late(uuid):
        """The first look finds nothing; then the pod is made."""
        looks.append(uuid)
        if len(looks) == 1:
            assert find(uuid) == []
            world.runtime.start(replace(spec, looked_at=time.monotonic()))
            return []
        return find(uuid)

    monkeypatch.setattr(world.runtime, "_find_pods", late)
    world.runtime.stop(spec.uuid, 1, epoch=spec.epoch, gid=spec.gid)
    world.until(spec.uuid, "exited")
    assert [is_tombstone(pod) for pod in world.pods(spec.uuid)] == [False] and len(looks) >= 2


def test_a_card_is_never_sold_twice_even_if_our_ledger_were_wrong(world):
    """Pinned by node and by the card's own resource: the scheduler itself keeps the second one waiting, with words."""
    fakes = [node for node in world.runtime.list_nodes() if node.gpus and node.name.startswith("fake-")]
    if not fakes:
        pytest.skip("NO FAKE NODES: they serve cards.")
    card, other = fakes[0].gpus[:2]
    half = card.memory_mib * 5 // 8
    ask = {"node": fakes[0].name, "gid": 20000}
    first, second, beside = (
        world.spec("sleep 60", gpus=(GpuShare(each.uuid, each.index, half, 62, False, each),), **ask)
        for each in (card, card, other)
    )
    for spec in (first, second, beside):
        world.runtime.start(spec)
    wait_slowly(lambda: {world.view(spec.uuid).phase for spec in (first, beside)} == {"running"})
    wait_slowly(lambda: "Insufficient tessera.sh/g-0" in world.view(second.uuid).detail)
    assert world.view(second.uuid).phase == "starting"
    world.runtime.stop(first.uuid, 1, epoch=first.epoch)
    wait_slowly(lambda: world.view(second.uuid).phase == "running")


def test_a_card_of_another_node_is_refused_with_words(world):
    card = GpuShare("GPU-of-another-node", 0, 1024, 10, False)
    with pytest.raises(Rejected, match="has no GPU"):
        world.runtime.start(world.spec("true", gpus=(card,)))


def test_a_view_follows_a_hundred_tasks_and_misses_none(world):
    """On a fake node, so that only we and the API server are at work."""
    fakes = [node.name for node in world.runtime.list_nodes() if node.name.startswith("fake-")]
    if not fakes:
        pytest.skip("NO FAKE NODES.")
    specs = [world.spec("sleep 60", node=fakes[n % len(fakes)]) for n in range(100)]
    with ClusterView(world.runtime) as view, ThreadPoolExecutor(8) as pool:
        list(pool.map(world.runtime.start, specs))
        wait_slowly(lambda: view.pods.age_s() < 60 and phases(view, specs) == {"running"})
        list(pool.map(lambda spec: world.runtime.stop(spec.uuid, 1, epoch=spec.epoch), specs))
        wait_slowly(lambda: phases(view, specs) == {"exited"})
        list(pool.map(lambda spec: world.runtime.forget(spec.uuid), specs))
        wait_slowly(lambda: not phases(view, specs))
        assert view.pods.restarts["missed"] == 0


def phases(view, specs) -> set[str]:
    """Of these tasks; those that are not seen count as nothing where none is."""
    try:
        seen = {each.uuid: each.phase for each in view.list_containers()}
    except Unavailable:
        return {"unknown"}
    found = [seen.get(spec.uuid, "") for spec in specs]
    return set(found) if any(found) else set()
