"""The local runtime with every task in an image: all that it keeps for programs of the machine, it keeps there."""

import pytest

from tests.runtimes.contract.access_suite import AccessContract
from tests.runtimes.contract.numbers_suite import NumbersContract
from tests.runtimes.contract.secrets_suite import SecretsContract
from tests.runtimes.contract.suite import RuntimeContract
from tests.runtimes.local.image_world import image_world as world

pytestmark = pytest.mark.slow
__all__ = ["world"]


class TestImages(RuntimeContract, SecretsContract, NumbersContract):
    """Start, stop, checkpoints, time limits, secrets, numbers."""


class TestAccessToImages(AccessContract):
    """Programs inside, terminals, ports."""
