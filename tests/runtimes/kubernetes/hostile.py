"""What somebody would add to a task's pod to get out of it, or to more than is theirs: {name: change of the pod}.

Sources: PROMISES of this project; Pod Security Standards; Kubernetes' volume and security context types; the
annotations that NVIDIA's, HAMi's, CNI's and service meshes' components obey.
"""

from collections.abc import Callable, Iterator
from typing import Any

Pod = dict[str, Any]
Change = Callable[[Pod], None]

VOLUMES: dict[str, dict] = {
    "hostPath": {"path": "/"},
    "hostPath of the engine": {"path": "/run/containerd/containerd.sock", "type": "Socket"},
    "hostPath of the kubelet": {"path": "/var/lib/kubelet/device-plugins"},
    "hostPath of a card": {"path": "/dev/nvidia0", "type": "CharDevice"},
    "secret": {"secretName": "registry"},
    "secret of another task": {"secretName": "s-" + "f" * 32},
    "configMap": {"name": "settings"},
    "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "api"}}]},
    "projected secret": {"sources": [{"secret": {"name": "registry"}}]},
    "projected certificates": {"sources": [{"clusterTrustBundle": {"name": "x", "path": "y"}}]},
    "nfs": {"server": "10.0.0.1", "path": "/"},
    "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2026-01.x:y", "lun": 0},
    "csi": {"driver": "csi.example.org"},
    "cephfs": {"monitors": ["10.0.0.1"]},
    "rbd": {"monitors": ["10.0.0.1"], "image": "x"},
    "glusterfs": {"endpoints": "x", "path": "/"},
    "gitRepo": {"repository": "https://example.org/x.git"},
    "fc": {"targetWWNs": ["x"], "lun": 0},
    "flexVolume": {"driver": "example.org/x"},
    "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
                                                   "resources": {"requests": {"storage": "1Gi"}}}}},
    "persistentVolumeClaim": {"claimName": "of-another"},
    "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.labels"}}]},
    "downwardAPI of amounts": {"items": [{"path": "x", "resourceFieldRef": {"containerName": "main",
                                                                            "resource": "limits.cpu"}}]},
}  # fmt: skip
CAPABILITIES = [
    "AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN",
    "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE",
    "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BROADCAST", "NET_RAW", "PERFMON",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE",
    "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG",
    "WAKE_ALARM", "ALL",
]  # fmt: skip
SYSCTLS = [
    "kernel.msgmax", "kernel.shmmax", "kernel.core_pattern", "kernel.modprobe", "net.ipv4.ip_forward",
    "net.core.somaxconn", "fs.mqueue.msg_max", "kernel.shm_rmid_forced", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range", "net.ipv4.tcp_syncookies", "net.ipv4.ip_local_port_range",
]  # fmt: skip
POD_SECURITY: dict[str, dict] = {
    "uid 0": {"runAsUser": 0},
    "a uid of the system": {"runAsUser": 101},
    "the gid of another team": {"runAsGroup": 20001},
    "gid 0": {"runAsGroup": 0},
    "no uid": {"runAsUser": None},
    "root allowed": {"runAsNonRoot": False},
    "files of group 0": {"fsGroup": 0},
    "files of another team": {"fsGroup": 20001},
    "groups of others": {"supplementalGroups": [20001]},
    "group 0 besides": {"supplementalGroups": [0]},
    "seccomp unconfined": {"seccompProfile": {"type": "Unconfined"}},
    "seccomp of the host's files": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x.json"}},
    "no seccomp": {"seccompProfile": None},
    "apparmor unconfined": {"appArmorProfile": {"type": "Unconfined"}},
    "another SELinux type": {"seLinuxOptions": {"type": "spc_t"}},
    "another SELinux user": {"seLinuxOptions": {"user": "system_u"}},
    "a host process": {"windowsOptions": {"hostProcess": True}},
}
OWN_SECURITY: dict[str, dict] = {
    "privileged": {"privileged": True},
    "escalation": {"allowPrivilegeEscalation": True},
    "unmasked proc": {"procMount": "Unmasked"},
    "kept capabilities": {"capabilities": {}},
    "uid 0 inside": {"runAsUser": 0},
    "uid of another inside": {"runAsUser": 20002},
    "gid of another inside": {"runAsGroup": 20001},
    "root allowed inside": {"runAsNonRoot": False},
    "seccomp unconfined inside": {"seccompProfile": {"type": "Unconfined"}},
    "apparmor unconfined inside": {"appArmorProfile": {"type": "Unconfined"}},
    "another SELinux type inside": {"seLinuxOptions": {"type": "container_runtime_t"}},
    "a host process inside": {"windowsOptions": {"hostProcess": True}},
}
SPEC: dict[str, dict] = {
    "hostNetwork": {"hostNetwork": True},
    "hostPID": {"hostPID": True},
    "hostIPC": {"hostIPC": True},
    "one process namespace": {"shareProcessNamespace": True},
    "another account": {"serviceAccountName": "other"},
    "a token": {"automountServiceAccountToken": True},
    "a node past the scheduler": {"nodeName": "real-0"},
    "another scheduler": {"schedulerName": "mine"},
    "a runtime class": {"runtimeClassName": "nvidia"},
    "system-node-critical": {"priorityClassName": "system-node-critical"},
    "system-cluster-critical": {"priorityClassName": "system-cluster-critical"},
    "a number as priority": {"priority": 2000000000},
    "overhead": {"overhead": {"cpu": "1"}},
    "a gate": {"schedulingGates": [{"name": "example.org/mine"}]},
    "it begins again": {"restartPolicy": "Always"},
    "it begins again after errors": {"restartPolicy": "OnFailure"},
    "a week to end": {"terminationGracePeriodSeconds": 604800},
    "a claim of devices": {"resourceClaims": [{"name": "x", "resourceClaimName": "y"}]},
    "names of its own": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["registry.example.org"]}]},
    "a name server of its own": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.1"]}},
    "the node's name server": {"dnsPolicy": "Default"},
    "an init container": {"initContainers": [{"name": "x", "image": "x"}]},
    "a sidecar": {"initContainers": [{"name": "x", "image": "x", "restartPolicy": "Always"}]},
    "an ephemeral container": {"ephemeralContainers": [{"name": "x", "image": "x"}]},
    "services' addresses": {"enableServiceLinks": True},
}
CONTAINER: dict[str, dict] = {
    "a port of the host": {"ports": [{"containerPort": 80, "hostPort": 80}]},
    "an address of the host": {"ports": [{"containerPort": 80, "hostPort": 81, "hostIP": "127.0.0.1"}]},
    "all of a secret": {"envFrom": [{"secretRef": {"name": "registry"}}]},
    "all of a map": {"envFrom": [{"configMapRef": {"name": "settings"}}]},
    "a device": {"volumeDevices": [{"name": "files", "devicePath": "/dev/sda"}]},
    "a question by the kubelet": {"livenessProbe": {"httpGet": {"host": "169.254.169.254", "port": 80, "path": "/"}}},
    "a knock by the kubelet": {"readinessProbe": {"tcpSocket": {"host": "10.0.0.1", "port": 6443}}},
    "a command by the kubelet": {"startupProbe": {"exec": {"command": ["id"]}}},
    "a hook at its start": {"lifecycle": {"postStart": {"exec": {"command": ["id"]}}}},
    "a hook at its end": {"lifecycle": {"preStop": {"httpGet": {"host": "169.254.169.254", "port": 80}}}},
    "no limits": {"resources": {}},
    "no limit of memory": {"resources": {"limits": {"cpu": "1"}}},
    "a claim of devices inside": {"resources": {"limits": {"memory": "1Gi"}, "claims": [{"name": "x"}]}},
}
DEVICES = [
    "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "nvidia.com/gpumem",
    "nvidia.com/gpucores", "amd.com/gpu", "gpu.intel.com/i915", "aliyun.com/gpu-mem", "volcano.sh/vgpu-memory",
    "rdma/hca", "smarter-devices/fuse", "devic.es/kvm", "hugepages-2Mi",
]  # fmt: skip
VARIABLES: dict[str, dict] = {
    "all cards by a variable": {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    "a card by a variable": {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-3f2a9c10-55aa-0000-0000-000000000002"},
    "cards of a secret": {"name": "X", "valueFrom": {"secretKeyRef": {"name": "registry", "key": "x"}}},
    "a value of a map": {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "x"}}},
    "the node's address": {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    "an amount": {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    "a library for the host's hooks": {"name": "LD_PRELOAD", "value": "/proc/self/cwd/evil.so"},
    "a listener for the host's hooks": {"name": "LD_AUDIT", "value": "/evil.so"},
    "all of the driver": {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"},
    "the driver's checks off": {"name": "NVIDIA_DISABLE_REQUIRE", "value": "true"},
    "cards by MIG": {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"},
    "the driver's channels": {"name": "NVIDIA_IMEX_CHANNELS", "value": "0"},
    "the limiter off": {"name": "CUDA_DISABLE_CONTROL", "value": "true"},
}
MOUNTS: dict[str, dict] = {
    "all of the volume": {},
    "another home": {"subPath": "files/home/20002"},
    "all homes": {"subPath": "files/home"},
    "all files": {"subPath": "tessera/files"},
    "another team": {"subPath": "files/team/20001"},
    "all teams": {"subPath": "files/team"},
    "inside another home": {"subPath": "files/home/20002/out"},
    "out of its home": {"subPath": "files/home/20001/../20002"},
    "out of the volume": {"subPath": "../../etc"},
    "an absolute path": {"subPath": "/etc"},
    "a path of a variable": {"subPathExpr": "files/home/$(TESSERA_TASK)"},
    "code to write to": {"subPath": f"code/{'c' * 64}.tar.gz"},
    "all code": {"subPath": "platform/code", "readOnly": True},
    "a dataset to write to": {"subPath": f"files/dataset/{'d' * 32}/1"},
    "all versions of a dataset": {"subPath": f"files/dataset/{'d' * 32}", "readOnly": True},
    "all datasets": {"subPath": "files/dataset", "readOnly": True},
    "contents of all datasets": {"subPath": "files/dataset-store", "readOnly": True},
    "inside a dataset": {"subPath": f"files/dataset/{'d' * 32}/1/x", "readOnly": True},
    "logs of everybody": {"subPath": "platform/logs", "readOnly": True},
    "passed on to the host": {"subPath": "files/home/20001", "mountPropagation": "HostToContainer"},
    "passed back to the host": {"subPath": "files/home/20001", "mountPropagation": "Bidirectional"},
}
TOLERATIONS: dict[str, dict] = {
    "every taint": {"operator": "Exists"},
    "every taint that drives away": {"operator": "Exists", "effect": "NoExecute"},
    "the control plane": {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
    "a node without network": {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
    "a node that is taken out": {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    "a node without memory": {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"},
    "a node that is broken": {"key": "node.kubernetes.io/out-of-service", "operator": "Exists"},
    "a node that is not ready, from the start": {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
}
ANNOTATIONS = {
    "cdi.k8s.io/all": "nvidia.com/gpu=all",
    "nvidia.cdi.k8s.io/container.main": "nvidia.com/gpu=all",
    "nvidia.cdi.k8s.io/container.other": "nvidia.com/gpu=GPU-3f2a9c10",
    "nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=all",
    "nvidia.com/container.main.gpus.devices": "k8s.device-plugin.nvidia.com/gpu=all",
    "nvidia.com/vgpu-mode": "mig",
    "nvidia.com/use-gpuuuid": "GPU-3f2a9c10",
    "hami.io/vgpu-devices-allocated": "GPU-3f2a9c10,NVIDIA,81920,100",
    "hami.io/bind-phase": "allocating",
    "runai-gpu-group": "x",
    "container.apparmor.security.beta.kubernetes.io/main": "unconfined",
    "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
    "k8s.v1.cni.cncf.io/networks": "kube-system/host-net",
    "cni.projectcalico.org/ipAddrs": '["10.0.0.1"]',
    "kubernetes.io/egress-bandwidth": "100G",
    "sidecar.istio.io/inject": "true",
    "devices.nri.io/container.main": "- path: /dev/nvidia0",
    "io.katacontainers.config.hypervisor.path": "/evil",
    "io.kubernetes.cri-o.Devices": "/dev/nvidia0",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "kubernetes.io/config.source": "file",
    "kubernetes.io/config.mirror": "x",
    "scheduler.alpha.kubernetes.io/critical-pod": "",
    "tessera.sh.example.org/epoch": "1",
}
META: dict[str, dict] = {
    "another installation's": {"labels": {"tessera.sh/install": "other"}},
    "no installation's": {"labels": {"tessera.sh/install": None}},
    "another team's": {"labels": {"tessera.sh/team": "20001"}},
    "no task's": {"labels": {"tessera.sh/task": None}},
    "another task's": {"labels": {"tessera.sh/task": "f" * 32}},
    "never to be deleted": {"finalizers": ["example.org/never"]},
    "kept by two": {"finalizers": ["tessera.sh/recorded", "foregroundDeletion"]},
    "of somebody else's": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "real-0", "uid": "x"}]},
    "another name": {"name": "kube-proxy"},
    "a name by the server": {"name": None, "generateName": "t-"},
}


def merge(into: Pod, change: dict) -> None:
    """Deep, as a merge patch does: None takes away."""
    for name, value in change.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        else:
            into[name] = value


def hostile_changes() -> Iterator[tuple[str, dict, Change]]:
    """(name, what its author would write in a job file, change of a task's pod that has the volume of all files)."""
    for name, source in VOLUMES.items():
        kind = name.split(" ")[0]
        volume = {"name": "mine", kind: source}
        yield f"volume: {name}", {"volumes": [volume]}, lambda pod, volume=volume: pod["spec"]["volumes"].append(volume)
    renamed = {"name": "volume-0", "persistentVolumeClaim": {"claimName": "tessera-files"}}
    yield "volume: everybody's files", {"volumes": [renamed]}, _take_all_files
    for name in CAPABILITIES:
        inside = {"capabilities": {"drop": ["ALL"], "add": [name]}}
        yield f"capability {name}", *_inside({"securityContext": inside})
    for name in SYSCTLS:
        yield f"sysctl {name}", *_outside({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}})
    for name, change in POD_SECURITY.items():
        yield name, *_outside({"securityContext": change})
    for name, change in OWN_SECURITY.items():
        yield name, *_inside({"securityContext": change}, whole="capabilities" in change)
    for name, change in SPEC.items():
        yield name, *_outside(change)
    for name, change in CONTAINER.items():
        yield name, *_inside(change, whole="resources" in change)
    for name in DEVICES:
        yield f"device {name}", *_inside({"resources": {kind: {name: "1"} for kind in ("limits", "requests")}})
    for name, variable in VARIABLES.items():
        yield (
            f"variable: {name}",
            {"env": [variable]},
            lambda pod, variable=variable: _main(pod)["env"].append(variable),
        )
    for name, change in MOUNTS.items():
        mount = {"name": "files", "mountPath": "/mine", **change}
        yield (
            f"mount: {name}",
            {"volumeMounts": [mount]},
            lambda pod, mount=mount: _main(pod)["volumeMounts"].append(mount),
        )
    for name, toleration in TOLERATIONS.items():
        said = {"tolerations": [toleration]}
        yield f"tolerates {name}", said, lambda pod, one=toleration: pod["spec"]["tolerations"].append(one)
    for name, text in ANNOTATIONS.items():
        yield f"annotation {name}: {text}", *_meta({"annotations": {name: text}})
    for name, change in META.items():
        yield f"metadata: {name}", *_meta(change)


def _main(pod: Pod) -> dict:
    return pod["spec"]["containers"][0]


def _outside(change: dict) -> tuple[dict, Change]:
    return change, lambda pod: merge(pod["spec"], change)


def _take_all_files(pod: Pod) -> None:
    """Name the claim on everybody's files as if it were a volume of the site."""
    (files,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "files")
    pod["spec"]["volumes"].append({**files, "name": "volume-0"})


def _inside(change: dict, *, whole: bool = False) -> tuple[dict, Change]:
    """whole: in the place of what is there, not merged into it."""

    def apply(pod: Pod) -> None:
        if not whole:
            merge(_main(pod), change)
        elif "securityContext" in change:
            _main(pod)["securityContext"] |= change["securityContext"]
        else:
            _main(pod).update(change)

    return {"containers": [change]}, apply


def _meta(change: dict) -> tuple[dict, Change]:
    return {"metadata": change}, lambda pod: merge(pod["metadata"], change)
