"""How the tasks of a gang find each other, the same in every runtime: variables, and files in TESSERA_HOSTS.

The files are for programs that start others by ssh, as MPI does; docs/notes/finding-the-workers.md says why so.
"""

from collections.abc import Iterator
from pathlib import Path

from runtimes.base import Peer, TaskSpec

MOST_NAMED = 100
"""So many tasks of a role have variables of their own; a host file names all."""
SSH_PORT = 2222
"""What a role declares that lets others in."""
SCRIPTS = ("key.sh", "listen.sh", "rsh.sh")
SSH_OPTIONS = """\
  ConnectionAttempts 60
  BatchMode yes
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


def gang_environment(spec: TaskSpec, hosts: str) -> dict[str, str]:
    """For torchrun and its like: the place in the whole gang, and where its first task is. For all else: the place in
    the role, and ROLE_WORKER_0 and so on, where the tasks of each role are. hosts: where it sees `gang_files`.
    """
    mine = [rank for rank, peer in enumerate(spec.peers) if peer.role == spec.role]
    return {
        "RANK": str(spec.rank),
        "LOCAL_RANK": "0",  # each task has its own cards, counted from 0
        "WORLD_SIZE": str(max(len(spec.peers), 1)),
        "MASTER_ADDR": spec.peers[0].address if spec.peers else "127.0.0.1",
        **({"MASTER_PORT": str(spec.ports[0])} if spec.ports else {}),
        "ROLE_RANK": str(mine.index(spec.rank) if spec.rank in mine else 0),
        "ROLE_WORLD_SIZE": str(max(len(mine), 1)),
        **_addresses(spec.peers),
        **(_remote_shell(f"{hosts}/rsh.sh") if any(SSH_PORT in peer.ports for peer in spec.peers) else {}),
    }


def gang_files(peers: tuple[Peer, ...]) -> dict[str, str]:
    """{name: text}. Of each role a host file as Open MPI and DeepSpeed read it, `worker-0 slots=8` for each task. Where
    somebody lets others in: what ssh has to know of these names, and the scripts.
    """
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
    """Each task's host name: its role and its place in it."""
    counts: dict[str, int] = {}
    for peer in peers:
        number = counts[peer.role] = counts.get(peer.role, -1) + 1
        yield f"{peer.role.replace('_', '-')}-{number}", peer


def _addresses(peers: tuple[Peer, ...]) -> dict[str, str]:
    """ROLE_HEAD_0: its address. ROLE_HEAD_0_PORT_6379: where it listens for what it declared as 6379."""
    found: dict[str, str] = {}
    for host, peer in _names(peers):
        if int(host.rpartition("-")[2]) < MOST_NAMED:
            name = f"ROLE_{host.upper().replace('-', '_')}"
            found |= {name: peer.address}
            found |= {f"{name}_PORT_{declared}": str(actual) for declared, actual in peer.ports.items()}
    return found


def _remote_shell(path: str) -> dict[str, str]:
    """So that the usual launchers start their programs by it: Open MPI 5 and 4, MPICH, Intel MPI."""
    return {
        "PRTE_MCA_plm_ssh_agent": path,
        "OMPI_MCA_plm_rsh_agent": path,
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": path,
        "HYDRA_ENV": "none",  # each program has the environment, and the cards, of the task that it runs in
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": path,
    }
