"""Where the driver's libraries lie: the ones that a program gets, and every other copy."""

import shutil
import sys
from pathlib import Path

import pytest

from runtimes.local.slices import driver
from runtimes.local.slices.driver import find_driver


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes files of a driver under a root of its own; the loader's cache knows none."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(driver, "_cached_folders", lambda: iter(()))

    def make(folder: str, *names: str, native: bool = True) -> Path:
        path = tmp_path / folder
        path.mkdir(parents=True, exist_ok=True)
        head = bytearray(Path(sys.executable).read_bytes()[:64])
        if not native:
            head[4] = 1  # 32 bits
        for name in names:
            (path / name).write_bytes(head)
        return path

    make.root = str(tmp_path)  # type: ignore[attr-defined]
    return make


def test_links_lead_to_the_file_behind_them_once(machine):
    folder = machine("usr/lib64", "libcuda.so.580.95.05", "libnvidia-ml.so.580.95.05", "libcudart.so.12")
    for name, behind in (("libcuda.so.1", "libcuda.so.580.95.05"), ("libcuda.so", "libcuda.so.1")):
        (folder / name).symlink_to(behind)
    found = find_driver(machine.root)
    assert found.real == {
        "libcuda.so.1": str(folder / "libcuda.so.580.95.05"),
        "libnvidia-ml.so.1": str(folder / "libnvidia-ml.so.580.95.05"),
    }
    assert sorted(name for _, name in found.copies) == ["libcuda.so.1", "libnvidia-ml.so.1"]


def test_every_copy_is_covered_and_the_first_that_runs_here_is_real(machine):
    machine("usr/lib/i386-linux-gnu", "libcuda.so.1", native=False)
    machine("usr/lib/x86_64-linux-gnu", "libnvidia-ml.so.1")
    usual, compat = machine("usr/lib64", "libcuda.so.1"), machine("usr/local/cuda-12.9/compat", "libcuda.so.1")
    found = find_driver(machine.root)
    assert found.real["libcuda.so.1"] == str(usual / "libcuda.so.1")
    assert {Path(path).parent.name for path, name in found.copies if name == "libcuda.so.1"} == {
        "i386-linux-gnu",
        "lib64",
        compat.name,
    }


def test_the_platforms_own_path_goes_first(machine, monkeypatch):
    machine("usr/lib64", "libcuda.so.1", "libnvidia-ml.so.1")
    own = machine("opt/driver", "libcuda.so.1", "libnvidia-ml.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{own}")
    assert set(find_driver(machine.root).real.values()) == {str(own / name) for name in driver.SHIMS}


def test_half_a_driver_is_none(machine):
    folder = machine("usr/lib64", "libcuda.so.1", "libnvidia-ml.so.1")
    (folder / "libnvidia-ml.so.1").unlink()
    assert find_driver(machine.root) is None
    shutil.rmtree(folder)
    assert find_driver(machine.root) is None
