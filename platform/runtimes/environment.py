"""The environment that every runtime gives a task; nothing is inherited. How a gang's tasks find each other.

The files in TESSERA_HOSTS are for ssh-based launchers such as MPI, see docs/notes/finding-the-workers.md.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from runtimes.contract.task import Peer, TaskSpec
from runtimes.gpu_sharing import is_forbidden_env
from runtimes.python_environment import build_environment_variables
from runtimes.report_file import FILE, REPORT

SECRETS = "TESSERA_SECRETS"
"""The variable with the folder of a task's secrets, where it has any."""
NCCL_HCAS = "NCCL_IB_HCA"
"""NCCL's variable with the adapters that it may use; = wants whole names. Source: NCCL's documentation."""
MOST_NAMED = 100
"""Tasks of a role that get variables of their own; a host file lists all."""
SSH_PORT = 2222
"""The port that a role declares to accept ssh from its peers."""
SCRIPTS = ("key.sh", "listen.sh", "rsh.sh")
SSH_OPTIONS = """\
  ConnectionAttempts 60
  BatchMode yes
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


def build_gang_environment(spec: TaskSpec, hosts: str) -> dict[str, str]:
    """Return variables for torchrun (rank, master) and others (rank in the role, addresses). hosts: their folder."""
    mine = [rank for rank, peer in enumerate(spec.peers) if peer.role == spec.role]
    return {
        "RANK": str(spec.rank),
        "LOCAL_RANK": "0",  # each task has its own cards, numbered from 0
        "WORLD_SIZE": str(max(len(spec.peers), 1)),
        "MASTER_ADDR": spec.peers[0].address if spec.peers else "127.0.0.1",
        **({"MASTER_PORT": str(spec.ports[0])} if spec.ports else {}),
        "ROLE_RANK": str(mine.index(spec.rank) if spec.rank in mine else 0),
        "ROLE_WORLD_SIZE": str(max(len(mine), 1)),
        **_addresses(spec.peers),
        **(_remote_shell(f"{hosts}/rsh.sh") if any(SSH_PORT in peer.ports for peer in spec.peers) else {}),
    }


def build_gang_files(peers: tuple[Peer, ...]) -> dict[str, str]:
    """Return {name: text}: host files by role for Open MPI and DeepSpeed (`worker-0 slots=8`), and ssh settings."""
    files: dict[str, str] = {}
    for name, peer in _names(peers):
        files[peer.role] = f"{files.get(peer.role, '')}{name} slots={peer.slots}\n"
    listening = [(name, peer) for name, peer in _names(peers) if SSH_PORT in peer.ports]
    if listening:
        files["ssh.conf"] = "".join(
            f"Host {name}\n  HostName {peer.address}\n  Port {peer.ports[SSH_PORT]}\n" for name, peer in listening
        )
        files["ssh.conf"] += f"Host *\n{SSH_OPTIONS}"
        files |= {name: (Path(__file__).parent / "rsh" / name).read_text() for name in SCRIPTS}
    return files


def build_task_environment(
    spec: TaskSpec, seen_at: str, hints: Mapping[str, str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """Merge variables; later win: defaults, hints, the user's (without `is_forbidden_env`), the platform's, fixed.

    seen_at: of the task's home, tmp, hosts.
    """
    ports = {f"TESSERA_PORT_{declared}": str(actual) for declared, actual in spec.port_map.items()}
    kept = spec.environment
    venv = build_environment_variables(seen_at, read_only=kept.read_only) if kept else {}
    own = {name: value for name, value in spec.env.items() if not is_forbidden_env(name)}
    folders = {name: os.path.join(seen_at, "work", path) for name, path in spec.work_folders.items()}
    defaults, identity = _defaults(spec, seen_at), _identity(spec, seen_at)
    return defaults | dict(hints) | own | spec.platform_env | folders | ports | dict(fixed) | venv | identity


def _names(peers: tuple[Peer, ...]) -> Iterator[tuple[str, Peer]]:
    counts: dict[str, int] = {}
    for peer in peers:
        number = counts[peer.role] = counts.get(peer.role, -1) + 1
        yield f"{peer.role.replace('_', '-')}-{number}", peer


def _addresses(peers: tuple[Peer, ...]) -> dict[str, str]:
    """Return ROLE_HEAD_0 (address) and ROLE_HEAD_0_PORT_6379 (actual port)."""
    found: dict[str, str] = {}
    for host, peer in _names(peers):
        if int(host.rpartition("-")[2]) < MOST_NAMED:
            name = f"ROLE_{host.upper().replace('-', '_')}"
            found |= {name: peer.address}
            found |= {f"{name}_PORT_{declared}": str(actual) for declared, actual in peer.ports.items()}
    return found


def _remote_shell(path: str) -> dict[str, str]:
    """Make Open MPI 5 and 4, MPICH and Intel MPI use this script."""
    return {
        "PRTE_MCA_plm_ssh_agent": path,
        "OMPI_MCA_plm_rsh_agent": path,
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": path,
        "HYDRA_ENV": "none",  # programs use the environment of the task they run in
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": path,
    }


def _defaults(spec: TaskSpec, seen_at: str) -> dict[str, str]:
    defaults = {
        "HOME": os.path.join(seen_at, "home"),
        "TMPDIR": os.path.join(seen_at, "tmp"),
        "LANG": "C.UTF-8",
        "USER": spec.user,
        "LOGNAME": spec.user,
        "PYTHONUNBUFFERED": "1",  # for live logs
        "OMP_NUM_THREADS": str(max(1, spec.cpu_milli // 1000)),
    }
    if spec.hcas:
        defaults[NCCL_HCAS] = "=" + ",".join(spec.hcas)
    return defaults | build_gang_environment(spec, os.path.join(seen_at, "hosts"))


def _identity(spec: TaskSpec, seen_at: str) -> dict[str, str]:
    return {
        "TESSERA_TASK": spec.uuid,  # also finds orphan processes (processes.MARKER)
        "TESSERA_JOB": spec.label.split(" ")[0],
        "TESSERA_ROLE": spec.role,
        "TESSERA_TEAM": spec.team,
        "TESSERA_PEERS": ",".join(peer.address for peer in spec.peers),
        "TESSERA_HOSTS": os.path.join(seen_at, "hosts"),
        REPORT: os.path.join(seen_at, FILE),
        "TESSERA_PORTS": ",".join(str(port) for port in spec.ports),
    }
