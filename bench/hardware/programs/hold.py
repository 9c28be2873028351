"""Take as much of the card as there is to the MiB, say how much, and hold it until killed: hold.py [once]"""

import ctypes
import json
import sys
import time

cuda = ctypes.CDLL("libcuda.so.1")
card, context = ctypes.c_int(), ctypes.c_void_p()
free, total, place = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
began = time.monotonic()
answers = [
    cuda.cuInit(0),
    cuda.cuDeviceGet(ctypes.byref(card), 0),
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), card),
    cuda.cuCtxSetCurrent(context),
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
]
step, held = 1 << 30, 0
while not any(answers) and step >= 1 << 20:
    if cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(step)) == 0:
        held += step
    else:
        step >>= 1
said = {"answers": answers, "total": total.value, "free": free.value, "held": held, "s": time.monotonic() - began}
print(json.dumps(said), flush=True)
while len(sys.argv) < 2 and not any(answers):
    time.sleep(1)
