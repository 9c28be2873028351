"""What the runtime of this installation can do, for pages and API."""

from scheduler.runtime import can_resize, get_runtime


def runtime_has_containers() -> bool:
    return get_runtime().capabilities.containers


def runtime_resizes() -> bool:
    return can_resize()
