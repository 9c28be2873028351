"""Bring an image into the store, and keep the store below its limit."""

import fcntl
import shutil
from pathlib import Path
from typing import Any

from runtimes.gpu_sharing import is_forbidden_env
from runtimes.images.names import make_image_key, read_image
from runtimes.local.images.image_store import ImageRecord, ImageStore, Login
from runtimes.local.images.podman import Podman, PodmanFailed, measure_folders
from runtimes.local.taskdir import list_tasks

MOST_LAYERS = 140
"""The kernel takes a page of mount options; a layer's short name has 28 characters."""


LOCAL = "localhost"
"""The registry of images that were loaded or built on this machine: they are never pulled, and never removed."""


def bring_image(podman: Podman, name: str, login: Login) -> ImageRecord:
    """Return the image, pulled if it is not here for this login. Raises PodmanFailed, OSError.

    The caller holds the lock `pulls`.
    """
    store, key = podman.store, make_image_key(name)
    with store.lock_image(key):
        if (record := store.find(key, login)) is not None:
            return record  # somebody else brought it meanwhile
        id = name if is_local(name) else podman.pull(read_image(name), login)
        record = describe_image(podman, name, id, store.mark(login))
        store.write(record)
    return record


def describe_image(podman: Podman, name: str, id: str, mark: str) -> ImageRecord:
    """Return the record of an image that is in the store, open to one more login. Raises PodmanFailed."""
    said, key = podman.inspect(id), make_image_key(name)
    before = podman.store.read(key)
    known = before.open_to if before and before.id == said["Id"] else ()
    return ImageRecord(
        key=key,
        id=said["Id"],
        layers=list_layers(said["GraphDriver"]["Data"]),
        env=read_environment(said.get("Config") or {}),
        bytes=said["Size"],
        open_to=sorted({*known, mark}),
    )


def is_local(name: str) -> bool:
    """Return whether an image can only have been loaded or built on this machine."""
    return read_image(name).registry == LOCAL


def list_layers(data: dict[str, str]) -> list[str]:
    """Return the short names of an image's layers, topmost first. data: as podman tells of its overlay driver."""
    folders = [data["UpperDir"], *filter(None, data.get("LowerDir", "").split(":"))]
    if len(folders) > MOST_LAYERS:
        raise PodmanFailed(f"It has {len(folders)} layers; this machine can stack {MOST_LAYERS}.")
    return [f"l/{Path(folder).with_name('link').read_text().strip()}" for folder in folders]


def read_environment(config: dict[str, Any]) -> dict[str, str]:
    """Return an image's variables, without those that could change a slice."""
    pairs = (text.partition("=") for text in config.get("Env") or ())
    return {name: value for name, _, value in pairs if name and not is_forbidden_env(name)}


def trim_store(podman: Podman, most_bytes: int, tasks_dir: str) -> None:
    """Remove images that no task uses until the store is below its limit, least recently used first.

    Nothing while somebody pulls: who ends last does it.
    """
    store = podman.store
    try:
        with store.lock("pulls", fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(store.folder / "tmp", ignore_errors=True)  # of pulls that were killed
            (store.folder / "tmp").mkdir(mode=0o700)
            excess = measure_store(store) > most_bytes
            for id in list_removable(podman) if excess else ():
                if measure_store(store) <= most_bytes:
                    return
                with store.lock():
                    if id not in list_used_images(tasks_dir):
                        _remove(podman, id)
    except BlockingIOError:
        pass


def list_removable(podman: Podman) -> list[str]:
    """List ids of images that a registry has as well, least recently used first; before all what has no record."""
    records = podman.store.list_records()
    order = {record.id: place for place, record in enumerate(records)}
    images = [image for image in podman.list_images() if not _is_local(image)]
    return sorted(dict.fromkeys(image["Id"] for image in images), key=lambda id: order.get(id, -1))


def list_used_images(tasks_dir: str) -> set[str]:
    """Return ids of images of tasks that have not ended."""
    tasks = (task for task in list_tasks(Path(tasks_dir)) if task.read("exit") is None)
    return {claim["id"] for task in tasks if (claim := task.read("image")) is not None}


def measure_store(store: ImageStore) -> int:
    """Return the bytes of all layers; each counts once. Raises OSError."""
    return measure_folders(store.folder / "layers")


def _remove(podman: Podman, id: str) -> None:
    podman.remove(id)
    for record in podman.store.list_records():
        if record.id == id:
            podman.store.forget(record)


def _is_local(image: dict[str, Any]) -> bool:
    return any(name.startswith(f"{LOCAL}/") for name in image.get("Names") or ())
