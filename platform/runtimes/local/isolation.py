"""Isolate a job from the platform and other jobs, as far as this kernel allows (see node/isolation_probe.py).

In namespaces a job sees its own processes, a /tmp and /dev/shm of its own, of /dev only what is harmless, and the
platform's directories as empty. Few imports, for the shim.
"""

import ctypes
import os
import pwd
import resource
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from runtimes.storage.open_beneath import open_beneath

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME, MS_BIND = 32, 1024, 2048, 4096
MS_REC, MS_PRIVATE, MS_RELATIME = 1 << 14, 1 << 18, 1 << 21
MNT_DETACH = 2
ST_RELATIME = 4096
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

DEVICES_KEPT_BACK = frozenset({"cuse", "fuse", "kvm", "vhost-net", "vhost-vsock", "vsock"})
"""With which a program makes file systems, networks or machines of its own, where their modes let everybody."""
DEVICE_FOLDERS = ("dri", "hugepages", "infiniband", "mqueue", "nvidia", "pts")
"""First letters of those that tasks see. /dev/net, with the tunnels, is none of them."""
DEVICES = MS_NOSUID | MS_NOEXEC, "size=64k,mode=0755"
"""Flags and options of a task's /dev."""

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Adopt all orphans below, so that a double fork does not leave the tree."""
    _call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def open_namespaces(*, owned: bool = False) -> None:
    """Make our next child init of a pid namespace; without root, in a user namespace.

    owned: after `enter_network`, whose user namespace serves.
    """
    if os.geteuid() == 0 or owned:
        _call("unshare", CLONE_NEWPID)
    else:
        _open_user_namespace(CLONE_NEWPID)


def open_network() -> None:
    """Enter a new network namespace, in a user namespace of our account, which is not root."""
    _open_user_namespace(CLONE_NEWNET)


def enter_network(network: int, owner: int) -> None:
    """Enter /proc/PID/ns/net. owner: its user namespace, /proc/PID/ns/user."""
    if os.geteuid() != 0:
        _call("setns", owner, CLONE_NEWUSER)
    _call("setns", network, CLONE_NEWNET)


def _open_user_namespace(more: int) -> None:
    """Enter a user namespace in which our account is itself, and others of it."""
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER | more)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


@contextmanager
def outside_pid_namespace(first: int) -> Iterator[None]:
    """Start processes in our own pid namespace, not that of `first`. Raises OSError without root."""
    ours, theirs = (os.open(f"/proc/{who}/ns/pid", os.O_RDONLY | os.O_CLOEXEC) for who in ("self", first))
    try:
        _call("setns", ours, CLONE_NEWPID)
        yield
        _call("setns", theirs, CLONE_NEWPID)
    finally:
        os.close(ours)
        os.close(theirs)


def unshare_mounts() -> None:
    """Unshare the mount namespace."""
    _call("unshare", CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def name_account(copy: str, uid: int, gid: int, name: str, home: str, shell: str) -> None:
    """After `unshare_mounts`, add an unnamed uid to /etc/passwd, as ssh, git and bash need. copy: its path."""
    try:
        pwd.getpwuid(uid)
        return
    except KeyError:
        pass
    with open("/etc/passwd", "rb") as file:
        known = file.read()
    with open(copy, "wb") as file:
        file.write(known.rstrip(b"\n") + f"\n{name}:x:{uid}:{gid}::{home}:{shell}\n".encode())
        os.fchmod(file.fileno(), 0o644)
    mount(copy, "/etc/passwd", None, MS_BIND)


def cover_file(path: str, by: str) -> None:
    """After `unshare_mounts`, show a file in place of another, where there is one."""
    if os.path.isfile(path):
        mount(by, path, None, MS_BIND)


def give_own_places(tmp: int, shm_mib: int, uid: int | None) -> None:
    """After `unshare_mounts`, before `hide_paths`, cover /tmp, /dev and /dev/shm; closes `tmp`, the new /tmp.

    shm_mib: size of the new /dev/shm, 0 to keep the machine's. uid: the job's, None for our own.
    """
    _cover_devices(shm_mib, uid)
    mount(f"/proc/self/fd/{tmp}", "/tmp", None, MS_BIND)
    on_top = os.open("/tmp", os.O_PATH | os.O_CLOEXEC)
    set_flags(on_top, read_only=False)
    os.close(on_top)
    os.close(tmp)


def _cover_devices(shm_mib: int, uid: int | None) -> None:
    devices = os.open("/dev", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mount("tmpfs", "/dev", "tmpfs", *DEVICES)
    fill_devices(f"/proc/self/fd/{devices}", "/dev", shm_mib, uid)
    os.close(devices)


def fill_devices(old: str, new: str, shm_mib: int, uid: int | None) -> None:
    """Give a new tmpfs the machine's harmless devices, and make it read-only. old: the machine's /dev."""
    for name in sorted(os.listdir(old)):
        there, here = f"{old}/{name}", f"{new}/{name}"
        mode = os.lstat(there).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(there), here)
        elif stat.S_ISDIR(mode) and name.startswith(DEVICE_FOLDERS):
            os.mkdir(here)
            mount(there, here, None, MS_BIND | MS_REC)
        elif stat.S_ISCHR(mode) and name not in DEVICES_KEPT_BACK and _may_use(there, mode, uid):
            os.close(os.open(here, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            mount(there, here, None, MS_BIND)
    os.mkdir(f"{new}/shm")
    if shm_mib:
        mount("tmpfs", f"{new}/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"size={shm_mib}m,mode=1777")
    else:
        mount(f"{old}/shm", f"{new}/shm", None, MS_BIND)
    mount("tmpfs", new, None, MS_REMOUNT | MS_RDONLY | DEVICES[0], DEVICES[1])


def _may_use(path: str, mode: int, uid: int | None) -> bool:
    """Return whether a job may use a device: one with an account of its own is in no group."""
    return os.access(path, os.R_OK | os.W_OK) if uid is None else mode & 0o006 == 0o006


def hide_paths(paths: list[str], binds: list[tuple[int, str, str, bool]]) -> None:
    """After `unshare_mounts`, as init, hide paths and mount binds; closes descriptors.

    binds: (open directory; directory to create in a hidden path; existing path beneath it, or ""; read-only).
    """
    for path in paths:
        if any(f"{base}/".startswith(f"{path}/") for _, base, _, _ in binds):
            os.makedirs(path, mode=0o711, exist_ok=True)  # it was in the machine's /tmp
    for path in sorted(paths):
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0711")
        elif os.path.exists(path):
            mount("/dev/null", path, None, MS_BIND)
    for source, base, below, read_only in binds:
        os.makedirs(base, mode=0o711, exist_ok=True)
        _bind(source, base, below, read_only)
    for path in paths:
        if os.path.isdir(path) and os.path.ismount(path):
            mount("tmpfs", path, None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, "size=64k,mode=0711")
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def mount_memory(path: str, size: int) -> int:
    """After `hide_paths`, mount a closed tmpfs on a new folder of the task's own directory; return it, open."""
    os.mkdir(path, 0o700)
    mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, f"size={size},mode=0700")
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def seal_memory(path: str, size: int) -> None:
    """Make what `mount_memory` mounted read-only."""
    flags = MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    mount("tmpfs", path, None, flags, f"size={size},mode=0700")


