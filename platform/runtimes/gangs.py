"""How a gang's tasks find each other: environment variables, and files in TESSERA_HOSTS.

The files are for ssh-based launchers such as MPI, see docs/notes/finding-the-workers.md.
"""

from collections.abc import Iterator
from pathlib import Path

from runtimes.contract.task import Peer, TaskSpec

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
