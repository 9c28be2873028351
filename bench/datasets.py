"""How long versions of large folders take, and what they need on disk. bin/bench datasets [--files N]

Run beside other work, the times are upper bounds. Where mkfs.xfs and loop devices are, the same with shared blocks.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage

from runtimes.dataset_store.layout import StoreLayout
from runtimes.dataset_store.removing import remove_version, sweep_store
from runtimes.dataset_store.taking import Taken, take_folder
from runtimes.storage.areas import AreaId, get_area_path
from runtimes.storage.file_store import FileStore

UID = GID = 54321
HOME = AreaId("home", UID)
KEY = "0123456789abcdef" * 2
SMALL, CHANGED = 4096, 100
LARGE_FILES, LARGE = 64, 16 << 20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=100_000)
    files = options.parse_args().files
    with tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        os.chmod(folder, 0o711)
        measure_small_files(Path(folder), files)
        measure_large_files(Path(folder), "this disk")
    with mount_xfs() as folder:
        if folder is None:
            print("NOT RUN: shared blocks; they need root, mkfs.xfs (Debian: xfsprogs) and loop devices")
        else:
            measure_large_files(folder, "XFS with shared blocks")


def measure_small_files(folder: Path, files: int) -> None:
    root, corpus = make_home(folder / "small")
    for number in range(files):
        if number % 1000 == 0:
            (corpus / str(number // 1000)).mkdir()
        (corpus / str(number // 1000) / str(number)).write_bytes(os.urandom(SMALL))
    first = take(root, 1)
    print(f"{files} files of {SMALL} B: first version {first[1]:.1f} s, {first[0].progress.new_bytes} B new")
    for number in range(CHANGED):
        (corpus / "0" / str(number)).write_bytes(os.urandom(SMALL))
    second = take(root, 2)
    share = second[0].progress.new_bytes / (CHANGED * SMALL)
    print(f"{CHANGED} of them changed: second version {second[1]:.1f} s, {share:.2f} x the changed bytes new")
    layout, began = StoreLayout(root), time.monotonic()
    remove_version(layout, KEY, 1)
    swept = sweep_store(layout, lambda: {(KEY, 2)})
    print(f"first version removed and swept: {time.monotonic() - began:.1f} s, {swept.objects} objects")


def measure_large_files(folder: Path, where: str) -> None:
    root, corpus = make_home(folder / "large")
    for number in range(LARGE_FILES):
        (corpus / str(number)).write_bytes(os.urandom(LARGE))
    os.sync()
    before = disk_usage(root).used
    taken, seconds = take(root, 1)
    os.sync()
    grown = (disk_usage(root).used - before) / taken.summary.bytes
    rate, what = taken.summary.bytes / seconds / 2**20, f"{LARGE_FILES} files of {LARGE >> 20} MiB on {where}"
    print(f"{what}: {seconds:.1f} s, {rate:.0f} MiB/s, disk grew by {grown:.1%}")


def make_home(root: Path) -> tuple[Path, Path]:
    root.mkdir(mode=0o711)
    FileStore(root, HOME, uid=UID, gid=GID).list_folder()
    corpus = get_area_path(root, HOME) / "corpus"
    corpus.mkdir()
    return root, corpus


def take(root: Path, number: int) -> tuple[Taken, float]:
    began = time.monotonic()
    walk = FileStore(root, HOME, uid=UID, gid=GID).open_walk("corpus")
    try:
        taken = take_folder(StoreLayout(root), walk, key=KEY, number=number)
    finally:
        walk.close()
    return taken, time.monotonic() - began


@contextmanager
def mount_xfs() -> Iterator[Path | None]:
    """Mount an XFS in a file for a while; None where that cannot be."""
    if os.geteuid() != 0 or shutil.which("mkfs.xfs") is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        os.chmod(folder, 0o711)
        disk, point = Path(folder, "disk"), Path(folder, "mounted")
        point.mkdir()
        with open(disk, "wb") as file:
            file.truncate(8 << 30)
        subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", disk], check=True)
        if subprocess.run(["mount", "-o", "loop", disk, point], check=False).returncode != 0:
            yield None
            return
        try:
            point.chmod(0o711)
            yield point
        finally:
            subprocess.run(["umount", point], check=True)


if __name__ == "__main__":
    main()
