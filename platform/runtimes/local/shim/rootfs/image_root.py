"""Put a task into its image: a writable layer of its own on the image's, with what the platform brings mounted in it.

All is mounted before the task's root becomes the root, below an open folder and without following a link: whatever an
image contains, nothing of it leads to a file of the machine. Few imports, for the shim.
"""

import os
import stat

from runtimes.local import isolation
from runtimes.local.isolation import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_REC
from runtimes.local.shim import mounts
from runtimes.storage.open_beneath import open_beneath

LAYER_FOLDERS = ("upper", "work", "root")
"""In the plan's folder of the image: what the task writes, the kernel's own, and where both lie on the layers."""
MOST_PASSWD = 1 << 20
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def enter_image(plan: dict) -> None:
    """After `unshare_mounts`, as init, make the plan's image the root. Raises OSError."""
    image = plan["image"]
    if strange := [group for group in plan["groups"] if not group.startswith("/sys/")]:
        raise OSError(f"{strange[0]} is not below /sys: its limits could not be entered in an image.")
    libraries, sources, tmp = mounts.open_slice_files(plan), mounts.open_sources(plan), mounts.open_tmp(plan)
    root = mount_layers(image["overlay"], image["layers"], image["folder"])
    _mount_system(root, plan)
    _bind(root, "/tmp", tmp, read_only=False)
    for source, base, below, read_only in sources:
        _bind(root, base, source, below=below, read_only=read_only)
    files = [(path, target) for target, path in mounts.list_network_files(plan) if os.path.isfile(path)]
    for path, target in (*files, *image["files"]):
        _bind(root, target, os.open(path, os.O_PATH | os.O_CLOEXEC), read_only=True, is_file=True)
    for source, target, read_only in libraries:
        _cover_file(root, target, source, read_only)
    add_account(root, plan["uid"], plan["gid"], *plan["account"])
    isolation.forbid_imports()
    isolation.pivot_into(root)
    os.close(root)


def make_layer_folders(folder: str) -> None:
    """Create what `mount_layers` needs for a task. Raises OSError."""
    for name in ("", *LAYER_FOLDERS):
        os.makedirs(os.path.join(folder, name), mode=0o755, exist_ok=True)


def mount_layers(overlay: str, layers: list[str], folder: str) -> int:
    """Mount a task's own layer on those of its image; return the open root. Raises OSError.

    overlay: the store's folder of layers, to which the names of `layers`, topmost first, are relative: the kernel takes
    a page of options.
    """
    upper, work, root = (os.open(os.path.join(folder, name), FOLDER) for name in LAYER_FOLDERS)
    os.chdir(overlay)
    own = f"upperdir=/proc/self/fd/{upper},workdir=/proc/self/fd/{work}"
    isolation.mount(
        "overlay", f"/proc/self/fd/{root}", "overlay", MS_NODEV | MS_NOSUID, f"lowerdir={':'.join(layers)},{own}"
    )
    for fd in (upper, work, root):
        os.close(fd)
    return os.open(os.path.join(folder, "root"), FOLDER)


def open_place(root: int, path: str, *, is_file: bool = False) -> int:
    """Open a path below a root without following links; what is missing, or of another kind, is made anew.

    Raises OSError.
    """
    at = os.dup(root)
    *folders, last = path.strip("/").split("/")
    for name, wanted in (*((name, False) for name in folders), (last, is_file)):
        step = _open_or_make(at, name, wanted)
        os.close(at)
        at = step
    return at


def add_account(root: int, uid: int, gid: int, name: str, home: str, shell: str) -> None:
    """Add an unnamed uid to the image's /etc/passwd, as ssh, git and bash need. Raises OSError."""
    place = open_place(root, "/etc/passwd", is_file=True)
    with open(f"/proc/self/fd/{place}", "r+b") as file:
        known = file.read(MOST_PASSWD)
        if len(known) < MOST_PASSWD and not any(_uid_of(line) == b"%d" % uid for line in known.splitlines()):
            file.write(
                (b"" if known.endswith(b"\n") or not known else b"\n")
                + f"{name}:x:{uid}:{gid}::{home}:{shell}\n".encode()
            )
    os.close(place)


def _mount_system(root: int, plan: dict) -> None:
    _mount_at(root, "/proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _mount_at(root, "/sys", "/sys", None, MS_BIND | MS_REC)
    _mount_at(root, "/dev", "tmpfs", "tmpfs", *isolation.DEVICES)
    devices = open_place(root, "/dev")
    isolation.fill_devices("/dev", f"/proc/self/fd/{devices}", plan["shm_mib"], plan["uid"])
    os.close(devices)


def _mount_at(root: int, path: str, source: str, kind: str | None, flags: int, data: str | None = None) -> None:
    place = open_place(root, path)
    isolation.mount(source, f"/proc/self/fd/{place}", kind, flags, data)
    os.close(place)


def _bind(root: int, path: str, source: int, *, read_only: bool, below: str = "", is_file: bool = False) -> None:
    """Mount an open file or folder; closes it. below: chosen by a person, and there already."""
    for mounts_it in (True, False):
        place = open_place(root, path, is_file=is_file)
        under = open_beneath(place, below, os.O_PATH) if below else os.dup(place)
        if mounts_it:
            isolation.mount(f"/proc/self/fd/{source}", f"/proc/self/fd/{under}", None, MS_BIND)
        else:
            isolation.set_flags(under, read_only)
        os.close(place)
        os.close(under)
    os.close(source)


def _cover_file(root: int, path: str, source: int, read_only: bool) -> None:
    """Mount an open file over one that is there; closes it."""
    try:
        os.close(open_beneath(root, path.strip("/"), os.O_PATH))
    except OSError:  # the image has none there
        os.close(source)
        return
    _bind(root, os.path.dirname(path), source, below=os.path.basename(path), read_only=read_only)


def _open_or_make(at: int, name: str, is_file: bool) -> int:
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not (stat.S_ISREG(mode) if is_file else stat.S_ISDIR(mode)):
        os.unlink(name, dir_fd=at)
        mode = None
    if mode is None and is_file:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=at))
    elif mode is None:
        os.mkdir(name, 0o755, dir_fd=at)
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)


def _uid_of(line: bytes) -> bytes:
    """Return the third field of a line of /etc/passwd."""
    return (line.split(b":") + [b""] * 3)[2]
