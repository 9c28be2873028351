"""bin/check-gpu's own checks on doubles of the driver and of NVML: what passes, what is found out, what is left out."""

import shutil
import time

import pytest
from agent_slice import NO_COMPILER

from bench.hardware import checks
from bench.hardware.__main__ import BAD, GOOD, LEFT_OUT, run
from bench.hardware.lab import Lab
from runtimes import slice_library
from runtimes.local import inventory
from tests.runtimes.local.doubled_driver import build_doubled_driver, list_doubled_gpus
from tests.runtimes.local.test_slices import use_nvml

BY_NAME = {check.name: check for check in checks.CHECKS}


@pytest.fixture(scope="module")
def doubled():
    if not slice_library.can_build():
        pytest.skip(NO_COMPILER)
    doubled = build_doubled_driver()
    yield doubled
    shutil.rmtree(doubled.root)


@pytest.fixture
def lab(doubled, monkeypatch, tmp_path):
    monkeypatch.setattr(inventory, "list_gpus", list_doubled_gpus)
    monkeypatch.setattr(inventory, "list_pcie", lambda: (("X",),))
    use_nvml(monkeypatch, tmp_path, "calm_nvml.py.txt")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(doubled.driver))
    monkeypatch.setattr(checks, "_used_mib", lambda lab: {})
    root = doubled.root / f"lab-{time.monotonic_ns()}"
    root.mkdir(mode=0o755)
    lab = Lab(root, doubled.library, wheels=None, ends_at=time.monotonic() + 60)
    yield lab
    lab.close()


@pytest.mark.parametrize("name", ["mode", "lookups", "contexts", "kill"])
def test_a_slice_that_holds_passes(lab, name):
    line = run(BY_NAME[name], lab)
    assert line.result == GOOD, line.words


def test_a_slice_that_limits_nothing_is_found_out(lab):
    lab.start = lambda *argv, start=lab.start, **how: start(*argv, **{"mib": 2 * lab.half_mib} | how)
    line = run(BY_NAME["contexts"], lab)
    assert line.result == BAD and "asked for 32510 MiB" in line.words


def test_what_there_is_no_time_for_is_told(lab):
    lab.ends_at = time.monotonic() - 1
    assert run(BY_NAME["mode"], lab).result == LEFT_OUT
