"""Run etcd and the control plane as local processes."""

import json

from dev.cluster.parts.api import answers
from dev.cluster.parts.certificates import kubeconfig_of
from dev.cluster.paths import ADDRESS, API_PORT, SERVICE_CIDR, ClusterPaths, write
from dev.cluster.processes import accepts_connections, start, wait_until

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
START_S = 120
REQUESTS_PER_S = 1000  # requests to the API server; defaults of 20 and 50 would distort benchmarks


def start_etcd_and_apiserver(paths: ClusterPaths) -> None:
    """Start etcd on a socket only for root, then the API server."""
    store = f"unix://{paths.state}/etcd.sock"
    peers = "unix://etcd-peer:1"  # a socket of that name in the working folder
    start(paths, "etcd", "--data-dir", f"{paths.state}/etcd", "--name", "tessera", "--log-level", "warn",
          "--unsafe-no-fsync",  # nothing here has to survive a crash of the machine
          "--listen-client-urls", store,
          "--advertise-client-urls", "http://127.0.0.1:2379",  # required but unused
          "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
          "--initial-cluster", f"tessera={peers}")  # fmt: skip
    wait_until(paths, "etcd", lambda: accepts_connections(paths.state / "etcd.sock"), START_S)
    start(paths, "kube-apiserver", *api_server_arguments(paths, store))
    wait_until(paths, "kube-apiserver", lambda: answers(paths, "/readyz"), START_S)


def start_controllers(paths: ClusterPaths, requests_per_s: int = REQUESTS_PER_S) -> None:
    """Start controller-manager and scheduler; wait for the default service account, which pods need.

    requests_per_s: each one's API rate; twice as many in a burst.
    """
    home = paths.certificates
    start(paths, "kube-controller-manager", "--kubeconfig", str(kubeconfig_of(paths, "controller-manager")),
          "--leader-elect=false", "--use-service-account-credentials", "--secure-port", "0",
          "--flex-volume-plugin-dir", f"{paths.state}/volume-plugins",
          "--kube-api-qps", str(requests_per_s), "--kube-api-burst", str(2 * requests_per_s),
          "--service-account-private-key-file", f"{home}/service-accounts.key", "--root-ca-file", f"{home}/ca.crt",
          "--cluster-signing-cert-file", f"{home}/ca.crt", "--cluster-signing-key-file", f"{home}/ca.key")  # fmt: skip
    write(paths.state / "scheduler.json", json.dumps(build_scheduler_settings(paths, requests_per_s)))
    start(paths, "kube-scheduler", "--config", f"{paths.state}/scheduler.json", "--secure-port", "0")
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    wait_until(paths, "kube-controller-manager", lambda: answers(paths, account), START_S)


def api_server_arguments(paths: ClusterPaths, store: str) -> list[str]:
    home = paths.certificates
    return [
        *("--etcd-servers", store),
        *("--bind-address", ADDRESS, "--secure-port", str(API_PORT), "--advertise-address", ADDRESS),
        *("--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--allow-privileged"),
        *("--service-cluster-ip-range", SERVICE_CIDR),
        *("--client-ca-file", f"{home}/ca.crt"),
        *("--tls-cert-file", f"{home}/apiserver.crt", "--tls-private-key-file", f"{home}/apiserver.key"),
        *("--service-account-issuer", "https://kubernetes.default.svc"),
        *("--service-account-key-file", f"{home}/service-accounts.pub"),
        *("--service-account-signing-key-file", f"{home}/service-accounts.key"),
        *("--kubelet-certificate-authority", f"{home}/ca.crt"),
        *("--kubelet-client-certificate", f"{home}/apiserver-kubelet-client.crt"),
        *("--kubelet-client-key", f"{home}/apiserver-kubelet-client.key"),
        *("--kubelet-preferred-address-types", "InternalIP", "--profiling=false"),
    ]


def build_scheduler_settings(paths: ClusterPaths, requests_per_s: int = REQUESTS_PER_S) -> dict:
    client = {"kubeconfig": str(kubeconfig_of(paths, "scheduler")), "qps": requests_per_s, "burst": 2 * requests_per_s}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": client,
    }
