"""A task's image as its shim sees it: here already, or to be pulled first. Few imports, for the shim."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from runtimes.local.images.image_store import ImageRecord, ImageStore, Login
from runtimes.local.shim.rootfs.image_root import make_layer_folders
from runtimes.local.taskdir import TaskDir
from runtimes.python_environment import put_programs_first
from runtimes.report_file import add_tools

DRIVER_FOLDER = "/usr/local/nvidia"
"""Where tasks in images find the driver; NVIDIA's own images look there."""
MOST_LOGIN = 64 << 10
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def take_image(task: TaskDir, plan: dict, login: Login) -> bool:
    """Hold the task's image until the task's end if it is here; False if it must be pulled first. Raises OSError."""
    image = plan["image"]
    store = ImageStore(Path(image["store"]))
    store.prepare()
    with store.lock():
        record = store.find(image["key"], login)
        if record is not None:
            hold_image(task, store, record)
    return record is not None


def hold_image(task: TaskDir, store: ImageStore, record: ImageRecord) -> None:
    """Note that a task uses an image, which stays until it has ended. The caller holds a lock of the store."""
    store.note_use(record)
    task.write("image", {"id": record.id, "layers": record.layers, "env": record.env})


def complete_plan(task: TaskDir, plan: dict) -> None:
    """Complete the plan by the image that the task holds. Raises OSError."""
    image, held = plan["image"], task.read("image")
    if held is None:
        raise FileNotFoundError("Its image is gone.")
    make_layer_folders(image["folder"])
    plan["image"] = image | {"overlay": str(ImageStore(Path(image["store"])).overlay), "layers": held["layers"]}
    env = build_environment(held["env"], plan["env"], with_driver=bool(image["files"]))
    plan["env"] = add_tools(put_programs_first(env, plan["seen_at"]), plan["seen_at"])


def build_environment(of_image: Mapping[str, str], of_task: Mapping[str, str], *, with_driver: bool) -> dict[str, str]:
    """Return the image's variables below the task's."""
    env = {"PATH": DEFAULT_PATH, **of_image, **of_task}
    if with_driver:
        env["PATH"] = f"{env['PATH']}:{DRIVER_FOLDER}/bin"
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, (env.get("LD_LIBRARY_PATH"), f"{DRIVER_FOLDER}/lib64")))
    return env


def read_login(fd: int) -> Login:
    """Return the login of a file in memory, which stays open; none of an empty one. fd: -1 for none."""
    said = os.pread(fd, MOST_LOGIN, 0) if fd >= 0 else b""
    return json.loads(said) if said else ()
