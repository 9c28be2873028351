"""A process that brings a task's image, so that the shim waits for nothing. It writes why it could not."""

import fcntl
import os
import sys
from pathlib import Path

from runtimes.local.images.image_store import ImageStore
from runtimes.local.images.podman import Podman, PodmanFailed
from runtimes.local.images.pull import bring_image, is_local, trim_store
from runtimes.local.isolation import die_with_parent
from runtimes.local.shim.rootfs.task_image import hold_image, read_login
from runtimes.local.taskdir import TaskDir


def main(path: str) -> None:
    """Bring the image of a task's plan, and hold it; exit 1 with words on stdout. path: the task's. stdin: a login."""
    die_with_parent()
    task = TaskDir(path)
    image = (task.read("spec.json") or {})["plan"]["image"]
    store = ImageStore(Path(image["store"]))
    podman = Podman(store, image["proxies"], image["authority"], image["plain"], image["most_bytes"])
    try:
        with store.lock("pulls", fcntl.LOCK_SH):
            record = bring_image(podman, image["name"], read_login(0))
            hold_image(task, store, record)
    except (PodmanFailed, OSError) as error:
        print(error)
        sys.exit(1)
    if is_local(image["name"]):
        return  # nothing came
    try:
        trim_store(podman, image["most_bytes"], os.path.dirname(path))
    except (PodmanFailed, OSError) as error:
        print(f"The store of images stays above its limit: {error}", file=sys.stderr)
