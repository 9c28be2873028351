#!/usr/bin/env python3
"""Run a Chromium that never hears of the machine's network: it drops what it loads whenever an interface comes.

Tests beside it make interfaces all the time. Without netlink (a filter of seccomp, as the kernel's
`Documentation/userspace-api/seccomp_filter.rst` has it) Chromium takes its network for one that never changes.
Playwright runs this file in the browser's place, with its arguments.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from contextlib import suppress

SOCKET = {"x86_64": 41, "aarch64": 198}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
BROWSER = "TESSERA_CHROMIUM_PATH"
LOAD, EQUAL, ANSWER = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
NUMBER, FIRST_ARGUMENT = 0, 16  # where `struct seccomp_data` has them
AF_NETLINK = 16
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EAFNOSUPPORT


def launch_chromium(playwright, path: str):
    """Return the browser at this path, driven by Playwright."""
    return playwright.chromium.launch(executable_path=__file__, args=ARGUMENTS, env={**os.environ, BROWSER: path})


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def forbid_netlink() -> None:
    """Let no process of this one open a netlink socket any more. Raises OSError."""
    steps = [
        (LOAD, 0, 0, NUMBER),
        (EQUAL, 0, 3, SOCKET[platform.machine()]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (EQUAL, 0, 1, AF_NETLINK),
        (ANSWER, 0, 0, REFUSE),
        (ANSWER, 0, 0, ALLOW),
    ]
    program = Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "This kernel has no seccomp.")


if __name__ == "__main__":
    if platform.machine() in SOCKET:
        with suppress(OSError):  # without seccomp it is as it always was
            forbid_netlink()
    os.execv(os.environ[BROWSER], sys.argv)
