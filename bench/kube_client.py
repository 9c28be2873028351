"""CPU that our process spends on pods at the API server: by plain dicts, as the loops do, and by the client's models.

bin/bench kube_client [--pods 1000] [--rounds 7]. On the cluster of KUBECONFIG, in a namespace of its own. Both ways in
turn, by the same connections: list all pods, watch until each has come, create each (as a dry run). Prints milliseconds
of CPU for a thousand pods: the median and the range; what the server spends is not counted.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from uuid import uuid4

from kubernetes.client import CoreV1Api
from kubernetes.watch import Watch

from runtimes.kubernetes.api.client import ApiServer
from runtimes.kubernetes.api.credentials import CredentialSource
from runtimes.kubernetes.pods.manifest import InstallConfig, build_pod
from runtimes.kubernetes.watch.reflectors import trim_pod
from tests.runtimes.kubernetes.specs import CARDS, TASKS

PAGE, UNTIL_S = 500, 60
NEVER = [{"name": "tessera.sh/bench"}]  # a gate that nobody opens, so that no node hears of these pods


class Bench:
    def __init__(self, pods: int):
        source = CredentialSource(os.environ.get("KUBECONFIG"))
        self.api = ApiServer(source, per_s=1e6, burst=10**6)
        self.core = CoreV1Api(source.current().client)
        self.count, self.namespace = pods, f"bench-{uuid4().hex[:8]}"
        self.path = f"/api/v1/namespaces/{self.namespace}/pods"

    def __enter__(self) -> "Bench":
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        account = {"metadata": {"name": "default"}}
        self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts", account, handles=("exists",))
        for number in range(self.count):
            self.api.call("POST", self.path, self.pod(number))
        return self

    def __exit__(self, *_: object) -> None:
        self.api.call("DELETE", f"/api/v1/namespaces/{self.namespace}")
        self.api.close()

    def pod(self, number: int) -> dict:
        """A task's pod, as large as they are, which never starts."""
        pod = build_pod(TASKS["a_quarter"], InstallConfig("tessera", "busybox"), CARDS)
        pod["metadata"] |= {"name": f"p-{number}", "namespace": self.namespace, "finalizers": []}
        pod["spec"].pop("nodeName", None)
        pod["spec"]["schedulingGates"] = NEVER
        return pod

    def list_dicts(self) -> int:
        return len(self.api.list_all(self.path, trim=trim_pod).items)

    def list_models(self) -> int:
        found, more = 0, None
        while more != "":
            page = self.core.list_namespaced_pod(self.namespace, limit=PAGE, _continue=more)
            found, more = found + len(page.items), page.metadata._continue or ""
        return found

    def watch_dicts(self) -> int:
        events = self.api.watch(self.path, labels="", version="0", seconds=UNTIL_S, silence_s=UNTIL_S)
        return sum(1 for event in islice(events, self.count) if trim_pod(event["object"]))

    def watch_models(self) -> int:
        events = Watch().stream(
            self.core.list_namespaced_pod, self.namespace, resource_version="0", timeout_seconds=UNTIL_S
        )
        return sum(1 for event in islice(events, self.count) if event["object"].metadata.name)

    def create_dicts(self) -> int:
        query = {"dryRun": "All"}
        made = [self.api.call("POST", self.path, self.pod(number + 10**6), query=query) for number in range(self.count)]
        return len(made)

    def create_models(self) -> int:
        for number in range(self.count):
            self.core.create_namespaced_pod(self.namespace, self.pod(number + 10**6), dry_run="All")
        return self.count


def measure(work: Callable[[], int], pods: int) -> float:
    """Milliseconds of this process's CPU for a thousand pods."""
    began = time.process_time()
    assert work() == pods
    return (time.process_time() - began) * 1e6 / pods


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench kube_client", description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    with Bench(asked.pods) as bench:
        ways = [getattr(bench, f"{what}_{how}") for what in ("list", "watch", "create") for how in ("dicts", "models")]
        rounds = [[measure(way, asked.pods) for way in ways] for _ in range(asked.rounds + 1)][1:]  # the first warms up
    print(f"ms of CPU for 1,000 pods, median of {asked.rounds} rounds (least to most):")
    for number, way in enumerate(ways):
        took = [each[number] for each in rounds]
        print(f"{way.__name__:14} {statistics.median(took):7.0f}  ({min(took):.0f} to {max(took):.0f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
