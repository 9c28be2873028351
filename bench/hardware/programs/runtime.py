"""What a CUDA runtime sees of its first card, and where it is refused: runtime.py PATH-OF-libcudart"""

import ctypes
import json
import sys

runtime = ctypes.CDLL(sys.argv[1])
free, total, half, more = (ctypes.c_size_t() for _ in range(4))
answers = {"info": runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))}
if answers["info"] == 0:
    answers["half"] = runtime.cudaMalloc(ctypes.byref(half), ctypes.c_size_t(total.value // 2))
    answers["more"] = runtime.cudaMalloc(ctypes.byref(more), ctypes.c_size_t(total.value // 2 + (1 << 20)))
print(json.dumps({"total": total.value, "refused": answers.get("more") == 2, "answers": answers}))
