"""Remove the cluster's processes, mounts, network and folders, also after a crash, without API server or containerd."""

import shutil
from pathlib import Path

from deploy.cluster.machine import end_pods, list_mounts, load_before, put_back, remove_bridge, unmount_below
from deploy.cluster.place import BEFORE, BRIDGE, OWNER, Place, Refusal
from deploy.cluster.processes import find_all, kill

ROUNDS = 3  # finds processes that were starting


def take_down(place: Place) -> bool:
    """Return whether a cluster existed. Raise Refusal, keeping all files, if a mount remains."""
    before = load_before(place)
    if before is None:
        OWNER.unlink(missing_ok=True)
        return False
    for _ in range(ROUNDS):
        kill(find_all(place))
    end_pods()
    unmount_below(place.state)
    remove_bridge(BRIDGE)
    put_back(before)
    remove_files(place.state)
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
