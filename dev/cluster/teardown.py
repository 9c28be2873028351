"""Remove the cluster's processes, mounts, network and folders, also after a crash, without API server or containerd."""

import shutil
from pathlib import Path

from dev.cluster.machine import kill_pods, list_mounts, load_recorded_host, remove_bridge, restore_host, unmount_below
from dev.cluster.paths import BEFORE, BRIDGE, OWNER, ClusterPaths, Refusal
from dev.cluster.processes import find_processes, kill

ROUNDS = 3  # finds processes that were starting


def take_down(paths: ClusterPaths) -> bool:
    """Return whether a cluster existed. Raise Refusal, keeping all files, if a mount remains."""
    before = load_recorded_host(paths)
    if before is None:
        OWNER.unlink(missing_ok=True)
        return False
    for _ in range(ROUNDS):
        kill(find_processes(paths))
    kill_pods()
    unmount_below(paths.state)
    remove_bridge(BRIDGE)
    restore_host(before)
    remove_files(paths.state)
    OWNER.unlink(missing_ok=True)
    return True


def remove_files(state: Path) -> None:
    """Delete files, BEFORE last, so that an interrupted run can resume."""
    if mounts := list_mounts(state):
        raise Refusal(
            f"These stay mounted, so no file of {state} was deleted: {' '.join(mounts)}\n  Unmount them and try again."
        )
    for path in state.iterdir():
        if path.name != BEFORE:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.rmtree(state)
