"""How the tasks of a gang find each other, the same in every runtime: variables, and host files for MPI."""

from runtimes.base import Peer, TaskSpec

MOST_NAMED = 100
"""So many tasks of a role have variables of their own; a host file names all."""


def gang_environment(spec: TaskSpec) -> dict[str, str]:
    """For torchrun and its like: the place in the whole gang, and where its first task is. For all else: the place in
    the role, and ROLE_WORKER_0 and so on, where the tasks of each role are.
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
    }


def host_files(peers: tuple[Peer, ...]) -> dict[str, str]:
    """{role: its host file}, a line for each task as Open MPI and DeepSpeed read it: `10.0.0.7 slots=8`."""
    files: dict[str, str] = {}
    for peer in peers:
        files[peer.role] = f"{files.get(peer.role, '')}{peer.address} slots={peer.slots}\n"
    return files


def _addresses(peers: tuple[Peer, ...]) -> dict[str, str]:
    """ROLE_HEAD_0: its address. ROLE_HEAD_0_PORT_6379: where it listens for what it declared as 6379."""
    found: dict[str, str] = {}
    counts: dict[str, int] = {}
    for peer in peers:
        number = counts[peer.role] = counts.get(peer.role, -1) + 1
        if number < MOST_NAMED:
            name = f"ROLE_{peer.role.upper().replace('-', '_')}_{number}"
            found |= {name: peer.address}
            found |= {f"{name}_PORT_{declared}": str(actual) for declared, actual in peer.ports.items()}
    return found
