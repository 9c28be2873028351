"""The same through CuPy, whose wheels carry the CUDA runtime linked statically."""

import json

import cupy

free, total = cupy.cuda.runtime.memGetInfo()
cupy.cuda.runtime.malloc(total // 2)
try:
    cupy.cuda.runtime.malloc(total // 2 + (1 << 20))
    refused = False
except cupy.cuda.runtime.CUDARuntimeError as error:
    refused = error.status == 2
print(json.dumps({"total": total, "refused": refused}))
