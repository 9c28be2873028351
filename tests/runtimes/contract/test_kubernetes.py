import pytest

from tests.runtimes.contract.access_suite import AccessContract
from tests.runtimes.contract.suite import RuntimeContract
from tests.runtimes.kubernetes.world import KubernetesWorld

BESIDE_OTHERS = True


@pytest.fixture(scope="module")
def world(kubeconfig):
    world = KubernetesWorld(kubeconfig)
    if not world.has_kubelet:
        pytest.skip("NO KUBELET: only fake nodes are there.")
    yield world
    world.close()


@pytest.mark.kubernetes
class TestKubernetesRuntime(RuntimeContract):
    """On a real API server and a real kubelet."""


@pytest.mark.kubernetes
class TestKubernetesAccess(AccessContract):
    """Through the API server, as from outside the cluster."""
