"""Build single-layer OCI images: pause (our own), busybox (Debian's static one), python (by debootstrap)."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dev.cluster.build import PIECES, folder_of
from dev.cluster.cache import make_once
from dev.cluster.paths import ClusterPaths, Refusal

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
BUSYBOX = Path("/bin/busybox")
USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
SUITE = "bookworm"
UNWANTED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """An image's name, tag, command and layer."""

    name: str
    tag: str
    command: list[str]
    pack: Callable[[ClusterPaths, tarfile.TarFile], None]


def pack_pause(paths: ClusterPaths, layer: tarfile.TarFile) -> None:
    add_file(layer, "pause", (folder_of(paths, PIECES[0]) / "pause").read_bytes(), 0o755)


def pack_busybox(paths: ClusterPaths, layer: tarfile.TarFile) -> None:
    for name, mode in {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777, "var": 0o755}.items():
        add(layer, name, tarfile.DIRTYPE, mode)
    add_file(layer, "bin/busybox", BUSYBOX.read_bytes(), 0o755)
    for name in subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            add(layer, f"bin/{name}", tarfile.SYMTYPE, 0o777, "busybox")
    add_file(layer, "etc/passwd", USERS.encode(), 0o644)
    add_file(layer, "etc/group", b"root:x:0:\n", 0o644)


def pack_debian(packages: str, paths: ClusterPaths, layer: tarfile.TarFile) -> None:
    """Pack a minimal Debian with comma-separated packages. Raise Refusal."""
    with tempfile.TemporaryDirectory() as root:
        command = ["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, root, find_mirror()]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            tail = "\n    ".join(done.stdout.splitlines()[-4:])
            raise Refusal(f"debootstrap could not make an image with {packages}:\n    {tail}")
        layer.add(root, arcname=".", filter=without_unwanted)


PYTHON = Image("python", "3.11", ["python3"], partial(pack_debian, "python3,ca-certificates"))
IMAGES = (
    Image("pause", "1", ["/pause"], pack_pause),
    Image("busybox", "1.35", ["sh"], pack_busybox),
    PYTHON,
)
# For jobs with a launcher; made on request (up --mpi): minutes, 76 MiB.
MPI = Image(
    "mpi", "4.1", ["bash"],
    partial(pack_debian, "python3,ca-certificates,openmpi-bin,python3-mpi4py,openssh-server"),
)  # fmt: skip


def make_images(paths: ClusterPaths) -> None:
    """Build images that the cache lacks."""
    for image in IMAGES:
        make_image(paths, image)


def make_image(paths: ClusterPaths, image: Image) -> Path:
    """Build the image unless the cache has it, and return its layout. Raise Refusal."""
    layout = layout_of(paths, image)
    make_once(layout, partial(write_layout, paths, image))
    return layout


def are_made(paths: ClusterPaths) -> bool:
    return all(layout_of(paths, image).is_dir() for image in IMAGES)


def layout_of(paths: ClusterPaths, image: Image) -> Path:
    """Return the cache folder, named by the hash of this file and the pause build."""
    made_of = Path(__file__).read_bytes() + folder_of(paths, PIECES[0]).name.encode()
    return paths.cache / f"image-{image.name}-{hashlib.sha256(made_of).hexdigest()[:16]}"


def write_layout(paths: ClusterPaths, image: Image, folder: Path) -> None:
    """Write an OCI layout: blobs by digest and an index."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as layer:
        image.pack(paths, layer)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [PATH], "Cmd": image.command},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(raw.getvalue())]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": add_blob(folder, json.dumps(config).encode(), "config.v1+json"),
        "layers": [add_blob(folder, gzip.compress(raw.getvalue(), 1, mtime=0), "layer.v1.tar+gzip")],
    }
    write_index(folder, manifest)


def write_index(folder: Path, manifest: dict) -> None:
    described = add_blob(folder, json.dumps(manifest).encode(), "manifest.v1+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def add_blob(folder: Path, content: bytes, kind: str) -> dict:
    digest = digest_of(content)
    path = folder / "blobs" / digest.replace(":", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest, "size": len(content)}


def read_blob(folder: Path, digest: str) -> bytes:
    return (folder / "blobs" / digest.replace(":", "/")).read_bytes()


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def add_file(layer: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    layer.addfile(info, io.BytesIO(content))


def add(layer: tarfile.TarFile, name: str, kind: bytes, mode: int, target: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, target
    layer.addfile(info)


def without_unwanted(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Skip device files, which containerd makes, and docs and apt caches."""
    name = info.name.removeprefix("./")
    return None if info.isdev() or name.startswith(UNWANTED) else info


def find_mirror() -> str:
    """Return apt's mirror, else Debian's."""
    for path in [*sorted(Path("/etc/apt/sources.list.d").glob("*")), Path("/etc/apt/sources.list")]:
        lines = path.read_text().splitlines() if path.is_file() else []
        for word in (word for line in lines if not line.startswith("#") for word in line.split()):
            if word.startswith("http") and word.rstrip("/").endswith("/debian"):
                return word
    return "http://deb.debian.org/debian"
