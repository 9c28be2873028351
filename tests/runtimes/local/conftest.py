"""Machines for the local runtime's tests: as this kernel allows, and as kernels that allow less."""

import os

import pytest

from runtimes.local.limits import WATCHDOG
from runtimes.local.probe import OWN_UID, SHARED, Isolation, MemoryControl
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
