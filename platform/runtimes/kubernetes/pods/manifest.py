"""Build a task's pod from its TaskSpec. Pure. Users never send a pod.

Sources: Kubernetes' Pod Security Standards (`restricted`); k8s.io/kubernetes/third_party/forked/golang/expansion.
"""

import hashlib
import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtimes.contract.errors import NodeRefused, Rejected
from runtimes.contract.node import GpuView
from runtimes.contract.task import TaskSpec
from runtimes.environment import build_task_environment
from runtimes.kubernetes.pods import card_modes, files_volume, names, secret_volume
from runtimes.kubernetes.pods.downward_files import PodFiles, build_pod_files, list_peer_names, name_peers
from runtimes.kubernetes.pods.files_volume import Storage
from runtimes.private_networks import read_all_opened
from runtimes.report_file import REPORT

SUPERVISOR = Path(__file__).with_name("supervisor.sh").read_text()
HOME = "~/"
PATIENCE_S = 3
"""The same as in supervisor.sh."""
START_PATIENCE_S = 1800
"""Seconds for pulling images. supervisor.sh enforces the time limit; this much later the kubelet does so."""
GONE_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
PULLS = ("Always", "IfNotPresent", "Never")
ASKED = (
    "uuid", "epoch", "node", "run", "env", "workdir", "code_path", "image", "cpu_milli", "memory_mib", "uid", "gid",
    "max_time_s", "rank", "role", "port_map",
)  # fmt: skip
"""TaskSpec fields that are hashed."""
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,599}")


@dataclass(frozen=True)
class InstallConfig:
    """Settings shared by all pods of an installation.

    image: the default. pull: imagePullPolicy. pull_secret: a Secret's name. tolerated: taint keys. account:
    "namespace:name" of our service account, or "". storage: None if jobs have no files. private: open networks.
    """

    install: str
    image: str
    pull: str = "IfNotPresent"
    pull_secret: str = ""
    tolerated: Sequence[str] = ()
    account: str = ""
    storage: Storage | None = None
    private: Sequence[str] = ()

    @property
    def labels(self) -> dict[str, str]:
        return {names.LABEL_MANAGED: names.MANAGER, names.LABEL_INSTALL: self.install}


def check_install_config(config: InstallConfig) -> InstallConfig:
    """Raise ValueError naming the setting and its allowed values."""
    names.check_install(config.install)
    if not IMAGE.fullmatch(config.image):
        raise ValueError(f"TESSERA_IMAGE is {config.image!r}: name an image, such as docker.io/library/debian:12-slim.")
    if config.pull not in PULLS:
        raise ValueError(f"TESSERA_IMAGE_PULL is {config.pull!r}: use one of {', '.join(PULLS)}.")
    if config.pull_secret and not names.NAME.fullmatch(config.pull_secret):
        raise ValueError(f"TESSERA_PULL_SECRET is {config.pull_secret!r}: give the name of a Secret.")
    namespace, colon, account = config.account.partition(":")
    if config.account and not (colon and names.NAME.fullmatch(namespace) and names.NAME.fullmatch(account)):
        raise ValueError(f"TESSERA_KUBERNETES_ACCOUNT is {config.account!r}: use namespace:name, or nothing.")
    if config.storage is not None:
        files_volume.check_storage(config.storage)
    read_all_opened(config.private)
    return config


