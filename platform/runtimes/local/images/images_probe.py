"""Whether this machine can run tasks in images, found by trying, or the sentence that says what is missing."""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from runtimes.local import isolation
from runtimes.local.images.podman import PATH
from runtimes.local.node.isolation_probe import run_python
from runtimes.local.shim.rootfs.image_root import make_layer_folders, mount_layers

OLDEST = (4, 0)
OFF = "Images are switched off here: TESSERA_IMAGES_MIB is 0."
NO_PODMAN = "Images need podman: apt install podman (or your system's own package), then start Tessera anew."
OLD_PODMAN = "Images need podman {oldest} or newer, and here is {found}: update the package podman."
NO_ROOT = "Images need Tessera to run as root on this machine: start it with sudo."
NO_NAMESPACES = (
    "Images need namespaces, which this machine does not allow: run Tessera on it directly, not in a container."
)
NO_OVERLAY = (
    "Images need overlay mounts, which do not work in {folder}: put TESSERA_DATA on a disk of the machine with ext4 or "
    "xfs, and run Tessera on it directly, not in a container."
)


@dataclass(frozen=True)
class ImageSupport:
    """words: what is missing, and what to do; "" if images work. version: podman's."""

    words: str
    version: str = ""

    @property
    def works(self) -> bool:
        return not self.words


def probe_images(data_dir: Path, *, namespaces: bool, most_mib: int) -> ImageSupport:
    """Return whether images work here. most_mib: of their store, 0 to do without."""
    if not most_mib:
        return ImageSupport(OFF)
    version = read_podman_version()
    is_root = os.geteuid() == 0
    overlay = is_root and namespaces and overlay_works(data_dir)
    return judge(version, is_root=is_root, namespaces=namespaces, overlay=overlay, folder=str(data_dir))


def judge(version: str, *, is_root: bool, namespaces: bool, overlay: bool, folder: str) -> ImageSupport:
    """Return what a machine with these can do. version: "" without podman."""
    if not is_root:
        return ImageSupport(NO_ROOT, version)
    if not namespaces:
        return ImageSupport(NO_NAMESPACES, version)
    if not overlay:
        return ImageSupport(NO_OVERLAY.format(folder=folder), version)
    if not version:
        return ImageSupport(NO_PODMAN)
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        return ImageSupport(OLD_PODMAN.format(oldest=".".join(map(str, OLDEST)), found=version), version)
    return ImageSupport("", version)


def read_podman_version() -> str:
    """Return podman's version, such as 4.3.1, or ""."""
    try:
        done = subprocess.run(
            ["podman", "--version"], env={"PATH": PATH}, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\d+\.\d+[\d.]*", done.stdout)
    return found[0] if found else ""


def overlay_works(data_dir: Path) -> bool:
    """Stack layers as for a task, in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=data_dir))
    code = "from runtimes.local.images.images_probe import try_overlay; try_overlay(*sys.argv[1:])"
    try:
        (folder / "layer").mkdir()
        make_layer_folders(str(folder))
        done = subprocess.run(run_python(code, str(folder)), env={}, capture_output=True, timeout=10, check=False)
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def try_overlay(folder: str) -> None:
    """Mount layers and write on them. Raises OSError."""
    isolation.unshare_mounts()
    root = mount_layers(folder, ["layer"], folder)
    os.close(os.open("written", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=root))
    os.unlink("written", dir_fd=root)
