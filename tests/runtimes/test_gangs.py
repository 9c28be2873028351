"""How tasks of a gang find each other, without any runtime."""

from runtimes.contract.task import Peer, TaskSpec
from runtimes.environment import MOST_NAMED, build_gang_environment, build_gang_files

HEAD = Peer("10.0.0.1", "head", 1, {6379: 23_001})
WORKERS = (Peer("10.0.0.2", "gpu_worker", 8), Peer("10.0.0.3", "gpu_worker", 8))
MORE = Peer("10.0.0.4", "head")  # of an elastic role: ranked behind all others


def environment_of(rank: int, *peers: Peer) -> dict[str, str]:
    spec = TaskSpec("a", "job-1", 1, "n1", "true", rank=rank, role=peers[rank].role, peers=peers, ports=(23_000,))
    return build_gang_environment(spec, "/task/hosts")


def test_a_task_knows_its_place_in_the_gang_and_in_its_role():
    found = environment_of(2, HEAD, *WORKERS, MORE)
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("2", "4", "10.0.0.1")
    assert (found["ROLE_RANK"], found["ROLE_WORLD_SIZE"], found["MASTER_PORT"]) == ("1", "2", "23000")
    last = environment_of(3, HEAD, *WORKERS, MORE)
    assert (last["RANK"], last["ROLE_RANK"], last["ROLE_WORLD_SIZE"]) == ("3", "1", "2")


def test_each_task_of_each_role_is_found_by_a_variable():
    found = environment_of(0, HEAD, *WORKERS, MORE)
    assert {name: value for name, value in found.items() if name.startswith("ROLE_") and name[-1].isdigit()} == {
        "ROLE_HEAD_0": "10.0.0.1", "ROLE_HEAD_0_PORT_6379": "23001", "ROLE_HEAD_1": "10.0.0.4",
        "ROLE_GPU_WORKER_0": "10.0.0.2", "ROLE_GPU_WORKER_1": "10.0.0.3",
    }  # fmt: skip


def test_a_large_role_does_not_fill_the_environment():
    found = environment_of(0, *(Peer("10.0.0.1", "w"),) * 5000)
    assert sum(name.startswith("ROLE_W_") for name in found) == MOST_NAMED


def test_a_host_file_has_a_line_for_each_task_of_its_role():
    files = build_gang_files((HEAD, *WORKERS, MORE))
    assert files == {"head": "head-0 slots=1\nhead-1 slots=1\n", "gpu_worker": HOSTS}


HOSTS = "gpu-worker-0 slots=8\ngpu-worker-1 slots=8\n"


def test_ssh_knows_those_that_let_others_in():
    here = Peer("10.0.0.2", "worker", 2, {2222: 23_007})
    files = build_gang_files((HEAD, here))
    assert files["ssh.conf"].startswith("Host worker-0\n  HostName 10.0.0.2\n  Port 23007\nHost *\n")
    assert "head-0" not in files["ssh.conf"] and files["listen.sh"].startswith("#!/bin/sh")
    assert environment_of(0, HEAD, here)["OMPI_MCA_plm_rsh_agent"] == "/task/hosts/rsh.sh"


def test_nobody_is_told_of_a_shell_that_nobody_offers():
    assert "OMPI_MCA_plm_rsh_agent" not in environment_of(0, HEAD) and set(build_gang_files((HEAD,))) == {"head"}
