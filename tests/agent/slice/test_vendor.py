"""Against NVIDIA's own files, downloaded for the test and never kept: its header, a runtime, a driver."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.agent_slice import CARDS, LIMIT, SOURCES, must, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HEADER = "nvidia-cuda-runtime-cu12==12.9.79"
RUNTIME = "torchvision==0.11.3"  # its wheel carries libcudart 10.2
RUNTIME_FOR = ["--python-version", "3.9", "--platform", "manylinux1_x86_64"]


def downloaded(where: Path, requirement: str, *more: str) -> Path:
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary=:all:",
        "-d",
        where,
        *more,
        requirement,
    ]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=200)
    wheels = list(where.glob("*.whl"))
    if done.returncode or not wheels:
        pytest.skip(f"NO {requirement}: it could not be downloaded; the slice library was not compared with it.")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(where)
    return where


def test_the_interface_is_the_one_in_the_header(built, tmp_path):
    """Every hooked function again, declared as the genuine header declares it: sizes, offsets, values, arguments."""
    header = next(downloaded(tmp_path, HEADER).rglob("cuda.h"))
    ours = (SOURCES / "src" / "driver.h").read_text()
    genuine = run(["gcc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", f"-I{header.parent}", header]).stdout
    checked = 0
    for line in re.findall(r"^CUresult (\w+)\(([^;]*)\);", ours, re.M):
        name, arguments = line
        found = re.search(rf"^CUresult (?:__stdcall )?{name}\(([^;]*)\);", genuine, re.M)
        if not found:
            continue
        checked += 1
        assert len(split(found[1])) == len(split(arguments)), name
        for mine, theirs in zip(split(arguments), split(found[1]), strict=True):
            assert ("*" in mine) == ("*" in theirs), f"{name}: {mine} | {theirs}"
    assert checked > 60
    layout(tmp_path, header, ours)


def split(arguments: str) -> list[str]:
    return [] if arguments.strip() == "void" else [part.strip() for part in arguments.split(",")]


FIELDS = {
    "CUmemAllocationProp": ["location"], "CUmemPoolProps": ["location", "maxSize"], "CUmemPoolPtrExportData": [],
    "CUipcMemHandle": [], "CUDA_MEM_ALLOC_NODE_PARAMS": ["poolProps", "bytesize", "dptr"],
    "CUDA_ARRAY_DESCRIPTOR": ["Height", "Format", "NumChannels"], "CUuuid": [], "CUmemLocation": ["id"],
    "CUDA_ARRAY3D_DESCRIPTOR": ["Height", "Depth", "Format", "NumChannels", "Flags"], "CUgraphNodeParams": ["type"],
    "CUDA_ARRAY_MEMORY_REQUIREMENTS": ["size"], "CUdeviceptr": [], "CUmemGenericAllocationHandle": [],
}  # fmt: skip
INSIDE = {"CUgraphNodeParams": [("of.alloc.bytesize", "alloc.bytesize"), ("of.alloc.dptr", "alloc.dptr")]}


def layout(tmp_path: Path, header: Path, ours: str) -> None:
    """The same program twice, with our header and with the genuine one: it prints sizes, offsets and values."""
    values = re.findall(r"^    (CU_\w+|CUDA_ERROR_\w+) = ", ours, re.M)
    assert len(values) > 10
    printed = []
    for number, include in enumerate((SOURCES / "src" / "driver.h", header)):
        lines = [f'#include "{include}"', "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
        for kind, fields in FIELDS.items():
            lines.append(f'printf("{kind} %zu\\n", sizeof({kind}));')
            lines += [f'printf("{field} %zu\\n", offsetof({kind}, {field}));' for field in fields]
            lines += [f'printf("%zu\\n", offsetof({kind}, {pair[number]}));' for pair in INSIDE.get(kind, [])]
        lines += [f'printf("{value} %d\\n", (int){value});' for value in values]
        source = tmp_path / f"layout{number}.c"
        source.write_text("\n".join([*lines, "return 0; }"]))
        done = run(["gcc", "-std=c11", f"-I{header.parent}", source, "-o", tmp_path / f"layout{number}"])
        assert done.returncode == 0, done.stderr
        printed.append(run([tmp_path / f"layout{number}"]).stdout)
    assert printed[0] == printed[1]


RUN = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
free, total, version = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
one, two = ctypes.c_void_p(), ctypes.c_void_p()
print(runtime.cudaRuntimeGetVersion(ctypes.byref(version)), version.value)
print(runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)), free.value, total.value)
print(runtime.cudaMalloc(ctypes.byref(one), ctypes.c_size_t(total.value)))
print(runtime.cudaMalloc(ctypes.byref(two), ctypes.c_size_t(1)))
print(runtime.cudaFree(one))
print(runtime.cudaMalloc(ctypes.byref(two), ctypes.c_size_t(1)))
"""


