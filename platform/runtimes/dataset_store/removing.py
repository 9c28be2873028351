"""Remove versions, and sweep what no version has: objects, and trees that were left behind."""

import os
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runtimes.dataset_store.layout import OWN, StoreLayout, remove_tree

Version = tuple[str, int]
"""(key, number)."""
_MANIFEST = re.compile(r"([0-9a-f]{32})-([0-9]+)\.jsonl")


@dataclass(frozen=True)
class Swept:
    """How many were removed."""

    places: int
    versions: int
    objects: int


def remove_version(layout: StoreLayout, key: str, number: int) -> None:
    """Remove a version, whose objects the next sweep takes. It is gone at once, also for tasks that start now."""
    target = layout.version(key, number)
    layout.make_folders()
    with layout.open_workplace() as place, suppress(FileNotFoundError):
        os.chmod(target, OWN)
        os.rename(target, place / "tree")
    layout.manifest(key, number).unlink(missing_ok=True)


def sweep_store(layout: StoreLayout, list_wanted: Callable[[], Collection[Version]]) -> Swept:
    """Remove what was left behind. list_wanted: asked after the trees are listed, so that none is too new for it."""
    layout.make_folders()
    places = layout.list_abandoned()
    for place in places:
        with suppress(FileNotFoundError):
            remove_tree(place)
    found = _list_versions(layout)
    wanted = list_wanted()
    orphans = [version for version in sorted(found) if version not in wanted]
    for key, number in orphans:
        remove_version(layout, key, number)
    return Swept(len(places), len(orphans), _sweep_objects(layout.objects))


def _list_versions(layout: StoreLayout) -> set[Version]:
    """Return the versions that have a tree or a manifest."""
    trees = {
        (folder.name, int(tree.name))
        for folder in layout.versions.iterdir()
        if folder.is_dir() and not folder.name.startswith(".")
        for tree in folder.iterdir()
        if tree.name.isdecimal()
    }
    manifests = (_MANIFEST.fullmatch(path.name) for path in layout.manifests.iterdir())
    return trees | {(found[1], int(found[2])) for found in manifests if found}


def _sweep_objects(objects: Path) -> int:
    """Remove objects that no tree has. A link that is made meanwhile keeps its content, which is then no object."""
    removed = 0
    for folder in objects.iterdir():
        with os.scandir(folder) as found:
            for one in found:
                if one.stat(follow_symlinks=False).st_nlink == 1:
                    os.unlink(one.path)
                    removed += 1
    return removed
