import pytest

from runtimes.contract.task import TaskSecret
from runtimes.log_masking import LogMask
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

    def test_a_log_that_no_agent_brought_is_masked_or_not_kept(self, world, tmp_path):
        runtime, secret = world.another_runtime(log_dir=tmp_path), TaskSecret("TOKEN", "c4nary-f00d-1234")
        known, unknown = (world.spec('echo "it is $TOKEN"', secrets=(secret,)) for _ in range(2))
        for spec in (known, unknown):
            runtime.start(spec)
            world.until(spec.uuid, "exited")
        runtime.forget(known.uuid, mask=LogMask([secret.value]))
        runtime.forget(unknown.uuid)
        assert runtime.logs.read(known.uuid, 0)[0] == b"it is ****************\n"
        assert runtime.logs.size(unknown.uuid) == 0


class TestKubernetesAccess(AccessContract):
    """Through the API server, as from outside the cluster."""
