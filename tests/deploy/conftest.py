from pathlib import Path

import pytest

from tests.local_cluster import Kubectl, local_place, run_cluster


@pytest.fixture(scope="module")
def own_cluster(kubeconfig) -> Path:
    """The kubeconfig of bin/cluster's cluster, with a fake node or more; another one has no such node or registry."""
    if kubeconfig != local_place().kubeconfig:
        pytest.skip("KUBECONFIG names another cluster than bin/cluster's")
    if not Kubectl(kubeconfig, "default")("get", "nodes", "-l", "type=kwok", "-o", "name"):
        run_cluster("up", "--kwok", "1")
    return kubeconfig
