"""Whether cuGetProcAddress of the driver that programs find answers what the real driver's does, for each name of it.

lookups.py SHIM REAL NAMES: two libraries and a file of names. Where a slice's library answers with a hook of its own,
the two differ: these are told by name.
"""

import ctypes
import json
import sys
from pathlib import Path

shim, real = (ctypes.CDLL(path) for path in sys.argv[1:3])
names = Path(sys.argv[3]).read_text().split()
version = ctypes.c_int()
shim.cuInit(0)
shim.cuDriverGetVersion(ctypes.byref(version))


def ask(library: ctypes.CDLL, name: str) -> tuple[int, int]:
    """(what it answers, the function's address)"""
    found = ctypes.c_void_p()
    answer = library.cuGetProcAddress(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(0))
    return answer, found.value or 0


same, hooked, wrong = 0, [], []
for name in names:
    (ours, our_place), (theirs, their_place) = ask(shim, name), ask(real, name)
    if ours != theirs or (our_place == 0) != (their_place == 0):
        wrong.append(name)
    elif our_place == their_place:
        same += 1
    else:
        hooked.append(name)
print(json.dumps({"driver": version.value, "same": same, "hooked": hooked, "wrong": wrong}))
