"""Run a program that refuses root (PostgreSQL), as root: ``python unprivileged.py WAY PROGRAM ARGUMENT...``.

WAY namespace: a user namespace in which our uid is 65534; files on disk stay root's. WAY nobody: where user namespaces
are forbidden (root in most containers), become ``nobody`` with the capability to pass closed directories.

Exit code 97: not possible here. Standard library only: it runs with ``-I -S``.
"""

import ctypes
import os
import signal
import sys

NOT_POSSIBLE = 97
NOBODY = 65534
CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 8, 28, 47, 2
SECBIT_NO_SETUID_FIXUP = 1 << 2
CAP_DAC_OVERRIDE = 1
LINUX_CAPABILITY_VERSION_3 = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def main(way: str, *command: str) -> None:
    {"namespace": enter_namespace, "nobody": become_nobody}[way]()
    die_with_parent()
    os.execv(command[0], command)


def enter_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER):
        sys.exit(NOT_POSSIBLE)
    try:
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{NOBODY} {uid} 1")
        write("/proc/self/gid_map", f"{NOBODY} {gid} 1")
    except OSError:
        sys.exit(NOT_POSSIBLE)


def become_nobody() -> None:
    """Become nobody. The order matters (capabilities(7))."""
    libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)  # else access(2) ignores capabilities
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:
        sys.exit(NOT_POSSIBLE)
    mask = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)  # effective, permitted, inheritable; upper halves
    if libc.capset(header, sets) == 0:  # else it works only where nobody may pass
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)


def die_with_parent() -> None:
    """Ask for the parent-death signal again, lost with the credentials."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
