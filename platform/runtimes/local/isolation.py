"""How a job is kept apart from the platform and from other jobs, with what the kernel allows us here.

`probe.py` tries it out once; the shim applies it. Used by the shim, so it imports little.
Namespaces: the job sees its own processes only, and finds the platform's directories empty but for its own scratch.
"""

import ctypes
import os
import resource
import signal

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Whoever loses its parent below us becomes our child: nobody leaves the tree by a double fork."""
    _call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def open_namespaces() -> None:
    """Our next child is the first process of a pid namespace; without root in a user namespace of our own account."""
    if os.geteuid() == 0:
        _call("unshare", CLONE_NEWPID)
        return
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER | CLONE_NEWPID)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def hide(paths: list[str], scratch: str, seen_at: str) -> None:
    """Called by the first process of the namespace: a private view of the file system.

    paths: directories (or files) that read as empty from now on. scratch: the task's own directory, which appears at
    seen_at, inside one of the paths.
    """
    _call("unshare", CLONE_NEWNS)
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    own = os.open(scratch, os.O_PATH | os.O_DIRECTORY)
    for path in sorted(paths):
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0711")
        elif os.path.exists(path):
            _mount("/dev/null", path, None, MS_BIND)
    os.makedirs(seen_at, mode=0o711, exist_ok=True)
    _mount(f"/proc/self/fd/{own}", seen_at, None, MS_BIND)
    os.close(own)
    for path in paths:
        if os.path.isdir(path) and os.path.ismount(path):
            _mount("tmpfs", path, None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, "size=64k,mode=0711")
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def enter_view(namespace: int) -> None:
    """See the file system as those in this mount namespace do. namespace: a descriptor of /proc/PID/ns/mnt."""
    _call("setns", namespace, CLONE_NEWNS)


def drop_to(uid: int | None, gid: int | None) -> None:
    """Give up every right for good. None keeps the platform's account (an ordinary user's)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if uid is not None and gid is not None:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    as_bytes = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _call("mount", as_bytes[0], as_bytes[1], as_bytes[2], ctypes.c_ulong(flags), as_bytes[3], about=target)


def _call(name: str, *args, about: str = "") -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", about or None)
