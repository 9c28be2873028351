import pytest

from tests.runtimes.contract.access_suite import AccessContract
from tests.runtimes.contract.secrets_suite import SecretsContract
from tests.runtimes.contract.suite import RuntimeContract
from tests.runtimes.kubernetes import world as on_cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("kubelet")]
BESIDE_OTHERS = True
world, kubelet = on_cluster.world, on_cluster.kubelet


class TestKubernetesRuntime(RuntimeContract):
    """On a real API server and a real kubelet."""


class TestKubernetesSecrets(SecretsContract):
    """As the kubelet mounts them."""


class TestKubernetesAccess(AccessContract):
    """Through the API server, as from outside the cluster."""
