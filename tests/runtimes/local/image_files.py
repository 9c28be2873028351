"""Images for tests, written by hand: archives as `docker save` makes them, of no registry and no network."""

import hashlib
import io
import json
import os
import re
import subprocess
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from runtimes.local.images.image_store import ImageStore
from runtimes.local.images.podman import Podman

Entry = bytes | tuple[int, bytes] | str | tarfile.TarInfo
"""The bytes of a file, its mode before them, where a link leads, or anything else that an archive can hold."""


def build_layer(entries: Mapping[str, Entry]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, entry in entries.items():
            add_entry(archive, name, entry)
    return whole.getvalue()


def build_folder_layer(folder: Path, target: str) -> bytes:
    """A layer with a folder of this machine."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(folder, target)
    return whole.getvalue()


def add_entry(archive: tarfile.TarFile, name: str, entry: Entry) -> None:
    if isinstance(entry, tarfile.TarInfo):
        entry.name = name
        return archive.addfile(entry)
    info = tarfile.TarInfo(name)
    info.mode, entry = entry if isinstance(entry, tuple) else (0o755, entry)
    if isinstance(entry, str):
        info.type, info.linkname = tarfile.SYMTYPE, entry
        return archive.addfile(info)
    info.size = len(entry)
    archive.addfile(info, io.BytesIO(entry))


def build_archive(name: str, layers: Iterable[bytes], env: Iterable[str] = ()) -> bytes:
    """Return an archive of `docker save`."""
    layers = list(layers)
    digests = [hashlib.sha256(layer).hexdigest() for layer in layers]
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]}
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "config": {"Env": list(env)}, "rootfs": rootfs}
    ).encode()
    names = [f"{digest}.tar" for digest in digests]
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": names}]
    return build_layer(
        dict(zip(names, layers, strict=True)) | {"config.json": config, "manifest.json": json.dumps(manifest).encode()}
    )


def load_image(images_dir: Path, name: str, layers: Iterable[bytes], env: Iterable[str] = ()) -> None:
    """Bring an image of these layers into a machine's store, as localhost/NAME:1."""
    store = ImageStore(images_dir)
    store.prepare()
    archive = images_dir / "tmp/archive.tar"
    archive.write_bytes(build_archive(f"localhost/{name}:1", layers, env))
    Podman(store).load(archive)
    archive.unlink()


SHELL = tuple("sh bash cat env grep head id ln ls mkdir rm seq sleep sort stat stty tail touch tty wc yes".split())  # noqa: SIM905


@cache
def build_shell_layer(programs: tuple[str, ...] = SHELL) -> bytes:
    """A layer with programs of this machine and their libraries, and with /etc/passwd."""
    usual = {"etc/passwd": b"root:x:0:0::/root:/bin/sh\n", "var/tmp": describe_folder(0o1777)}
    return build_layer(usual | collect_programs(programs))


@cache
def build_python_layer() -> bytes:
    """A layer with the machine's own Python, without what nobody loads."""
    home = Path(sysconfig.get_path("stdlib", vars={"installed_base": "/usr"}))
    left_out = {"__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter"}
    files: dict[str, Entry] = {}
    for folder, names, found in os.walk(home):
        names[:] = [name for name in names if name not in left_out and not name.startswith("config-")]
        files |= {f"{folder}/{name}".lstrip("/"): Path(folder, name).read_bytes() for name in found}
    python = collect_programs(["python3"])
    for extension in (home / "lib-dynload").glob("*.so"):
        files |= collect_libraries(str(extension))
    return build_layer(files | python | {"usr/bin/python3": python["bin/python3"]})


def describe_folder(mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.mode = tarfile.DIRTYPE, mode
    return info


def collect_programs(programs: Iterable[str]) -> dict[str, Entry]:
    """Return programs of this machine at bin/, with the libraries that they load. programs: names, or whole paths."""
    found: dict[str, Entry] = {}
    for name in programs:
        path = next(path for folder in ("/bin", "/usr/bin", "") if os.path.exists(path := f"{folder}/{name}"))
        found[f"bin/{os.path.basename(name)}"] = Path(path).read_bytes()
        found |= collect_libraries(path)
    return found


def collect_libraries(path: str) -> dict[str, Entry]:
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    return {path.lstrip("/"): Path(path).read_bytes() for path in re.findall(r"(/\S+) \(0x", listed)}
