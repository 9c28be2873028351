import os

import pytest

from runtimes.local.node.isolation_probe import OWN_UID, SHARED, Isolation, MemoryControl
from runtimes.local.shim.cgroups import WATCHDOG
from tests.runtimes.contract.numbers_suite import NumbersContract
from tests.runtimes.contract.secrets_suite import SecretsContract
from tests.runtimes.contract.suite import RuntimeContract
from tests.runtimes.local.network_world import make_network_world
from tests.runtimes.worlds import LocalWorld


class TestLocalRuntime(RuntimeContract, SecretsContract, NumbersContract):
    """With all that this machine's kernel allows us."""

    @pytest.fixture
    def world(self):
        world = make_network_world()
        yield world
        world.close()


class TestLocalRuntimeWithNothing(RuntimeContract, SecretsContract, NumbersContract):
    """Where the kernel allows nothing: one account, no namespaces, no control groups."""

    @pytest.fixture
    def world(self):
        world = LocalWorld(isolation=Isolation(SHARED, False, False), memory=MemoryControl(WATCHDOG))
        yield world
        world.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
class TestLocalRuntimeWithoutNamespaces(RuntimeContract, SecretsContract, NumbersContract):
    """Root in a container that may not make namespaces."""

    @pytest.fixture
    def world(self):
        world = LocalWorld(isolation=Isolation(OWN_UID, True, False))
        yield world
        world.close()
