"""The real node: bridge, containerd, kubelet, kube-proxy and DNS on this machine."""

import json
import subprocess
from pathlib import Path

from dev.cluster.machine import set_sysctl
from dev.cluster.parts.api import is_ready, list_nodes
from dev.cluster.parts.certificates import kubeconfig_of
from dev.cluster.paths import ADDRESS, BRIDGE, DOMAIN, NODE_NAME, POD_CIDR, REGISTRY, ClusterPaths, write
from dev.cluster.processes import accepts_connections, start, wait_until

NAMES = ("containerd", "coredns", "kubelet", "kube-proxy")
START_S = 120
LABELS = "tessera.sh/real=true"
BRIDGE_MAC = "02:00:0a:58:00:01"
"""Set, as a bridge that chose its own takes on the lowest of its ports': pods would send to an old one until their ARP
entries have aged, and name servers and the API server would be silent for half a minute.
"""


def make_bridge() -> None:
    """Create the pods' network; all cluster parts listen on its address."""
    if not Path(f"/sys/class/net/{BRIDGE}").exists():
        subprocess.run(["ip", "link", "add", BRIDGE, "address", BRIDGE_MAC, "type", "bridge"], check=True)
    subprocess.run(["ip", "address", "replace", f"{ADDRESS}/{POD_CIDR.partition('/')[2]}", "dev", BRIDGE], check=True)
    subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)
    set_sysctl("net.ipv4.ip_forward", "1")
    set_sysctl("net.bridge.bridge-nf-call-iptables", "1")  # for services whose pods share the bridge with clients


def start_node(paths: ClusterPaths) -> None:
    """Start the node's parts and wait until it is Ready."""
    write(paths.state / "cni" / "10-tessera.conflist", json.dumps(build_network(paths), indent=1))
    write(paths.state / "registries" / REGISTRY / "hosts.toml", f'server = "http://{REGISTRY}"\n')
    write(paths.state / "containerd.toml", build_containerd_settings(paths))
    start(paths, "containerd", "--config", f"{paths.state}/containerd.toml")
    wait_until(paths, "containerd", lambda: accepts_connections(paths.state / "containerd.sock"), START_S)
    start_name_server(paths)
    write(paths.state / "kubelet.json", json.dumps(build_kubelet_settings(paths), indent=1))
    start(paths, "kubelet", "--config", f"{paths.state}/kubelet.json", "--root-dir", f"{paths.state}/kubelet",
          "--kubeconfig", str(kubeconfig_of(paths, "kubelet")), "--hostname-override", NODE_NAME, "--node-ip", ADDRESS,
          "--node-labels", LABELS)  # fmt: skip
    write(paths.state / "proxy.json", json.dumps(build_proxy_settings(paths), indent=1))
    start(paths, "kube-proxy", "--config", f"{paths.state}/proxy.json")
    wait_until(paths, "kubelet", lambda: is_node_ready(paths), START_S)


def start_name_server(paths: ClusterPaths) -> None:
    """Serve names of services and headless pods; forward others to the host's resolvers."""
    known = Path("/etc/resolv.conf")
    has_servers = known.exists() and any(line.startswith("nameserver") for line in known.read_text().splitlines())
    names = f"kubernetes {DOMAIN} in-addr.arpa {{\n  kubeconfig {kubeconfig_of(paths, 'dns')}\n  ttl 1\n }}"
    lines = [f"bind {ADDRESS}", "errors", names, *(["forward . /etc/resolv.conf"] if has_servers else [])]
    write(paths.state / "Corefile", ".:53 {\n " + "\n ".join(lines) + "\n}\n")
    start(paths, "coredns", "-conf", f"{paths.state}/Corefile")


def is_node_ready(paths: ClusterPaths) -> bool:
    return any(node["metadata"]["name"] == NODE_NAME and is_ready(node) for node in list_nodes(paths))


def build_network(paths: ClusterPaths) -> dict:
    addresses = {
        "type": "host-local",
        "dataDir": f"{paths.state}/cni-addresses",
        "ranges": [[{"subnet": POD_CIDR, "gateway": ADDRESS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "tessera", "plugins": [bridge, ports]}


def build_containerd_settings(paths: ClusterPaths) -> str:
    """Return containerd's settings, with all its files below the state folder."""
    home = paths.state
    return f"""version = 3
root = "{home}/containerd"
state = "{home}/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs"]
[grpc]
  address = "{home}/containerd.sock"
[ttrpc]
  address = "{home}/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{home}/containerd-opt"
[plugins."io.containerd.nri.v1.nri"]
  socket_path = "{home}/nri.sock"
  plugin_path = "{home}/nri-plugins"
  plugin_config_path = "{home}/nri-settings"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{REGISTRY}/pause:1"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "{home}/registries"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true   # without CAP_SYS_RESOURCE a score can't be lowered
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{paths.bin}/runc"
      Root = "{home}/runc"
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{paths.bin}"]
    conf_dir = "{home}/cni"
"""


def build_kubelet_settings(paths: ClusterPaths) -> dict:
    home = paths.certificates
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{home}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{home}/kubelet.crt",
        "tlsPrivateKeyFile": f"{home}/kubelet.key",
        "containerRuntimeEndpoint": f"unix://{paths.state}/containerd.sock",
        "clusterDNS": [ADDRESS],
        "clusterDomain": DOMAIN,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,  # developers' machines may still have v1
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,  # leaves none behind
        "oomScoreAdj": 0,  # lowering needs CAP_SYS_RESOURCE
        "podLogsDir": f"{paths.state}/pod-logs",
        "volumePluginDir": f"{paths.state}/volume-plugins",
        "imageGCHighThresholdPercent": 100,  # off
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
        "syncFrequency": "10s",
        "fileCheckFrequency": "20s",
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
    }


def build_proxy_settings(paths: ClusterPaths) -> dict:
    untouched = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": NODE_NAME,
        "bindAddress": ADDRESS,
        "healthzBindAddress": f"{ADDRESS}:10256",
        "metricsBindAddress": f"{ADDRESS}:10249",
        "nodePortAddresses": ["primary"],
        "clientConnection": {"kubeconfig": str(kubeconfig_of(paths, "proxy"))},
        "clusterCIDR": POD_CIDR,
        "conntrack": untouched,
        "iptables": {"localhostNodePorts": False},
    }
