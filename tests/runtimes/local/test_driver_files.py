"""The driver's files for images, by tables: what CDI says, and what the linker's cache lists."""

import json

import pytest

from runtimes.local.images.driver_files import list_cached, list_specified, read_specifications
from runtimes.slice_library import SHIMS

CACHE = """\
3 libs found in cache `/etc/ld.so.cache'
\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1
\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1
\tlibnvidia-ptxjitcompiler.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.1
\tlibnvidia-glcore.so.550.54.15 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-glcore.so.550.54.15
\tlibcudart.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.12
\tlibc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6
"""
LIB = "/usr/local/nvidia/lib64"


def test_of_the_linkers_cache_come_the_drivers_libraries_once():
    assert list(list_cached(CACHE, ())) == [
        ("/lib/x86_64-linux-gnu/libcuda.so.1", f"{LIB}/libcuda.so.1"),
        ("/lib/x86_64-linux-gnu/libnvidia-ml.so.1", f"{LIB}/libnvidia-ml.so.1"),
        ("/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.1", f"{LIB}/libnvidia-ptxjitcompiler.so.1"),
    ]


def test_a_slice_leaves_out_those_that_our_library_stands_in_for():
    assert [target for _, target in list_cached(CACHE, SHIMS)] == [f"{LIB}/libnvidia-ptxjitcompiler.so.1"]


def edits(*paths: str) -> dict:
    return {"mounts": [{"hostPath": path, "containerPath": path} for path in paths]}


SPECIFIED = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "containerEdits": edits(
        "/usr/lib64/libcuda.so.550.54.15", "/usr/bin/nvidia-smi", "/run/nvidia-persistenced/socket"
    ),
    "devices": [{"name": "0", "containerEdits": edits("/usr/lib64/libnvidia-ml.so.550.54.15")}],
}


def test_of_cdi_come_libraries_and_programs():
    assert list(
        list_specified([SPECIFIED, {"kind": "other.org/gpu", "containerEdits": edits("/x/libcuda.so.1")}], ())
    ) == [
        ("/usr/lib64/libcuda.so.550.54.15", f"{LIB}/libcuda.so.550.54.15"),
        ("/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"),
        ("/usr/lib64/libnvidia-ml.so.550.54.15", f"{LIB}/libnvidia-ml.so.550.54.15"),
    ]
    assert [path for path, _ in list_specified([SPECIFIED], SHIMS)] == ["/usr/bin/nvidia-smi"]


@pytest.mark.parametrize("name", ["nvidia.yaml", "nvidia.json"])
def test_a_specification_is_read_and_a_broken_one_skipped(tmp_path, name):
    (tmp_path / name).write_text(json.dumps(SPECIFIED))
    (tmp_path / "broken.yaml").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    assert list(read_specifications([str(tmp_path), str(tmp_path / "none")])) == [SPECIFIED]
