"""A JupyterLab image on top of the Python one, made on request: a minute, 145 MiB."""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path

from dev.cluster.cache import make_once
from dev.cluster.images import PYTHON, Image, add_blob, digest_of, layout_of, make_image, read_blob, write_index
from dev.cluster.paths import ClusterPaths, Refusal

LOCK = Path(__file__).resolve().parents[2] / "platform/notebooks/requirements.txt"
JUPYTER = Image("jupyter", "4", ["python3"], PYTHON.pack)
PACKAGES = "usr/local/lib/python3.11/dist-packages"  # on Debian's Python path
BESIDE = {"share": "usr/local/share", "etc": "usr/local/etc"}  # Jupyter's paths outside of pip's folder


def make_notebook_image(paths: ClusterPaths) -> Path:
    """Return its cached layout. Raise Refusal."""
    layout = notebook_layout(paths)
    make_image(paths, PYTHON)
    make_once(layout, partial(write_notebook_layout, paths))
    return layout


def notebook_layout(paths: ClusterPaths) -> Path:
    """Return its cache folder, named by hash."""
    made_of = LOCK.read_bytes() + Path(__file__).read_bytes() + layout_of(paths, PYTHON).name.encode()
    return paths.cache / f"image-{JUPYTER.name}-{hashlib.sha256(made_of).hexdigest()[:16]}"


def write_notebook_layout(paths: ClusterPaths, folder: Path) -> None:
    """Write base blobs, the new layer and a manifest."""
    base = layout_of(paths, PYTHON)
    shutil.copytree(base / "blobs", folder / "blobs")
    described = json.loads((base / "index.json").read_text())["manifests"][0]
    manifest = json.loads(read_blob(base, described["digest"]))
    config = json.loads(read_blob(base, manifest["config"]["digest"]))
    raw = pack_packages()
    config["rootfs"]["diff_ids"].append(digest_of(raw))
    manifest["config"] = add_blob(folder, json.dumps(config).encode(), "config.v1+json")
    manifest["layers"].append(add_blob(folder, gzip.compress(raw, 1, mtime=0), "layer.v1.tar+gzip"))
    write_index(folder, manifest)


def pack_packages() -> bytes:
    """Return the layer as tar."""
    with tempfile.TemporaryDirectory() as root, io.BytesIO() as raw:
        command = [sys.executable, "-m", "pip", "install", "--target", root, "--python-version", "3.11"]
        command += ["--only-binary", ":all:", "--no-deps", "--require-hashes", "--no-compile", "--quiet"]
        command += ["--disable-pip-version-check", "--no-input", "-r", str(LOCK)]
        command += ["--ignore-requires-python"]  # markers are for the image's Python
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            tail = "\n    ".join(done.stderr.splitlines()[-4:])
            raise Refusal(f"pip could not fetch what notebooks need:\n    {tail}")
        shutil.rmtree(Path(root, "bin"), ignore_errors=True)  # refers to this Python
        with tarfile.open(fileobj=raw, mode="w") as layer:
            for one in sorted(Path(root).iterdir()):
                layer.add(one, arcname=BESIDE.get(one.name, f"{PACKAGES}/{one.name}"), filter=of_root)
        return raw.getvalue()


def of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make files root's, readable by all."""
    info.uid, info.gid, info.uname, info.gname = 0, 0, "", ""
    info.mode |= 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info