def build_pod(spec: TaskSpec, config: InstallConfig, cards: Mapping[str, GpuView]) -> dict:
    """Return the Pod. cards: its node's, by uuid. Raises Rejected."""
    check_spec(spec, config, cards)
    spec = name_peers(spec)
    pod_files = build_pod_files(spec)
    save_s = spec.checkpoint.grace_s + PATIENCE_S if spec.checkpoint else 0
    user = {"runAsUser": spec.uid, "runAsGroup": spec.gid, "runAsNonRoot": True}
    pod_spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": max(spec.grace_s, 1) + save_s,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _only_node(spec.node)}},
        "tolerations": _tolerations(config),
        "securityContext": {**user, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(spec, config, cards, pod_files)],
        "volumes": [
            pod_files.volume,
            {"name": "scratch", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{spec.shm_mib or spec.memory_mib}Mi"}},
            *files_volume.build_volumes(config.install, spec, config.storage),
            *secret_volume.build_volumes(spec),
        ],
        **pod_files.place,
    }
    if spec.max_time_s is not None:
        pod_spec["activeDeadlineSeconds"] = spec.max_time_s + spec.grace_s + save_s + START_PATIENCE_S
    secrets = [config.pull_secret, names.LOGINS if spec.logins else ""]
    if any(secrets):
        pod_spec["imagePullSecrets"] = [{"name": secret} for secret in secrets if secret]
    annotations = {
        names.ANNOTATION_EPOCH: str(spec.epoch),
        names.ANNOTATION_LABEL: spec.label[:200],
        names.ANNOTATION_CHECKPOINT_S: str(save_s),
    }
    annotations |= card_modes.build_annotations(spec, cards) | {names.ANNOTATION_SPEC: hash_spec(spec)}
    if config.storage and spec.checkpoint and (folder := build_checkpoint_annotation(spec.checkpoint.dir, spec.uid)):
        annotations[names.ANNOTATION_CHECKPOINTS] = folder
    namespace = names.name_team_namespace(config.install, spec.gid)
    labels = {names.LABEL_TEAM: str(spec.gid)} | pod_files.labels
    return _pod(spec.uuid, config, namespace, pod_spec, annotations | pod_files.files, labels)


def build_tombstone(
    uuid: str, config: InstallConfig, namespace: str, *, epoch: int, end: Mapping[str, str], hour: str = ""
) -> dict:
    """Return a permanently gated pod that marks a task as ended. hour: when its end was recorded."""
    pod_spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "schedulingGates": [{"name": f"{names.DOMAIN}/never"}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": config.image, "securityContext": _confined(), "resources": {}}],
    }
    annotations = {names.ANNOTATION_EPOCH: str(epoch), names.ANNOTATION_END: json.dumps(dict(end))}
    labels = {names.LABEL_FORGOTTEN: hour} if hour else {}
    pod = _pod(uuid, config, namespace, pod_spec, annotations, labels)
    del pod["metadata"]["finalizers"]  # nothing to lose
    return pod


def hash_spec(spec: TaskSpec) -> str:
    """Hash the task's fixed request: not its pod's layout, nor a gang's addresses."""
    what = {name: getattr(spec, name) for name in ASKED}
    cards = [(share.uuid, share.memory_mib, share.compute_percent, share.whole) for share in spec.gpus]
    return hashlib.sha256(json.dumps([what, cards], sort_keys=True).encode()).hexdigest()[:32]


def check_spec(spec: TaskSpec, config: InstallConfig, cards: Mapping[str, GpuView]) -> None:
    """Raise Rejected for a task that can never run here."""
    names.check_uuid(spec.uuid)
    if spec.uid <= 0 or spec.gid <= 0:
        raise Rejected("A job never runs as root: its user has no uid or its team no gid.")
    if not IMAGE.fullmatch(spec.image or config.image):
        raise Rejected(f"Not the name of an image: {(spec.image or config.image)!r}.")
    unknown = [share.uuid for share in spec.gpus if share.uuid not in cards]
    if unknown:
        raise NodeRefused(f"The node {spec.node} has no GPU {', '.join(unknown)}.")
    card_modes.check_cards(spec, cards)
    if any("\0" in text for text in (spec.run, spec.workdir or "", *spec.env.values())):
        raise Rejected("A program's text and its environment cannot hold the character NUL.")
    files_volume.check_files(spec, config.storage)