def bind_file(source: int, target: str, read_only: bool) -> None:
    """After `hide_paths`, mount an open file over another."""
    mount(f"/proc/self/fd/{source}", target, None, MS_BIND)
    on_top = os.open(target, os.O_PATH | os.O_CLOEXEC)
    set_flags(on_top, read_only)
    os.close(on_top)


def _bind(source: int, base: str, below: str, read_only: bool) -> None:
    under = _open(base, below)
    mount(f"/proc/self/fd/{source}", f"/proc/self/fd/{under}", None, MS_BIND)
    on_top = _open(base, below)
    set_flags(on_top, read_only)
    for fd in (source, under, on_top):
        os.close(fd)


def set_flags(mounted: int, read_only: bool) -> None:
    """Take devices and set-user-ID from an open bind mount, and writing if it is read-only."""
    flags = MS_NOSUID | MS_NODEV | (MS_RDONLY if read_only else 0) | _kept_flags(mounted)
    mount(None, f"/proc/self/fd/{mounted}", None, MS_REMOUNT | MS_BIND | flags)


def _open(base: str, below: str) -> int:
    root = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(root, below, os.O_PATH | os.O_DIRECTORY)
    finally:
        os.close(root)


def _kept_flags(fd: int) -> int:
    """Return flags that a user namespace may not clear. Source: mount(2), statvfs(3)."""
    now = os.fstatvfs(fd).f_flag
    kept = now & (MS_RDONLY | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME)
    return kept | (MS_RELATIME if now & ST_RELATIME else 0)


def pivot_into(root: int) -> None:
    """After `unshare_mounts`, make an open mount the root, and leave all others behind."""
    os.fchdir(root)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", MNT_DETACH)  # the old root, which lies upon the new one
    os.chdir("/")


def forbid_imports() -> None:
    """Load no more code: what a task brings could be found in place of ours. For a process that ends as the task."""
    sys.meta_path.clear()
    sys.path_hooks.clear()
    sys.path.clear()


def enter_namespaces(namespace: int, owner: int | None = None) -> None:
    """Enter /proc/PID/ns/mnt, of which no code is loaded. owner: its user namespace, without root."""
    forbid_imports()
    if owner is not None and os.geteuid() != 0:
        _call("setns", owner, CLONE_NEWUSER)
    _call("setns", namespace, CLONE_NEWNS)


def drop_privileges(uid: int | None, gid: int | None) -> None:
    """Drop all rights for good. None keeps the platform's account."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if uid is not None and gid is not None:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def become_account(uid: int, gid: int) -> None:
    """Become another account for good, and stay open to it: another process of it may enter our namespaces."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    _call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)


def probe_namespaces(scratch: str, run_dir: str, uid: str) -> None:
    """Enter namespaces as a job would, in a process of its own; exit 0 if all works. uid: "" for the platform's."""
    open_namespaces()
    child = os.fork()
    if child == 0:
        try:
            seen_at = os.path.join(run_dir, "task")
            unshare_mounts()
            own = os.open(scratch, os.O_PATH | os.O_DIRECTORY)
            give_own_places(os.dup(own), 1, int(uid) if uid else None)
            hide_paths([os.path.dirname(scratch), run_dir], [(own, seen_at, "", False)])
            drop_privileges(int(uid) if uid else None, int(uid) if uid else None)
            os.chdir(seen_at)
            with open("written", "w") as file:
                file.write("x")
            hidden = not os.path.exists(scratch)
            processes = [name for name in os.listdir("/proc") if name.isdigit()]
            os._exit(0 if hidden and processes == ["1"] else 1)
        except BaseException:
            os._exit(1)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Call mount(2). Raises OSError."""
    as_bytes = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _call("mount", as_bytes[0], as_bytes[1], as_bytes[2], ctypes.c_ulong(flags), as_bytes[3], about=target)


def _call(name: str, *args, about: str = "") -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", about or None)
