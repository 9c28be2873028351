import pytest

from tests.runtimes.contract.suite import RuntimeContract
from tests.runtimes.kubernetes.world import KubernetesWorld


@pytest.mark.kubernetes
class TestKubernetesRuntime(RuntimeContract):
    """On a real API server and a real kubelet."""

    @pytest.fixture(scope="class")
    def world(self, kubeconfig):
        world = KubernetesWorld(kubeconfig)
        yield world
        world.close()
