"""Folders of people of which versions are taken, and what a store holds."""

import hashlib
import os
from pathlib import Path

from runtimes.dataset_store.layout import StoreLayout
from runtimes.dataset_store.manifest import FILE, LINK, read_manifest
from runtimes.dataset_store.taking import Taken, take_folder
from runtimes.storage.areas import AreaId, get_area_path
from runtimes.storage.file_store import FileStore

UID = GID = 54321
HOME = AreaId("home", UID)
KEY = "0123456789abcdef" * 2


def home(root: Path) -> Path:
    """Return the person's home, made."""
    FileStore(root, HOME, uid=UID, gid=GID).list_folder()
    return get_area_path(root, HOME)


def fill(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o644)


def take(root: Path, path: str, number: int = 1, key: str = KEY, **options) -> Taken:
    walk = FileStore(root, HOME, uid=UID, gid=GID).open_walk(path)
    try:
        return take_folder(StoreLayout(root), walk, key=key, number=number, **options)
    finally:
        walk.close()


def read_version(root: Path, number: int = 1, key: str = KEY) -> dict[str, bytes | str]:
    """Return what a version's tree holds: contents of files, targets of links."""
    top = StoreLayout(root).version(key, number)
    found: dict[str, bytes | str] = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            found[os.path.relpath(path, top)] = os.readlink(path) if path.is_symlink() else path.read_bytes()
        for name in os.listdir(folder):
            if (path := Path(folder, name)).is_symlink():
                found[os.path.relpath(path, top)] = os.readlink(path)
    return found


def check_version(root: Path, number: int, key: str = KEY) -> None:
    """Assert that the tree is what the manifest says, byte for byte."""
    layout = StoreLayout(root)
    entries = list(read_manifest(layout.manifest(key, number)))
    tree = read_version(root, number, key)
    said = {entry.path: entry.digest for entry in entries if entry.kind in (FILE, LINK)}
    assert said == {path: content if isinstance(content, str) else digest(content) for path, content in tree.items()}


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def list_objects(root: Path) -> dict[str, int]:
    """Return each object's count of links."""
    return {path.name: path.stat().st_nlink for path in StoreLayout(root).objects.glob("*/*")}