def test_a_genuine_runtime_sees_the_slice(a_slice, tmp_path):
    runtime = next(downloaded(tmp_path, RUNTIME, *RUNTIME_FOR).rglob("libcudart*.so*"))
    done = run([sys.executable, "-c", RUN, runtime], env=a_slice.environment())
    assert done.stdout.splitlines() == ["0 10020", f"0 {LIMIT} {LIMIT}", "0", "2", "0", "0"], done.stderr


LOOK_UP = """
import ctypes, re, sys
shim, real = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(sys.argv[1])
names = open(sys.argv[2] + "/names/libcuda.txt").read().split()
hooks = dict(re.findall(r'^HOOK\\((\\w+), "(\\w+)"', open(sys.argv[2] + "/src/hooks.h").read(), re.M))

def address(library, name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value

def ask(library, name, version, flags):
    found = ctypes.c_void_p()
    result = library.cuGetProcAddress(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(flags))
    return result, found.value

ours = {address(shim, name): name for name in hooks}
same = hooked = 0
for name in sorted({re.sub(r"(_v\\d+)?(_pt[sd]z)?$", "", name) for name in names}):
    for version, flags in [(v, f) for v in (2000, 5000, 11030, 12000, 12020) for f in (0, 2)]:
        (result, mine), (expected, theirs) = ask(shim, name, version, flags), ask(real, name, version, flags)
        assert result == expected, (name, version, flags)
        if mine == theirs:
            assert not theirs or name not in hooks.values(), (name, version, flags)
            same += theirs is not None
        else:
            assert hooks[ours[mine]] == name and address(real, ours[mine]) == theirs, (name, version, flags)
            hooked += 1
print(same, hooked)
"""


def test_lookups_in_a_genuine_driver(built, tmp_path):
    """Every name, five versions, both kinds of stream: the driver's own answer, or our hook for that function."""
    genuine = os.environ.get("TESSERA_GENUINE_LIBCUDA", "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
    if not Path(genuine).exists():
        pytest.skip("NO GENUINE libcuda.so.1 (TESSERA_GENUINE_LIBCUDA): lookups were not compared with a real driver.")
    (tmp_path / "driver").mkdir()
    shutil.copy(genuine, tmp_path / "driver" / "libcuda.so.1")
    must([
        "make", "-s", "-C", SOURCES, f"BUILD={tmp_path}/build", f"DRIVER_DIR={tmp_path}/driver",
        f"{tmp_path}/build/libcuda.so.1",
    ])  # fmt: skip
    must([built.slicectl, "create", tmp_path / "build" / "slice", f"{CARDS[0]}=64MiB"])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "build")}
    done = must([sys.executable, "-c", LOOK_UP, tmp_path / "driver" / "libcuda.so.1", SOURCES], env=environment)
    same, hooked = map(int, done.split())
    print(f"{same} answers untouched, {hooked} ours")
    assert same > 1000 and hooked > 200
