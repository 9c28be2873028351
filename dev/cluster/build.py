"""Build the cluster's Go programs into the cache, by hash of their folder.

Modules are separate because dependencies conflict.
"""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dev.cluster.cache import make_once
from dev.cluster.paths import ClusterPaths, Refusal

GO = "1.26"  # the newest that a go.mod requires
PROGRAMS = Path(__file__).with_name("programs")
KUBERNETES_PARTS = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl",
)  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """A folder of programs/. names: {name in the cluster: program}."""

    name: str
    packages: tuple[str, ...]
    names: dict[str, str]
    variables: dict[str, str] = field(default_factory=lambda: {"CGO_ENABLED": "0"})
    options: tuple[str, ...] = ()


PIECES = (
    Piece("kubernetes", ("./cmd/kube", "./cmd/pause"), dict.fromkeys(KUBERNETES_PARTS, "kube") | {"pause": "pause"}),
    Piece("kwok", ("sigs.k8s.io/kwok/cmd/kwok",), {"kwok": "kwok"}),
    Piece(
        "containerd",
        tuple(f"github.com/containerd/containerd/v2/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2")),
        {name: name for name in ("containerd", "containerd-shim-runc-v2")},
    ),
    Piece("runc", ("github.com/opencontainers/runc",), {"runc": "runc"}, {"CGO_ENABLED": "1"}, ("-tags", "seccomp")),
    Piece(
        "cni",
        tuple(
            f"github.com/containernetworking/plugins/plugins/{name}"
            for name in ("main/bridge", "main/loopback", "ipam/host-local", "meta/portmap")
        ),
        {name: name for name in ("bridge", "loopback", "host-local", "portmap")},
    ),
    Piece("registry", (".",), {"registry": "registry"}),
    Piece("dns", (".",), {"coredns": "dns"}),
    Piece("storage", (".",), {"storage": "storage"}),
    Piece("helm", ("helm.sh/helm/v3/cmd/helm",), {"helm": "helm"}),
)


def build_missing(paths: ClusterPaths) -> None:
    """Build what is missing. Raise Refusal."""
    for piece in PIECES:
        make_once(folder_of(paths, piece), partial(compile_piece, piece))


def find_go() -> str | None:
    """Find go on PATH or in /usr/local/go."""
    return shutil.which("go") or shutil.which("/usr/local/go/bin/go")


def is_built(paths: ClusterPaths) -> bool:
    return all(folder_of(paths, piece).is_dir() for piece in PIECES)


def link_programs(paths: ClusterPaths) -> None:
    """Link programs into the cluster's bin folder."""
    for piece in PIECES:
        for name, program in piece.names.items():
            link = paths.bin / f"{name}.new"
            link.unlink(missing_ok=True)
            link.symlink_to(folder_of(paths, piece) / program)
            link.replace(paths.bin / name)


def is_linked(paths: ClusterPaths) -> bool:
    """Return whether the bin folder has just these links."""
    wanted = {name: folder_of(paths, piece) / program for piece in PIECES for name, program in piece.names.items()}
    return all(wanted.get(link.name) == link.readlink() for link in paths.bin.iterdir())


def list_versions() -> dict[str, str]:
    """Return versions from go.mod."""
    modules = {
        "kubernetes": "k8s.io/kubernetes", "etcd": "go.etcd.io/etcd/server/v3", "kwok": "sigs.k8s.io/kwok",
        "containerd": "github.com/containerd/containerd/v2", "runc": "github.com/opencontainers/runc",
        "cni": "github.com/containernetworking/plugins", "registry": "github.com/distribution/distribution/v3",
        "dns": "github.com/coredns/coredns", "helm": "helm.sh/helm/v3",
        "storage": "sigs.k8s.io/sig-storage-lib-external-provisioner/v13",
    }  # fmt: skip
    return {name: version_of("kubernetes" if name == "etcd" else name, module) for name, module in modules.items()}


def folder_of(paths: ClusterPaths, piece: Piece) -> Path:
    digest = hashlib.sha256(repr((piece, link_flags(piece))).encode())
    for path in sorted(path for path in (PROGRAMS / piece.name).rglob("*") if path.is_file()):
        digest.update(path.relative_to(PROGRAMS).as_posix().encode() + b"\0" + path.read_bytes())
    return paths.cache / f"{piece.name}-{digest.hexdigest()[:16]}"


def compile_piece(piece: Piece, folder: Path) -> None:
    go = find_go()
    if not go:
        raise Refusal(
            f"{piece.name} has to be built, and there is no Go.\n"
            f"  Install Go {GO} or newer from https://go.dev/dl/ and put its bin folder on PATH."
        )
    command = [go, "build", "-trimpath", "-buildvcs=false", *piece.options, "-ldflags", link_flags(piece)]
    done = subprocess.run(
        [*command, "-o", f"{folder}/", *piece.packages],
        cwd=PROGRAMS / piece.name,
        env=os.environ | piece.variables,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        tail = "\n    ".join(done.stderr.splitlines()[-12:])
        raise Refusal(f"{piece.name} could not be built:\n    {tail}")


def link_flags(piece: Piece) -> str:
    """Return linker flags: no symbols, version numbers."""
    flags = ["-s", "-w"]
    if piece.name == "kubernetes":
        version = version_of("kubernetes", "k8s.io/kubernetes")
        major, minor = version.removeprefix("v").split(".")[:2]
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {package}.{name}={value}" for name, value in values.items()]
    if piece.name == "helm":  # assumes this cluster version when it asks none
        minor = version_of("helm", "k8s.io/client-go").split(".")[1]
        flags.append(f"-X helm.sh/helm/v3/internal/version.version={version_of('helm', 'helm.sh/helm/v3')}")
        flags += [
            f"-X helm.sh/helm/v3/pkg/chartutil.k8sVersion{name}={value}"
            for name, value in (("Major", "1"), ("Minor", minor))
        ]
    return " ".join(flags)


def version_of(folder: str, module: str) -> str:
    text = (PROGRAMS / folder / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", text, re.MULTILINE)
    assert found, f"{module} is not in the go.mod of {folder}"
    return found[1]