def build_checkpoint_annotation(folder: str, uid: int) -> str:
    """Return the annotation "uid/path" for a folder in the home, else ""."""
    path = os.path.normpath(folder.removeprefix(HOME))
    return f"{uid}/{path}" if folder.startswith(HOME) and path.split("/")[0] != ".." else ""


def escape_dollars(text: str) -> str:
    """Escape `$`: Kubernetes expands `$(NAME)` in commands and environments."""
    return text.replace("$", "$$")


def _pod(uuid: str, config: InstallConfig, namespace: str, pod_spec: dict, annotations: dict, labels: dict) -> dict:
    meta = {
        "name": names.name_pod(uuid),
        "namespace": namespace,
        "labels": {**config.labels, names.LABEL_TASK: uuid, **labels},
        "annotations": annotations,
        "finalizers": [names.FINALIZER],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec}


def _container(spec: TaskSpec, config: InstallConfig, cards: Mapping[str, GpuView], pod_files: PodFiles) -> dict:
    """Requests equal limits, except cores of overcommitted pools."""
    held = card_modes.build_card_requests(spec, cards)
    held |= {} if spec.hcas is None else {names.RDMA: "1"}
    most = {"cpu": f"{spec.cpu_milli}m", "memory": f"{spec.memory_mib}Mi", **held}
    asked = card_modes.compute_cpu_request(spec)
    env = _environment(spec, config, cards)
    return {
        "name": "main",
        "image": spec.image or config.image,
        "imagePullPolicy": config.pull,
        "command": ["/bin/sh", "-c", escape_dollars(SUPERVISOR), "tessera", *map(escape_dollars, _arguments(spec))],
        "env": [{"name": name, "value": escape_dollars(value)} for name, value in sorted(env.items())],
        "resources": {"requests": {**most, "cpu": f"{asked}m"}, "limits": most},
        "securityContext": _confined(),
        "volumeMounts": [
            {"name": "scratch", "mountPath": names.TASK_ROOT},
            {"name": "shm", "mountPath": "/dev/shm"},
            *files_volume.build_mounts(spec, config.storage),
            *secret_volume.build_mounts(spec),
            *pod_files.mounts,
        ],
    }


def _arguments(spec: TaskSpec) -> list[str]:
    work = os.path.join(names.TASK_ROOT, "work")
    cwd = os.path.normpath(os.path.join(work, spec.workdir or ""))
    rule = spec.checkpoint
    number = int(signal.Signals[rule.signal]) if rule and rule.signal else 0
    folder = rule.dir if rule else ""
    if folder and not folder.startswith(HOME):
        folder = os.path.normpath(os.path.join(cwd, folder))
    times = (spec.max_time_s or 0, spec.grace_s, number, rule.grace_s if rule else 0)
    files = (work, files_volume.build_code_path(spec), *files_volume.build_links(spec))
    return [spec.run, cwd, *map(str, times), folder, "", " ".join(list_peer_names(spec)), *files]


def _environment(spec: TaskSpec, config: InstallConfig, cards: Mapping[str, GpuView]) -> dict[str, str]:
    hints, fixed = card_modes.build_card_environment(spec, cards)
    team = {"TESSERA_TEAM_FOLDER": os.path.join(names.TASK_ROOT, "team")} if config.storage else {}
    env = build_task_environment(spec, names.TASK_ROOT, hints, fixed | team | secret_volume.build_environment(spec))
    if not config.storage:  # nobody could read what is written there
        del env[REPORT]
    return {name: value for name, value in env.items() if ENV_NAME.fullmatch(name)}


def _confined() -> dict:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _only_node(node: str) -> dict:
    """Match the name by affinity: `nodeName` would skip taints and late-binding volumes."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}


def _tolerations(config: InstallConfig) -> list[dict]:
    """Tolerate lost nodes: resources are freed only on proof that the pod ended."""
    gone = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in GONE_NODE]
    ours = [{"key": key, "operator": "Exists"} for key in (f"{names.DOMAIN}/managed", *config.tolerated)]
    return gone + ours
