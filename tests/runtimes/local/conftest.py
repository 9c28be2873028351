"""Machines for the local runtime's tests: as this kernel allows, and as kernels that allow less."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from agent_slice import NO_COMPILER

from runtimes import slice_library
from runtimes.local import inventory, plan
from runtimes.local.limits import WATCHDOG
from runtimes.local.probe import OWN_UID, SHARED, Isolation, MemoryControl
from tests.runtimes.local.doubled_driver import build_doubled_driver, list_doubled_gpus
from tests.runtimes.worlds import LocalWorld

WAYS = {
    "all": {},
    "nothing": {"isolation": Isolation(SHARED, False, False), "memory": MemoryControl(WATCHDOG)},
}
if os.geteuid() == 0:
    WAYS["no-namespaces"] = {"isolation": Isolation(OWN_UID, True, False)}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def world(request):
    world = LocalWorld(**request.param)
    yield world
    world.close()


@pytest.fixture
def plain():
    world = LocalWorld()
    yield world
    world.close()


@pytest.fixture(scope="session")
def doubled():
    """A doubled driver, and our own library before it."""
    if not slice_library.can_build():
        pytest.skip(NO_COMPILER)
    doubled = build_doubled_driver()
    yield doubled
    shutil.rmtree(doubled.root)


@pytest.fixture
def make_world(doubled, monkeypatch, tmp_path):
    """A machine with a doubled card, on which our own library keeps slices."""
    worlds = []

    def make(**options) -> LocalWorld:
        monkeypatch.setattr(inventory, "list_gpus", list_doubled_gpus)
        monkeypatch.setattr(inventory, "list_pcie", lambda: (("X",),))
        use_nvml(monkeypatch, tmp_path, "calm_nvml.py.txt")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(doubled.driver))  # of the platform: where its loader finds the driver
        worlds.append(LocalWorld(**{"slice_library": str(doubled.library)} | options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def use_nvml(monkeypatch, tmp_path, name: str) -> None:
    """Of those who watch: a module of this directory stands where pynvml stands."""
    shutil.copy(Path(__file__).parent / name, tmp_path / "pynvml.py")
    monkeypatch.setattr(plan, "pynvml", SimpleNamespace(__file__=str(tmp_path / "pynvml.py")))
