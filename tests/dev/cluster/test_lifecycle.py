"""bin/cluster from nothing to nothing: twice up, everything killed, killed half way up, and what `down` leaves."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from dev.cluster.images import IMAGES
from dev.cluster.machine import FOLDERS, SETTINGS, list_mounts, read_rules, read_sysctl
from dev.cluster.parts.node import is_node_ready
from dev.cluster.paths import OWNER, load_owner
from dev.cluster.processes import find_parts, find_processes, kill, poll_until
from dev.cluster.registry import name_of
from tests.local_cluster import REQUIRED, ROOT, Kubectl, build_pod, claim_cluster, local_place, run_cluster
from tests.whole import part_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

BUSYBOX = name_of(next(image for image in IMAGES if image.name == "busybox"))
START_S = 180  # to build takes several times that; half a minute where nothing else runs


def look_at_machine() -> dict:
    """All that a cluster could leave behind."""
    rules = [line for tool in ("iptables", "ip6tables") for line in read_rules(tool)]
    return {
        "mounts": sorted(list_mounts(Path("/"))),
        "links": sorted(os.listdir("/sys/class/net")),
        "rules": sorted(line for line in rules if line.startswith("-A") or " - [" in line),
        "settings": {name: read_sysctl(name) for name in SETTINGS},
        "folders": [folder for folder in FOLDERS if Path(folder).exists()],
        "groups": sorted(map(str, Path("/sys/fs/cgroup").glob("**/kubepods"))),
        "addresses": subprocess.run(["ip", "-o", "address"], capture_output=True, text=True).stdout,
        "owner": OWNER.exists(),
    }


@pytest.fixture(scope="module")
def machine(cluster_turn):
    """How this machine is without a cluster."""
    if not claim_cluster():
        reason = f"The cluster of {load_owner()} ran before, and these tests would take it away: bin/cluster down first"
        (pytest.fail if REQUIRED else pytest.skip)(reason)
    run_cluster("down")
    return look_at_machine()


@pytest.fixture
def place(machine):
    run_cluster("up", "--kwok", "2")
    return local_place()


@pytest.fixture
def kubectl(place):
    return Kubectl(place.kubeconfig, "default")


def start_sleeper(kubectl, name: str) -> dict:
    """A pod that was there before the accident."""
    kubectl("delete", "pod", name, "--ignore-not-found", "--force")
    kubectl.create(build_pod(name, BUSYBOX, "sleep", "600", restartPolicy="Always"))
    return kubectl.wait_for_phase(name, "Running")


def test_up_from_a_full_cache_is_quick_and_says_where_the_cluster_is(machine):
    run_cluster("build")
    began = time.monotonic()
    said = run_cluster("up", "--kwok", "2")
    assert time.monotonic() - began < START_S
    assert said.splitlines()[-1] == f"export KUBECONFIG={local_place().kubeconfig}"


def test_up_again_starts_nothing_anew(place):
    before = find_parts(place)
    assert set(before) >= {"etcd", "kube-apiserver", "kubelet", "containerd", "kwok"}
    run_cluster("up")
    assert find_parts(place) == before


def test_up_starts_only_what_is_missing(place):
    before = find_parts(place)
    kill([before["kube-scheduler"]])
    run_cluster("up")
    after = find_parts(place)
    assert {name for name in after if after[name] != before.get(name)} == {"kube-scheduler"}


def test_up_changes_how_many_fake_nodes_there_are(place, kubectl):
    run_cluster("up", "--kwok", "5")
    assert len(kubectl("get", "nodes", "-l", "type=kwok", "-o", "name").split()) == 5
    run_cluster("up", "--kwok", "1")
    assert kubectl("get", "nodes", "-l", "type=kwok", "-o", "name").split() == ["node/fake-0"]


def test_status_says_what_runs_and_fails_where_something_does_not(place):
    assert "real-0 (Ready)" in run_cluster("status")
    kill([find_parts(place)["kube-scheduler"]])
    assert "missing  kube-scheduler" in run_cluster("status", fails=True)


def test_after_everything_was_killed_up_brings_back_the_same_cluster(place, kubectl):
    uid = start_sleeper(kubectl, "survivor")["metadata"]["uid"]
    kill(find_processes(place))
    run_cluster("up")
    assert poll_until(lambda: is_node_ready(place), 60)
    assert kubectl.get("pod", "survivor")["metadata"]["uid"] == uid
    assert poll_until(lambda: kubectl.run("exec", "survivor", "--", "true").returncode == 0, 60)


def test_a_running_cluster_with_pods_goes_without_a_trace(machine, place, kubectl):
    start_sleeper(kubectl, "busy")
    run_cluster("down")
    assert find_processes(place) == []
    assert not place.state.exists()
    assert look_at_machine() == machine


def test_what_was_killed_with_pods_in_it_goes_without_a_trace_too(machine, place, kubectl):
    start_sleeper(kubectl, "orphan")
    kill(find_processes(place))
    run_cluster("down")
    assert look_at_machine() == machine


@pytest.mark.parametrize("line", ["registry", "certificates", "controllers and scheduler"][: part_of(3, 1)])
def test_an_up_that_was_killed_half_way_is_taken_away_or_finished(machine, line):
    run_cluster("down")
    with subprocess.Popen(
        [ROOT / "bin/cluster", "up"], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as up:
        assert any(line in said for said in up.stderr)
        os.killpg(up.pid, signal.SIGKILL)
    if line == "registry":
        run_cluster("up")
        assert is_node_ready(local_place())
    run_cluster("down")
    assert look_at_machine() == machine


def test_down_where_nothing_runs_says_so(machine):
    run_cluster("down")
    assert "There is no cluster" in run_cluster("down")
