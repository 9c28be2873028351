"""Machines for the local runtime's tests: as this kernel allows, and as kernels that allow less."""

import os
from typing import Any

import pytest

from runtimes.local.node.isolation_probe import OWN_UID, SHARED, Isolation, MemoryControl
from runtimes.local.shim.cgroups import WATCHDOG
from tests.runtimes.local.doubled_driver import doubled_driver, have_doubled_card
from tests.runtimes.worlds import LocalWorld

WAYS: dict[str, dict[str, Any]] = {
    "all": {},
    "nothing": {"isolation": Isolation(SHARED, False, False), "memory": MemoryControl(WATCHDOG)},
}
if os.geteuid() == 0:
    WAYS["no-namespaces"] = {"isolation": Isolation(OWN_UID, True, False)}
WAYS_SLOW_BUT_ONE = [
    pytest.param(way, id=name, marks=[] if name == "all" else [pytest.mark.slow]) for name, way in WAYS.items()
]
"""For what each way does by the same code."""


@pytest.fixture(params=WAYS.values(), ids=list(WAYS))
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
    with doubled_driver() as doubled:
        yield doubled


@pytest.fixture
def make_world(doubled, monkeypatch, tmp_path):
    """A machine with a doubled card, on which our own library keeps slices."""
    worlds = []

    def make(**options) -> LocalWorld:
        have_doubled_card(doubled, monkeypatch, tmp_path)
        worlds.append(LocalWorld(**{"slice_library": str(doubled.library)} | options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()
