"""bin/check-gpu's own checks on doubles of the driver and of NVML: what passes, what is found out, what is left out."""

import time

import pytest

from bench.hardware import checks
from bench.hardware.__main__ import BAD, GOOD, LEFT_OUT, run
from bench.hardware.lab import Lab
from tests.runtimes.local.doubled_driver import doubled_driver, have_doubled_card

BY_NAME = {check.name: check for check in checks.CHECKS}


@pytest.fixture(scope="module")
def doubled():
    with doubled_driver() as doubled:
        yield doubled


@pytest.fixture
def lab(doubled, monkeypatch, tmp_path):
    have_doubled_card(doubled, monkeypatch, tmp_path)
    monkeypatch.setattr(checks, "_used_mib", lambda lab: {})
    root = doubled.root / f"lab-{time.monotonic_ns()}"
    root.mkdir(mode=0o755)
    lab = Lab(root, doubled.library, wheels=None, ends_at=time.monotonic() + 60)
    yield lab
    lab.close()


@pytest.mark.parametrize("name", ["mode", "lookups", "contexts", "kill", "resize"])
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
