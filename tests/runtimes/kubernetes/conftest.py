"""An installation of its own in the cluster, for the tests of a file."""

import pytest

from runtimes.kubernetes.pods import names
from tests.runtimes.kubernetes import world as on_cluster

world, kubelet = on_cluster.world, on_cluster.kubelet


@pytest.fixture
def elsewhere(world) -> str:
    """A namespace with our label that is none of ours, by its name; it goes with the world."""
    install = world.runtime.config.install
    meta = {"name": f"{install}-elsewhere", "labels": {names.LABEL_INSTALL: install}}
    world.api.call("POST", "/api/v1/namespaces", {"metadata": meta})
    account = {"metadata": {"name": "default"}}
    world.api.call("POST", f"/api/v1/namespaces/{meta['name']}/serviceaccounts", account, handles=("exists",))
    return meta["name"]
