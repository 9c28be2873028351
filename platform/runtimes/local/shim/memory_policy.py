"""From which NUMA node the memory of this process and its children comes first.

By set_mempolicy(2), which glibc does not have. It is kept over fork and exec.
"""

import ctypes
import platform

MPOL_PREFERRED = 1
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
"""From the kernel's tables of system calls."""
BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
MOST_NODES = 1024

_libc = ctypes.CDLL(None, use_errno=True)


def prefer_memory_of(numa: int) -> bool:
    """Take memory from this NUMA node while it has some. Return whether the kernel does so.

    False also where a sandbox forbids the call; memory then comes from where each thread runs, which is near as well.
    """
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None or numa >= MOST_NODES:
        return False
    mask = (ctypes.c_ulong * (MOST_NODES // BITS))()
    mask[numa // BITS] = 1 << numa % BITS
    most = MOST_NODES + 1  # the kernel counts one bit less
    return _libc.syscall(*map(ctypes.c_long, (number, MPOL_PREFERRED)), mask, ctypes.c_ulong(most)) == 0
