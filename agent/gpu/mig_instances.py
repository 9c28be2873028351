"""MIG instances of a card: reading only; administrators create them (nvidia-smi mig, mig-manager).

Sources: NVML, Multi Instance GPU Management; NVIDIA's MIG user guide.
"""

import re
from collections.abc import Iterator
from typing import Any

import pynvml

FROM, STRIDE = 1000, 100
"""Instance 5 of card 2 has index 1205, apart from all cards and other cards' instances."""
NAMED = re.compile(r" MIG (?P<profile>(?:\d+c\.)?\d+g\.\d+gb\S*)", re.IGNORECASE)
PART = re.compile(r"\d+c\.")


class Unusable(Exception):
    """The instance cannot be offered. The message is a sentence."""


def is_cut(handle: Any) -> bool:
    try:
        return pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except pynvml.NVMLError:
        return False


def list_instance_places(handle: Any) -> Iterator[int]:
    yield from range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))


def find_instance(handle: Any, place: int) -> Any:
    """Return an instance's handle, or None. Raises NVMLError."""
    try:
        return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_FOUND:
            return None
        raise


def list_instances(handle: Any) -> list[Any]:
    found = (find_instance(handle, place) for place in list_instance_places(handle))
    return [instance for instance in found if instance is not None]


def index_of(card: int, place: int) -> int:
    return FROM + STRIDE * card + place


def check_uuid(uuid: str) -> str:
    """Raise Unusable for uuids of drivers before R470, which are paths."""
    if "/" in uuid:
        raise Unusable("This driver has no uuids for the instances of a card. Use R470 or newer.")
    return uuid


def profile_of(name: str) -> str:
    """`NVIDIA A100-SXM4-40GB MIG 1g.5gb` is 1g.5gb. Raises Unusable."""
    found = NAMED.search(name)
    if found is None:
        raise Unusable(f"The driver does not say which size this instance has, but calls it {name}.")
    return found["profile"]


def is_instance_profile(profile: str) -> bool:
    """Return whether it shares its instance's memory, such as 1c.2g.10gb."""
    return PART.match(profile) is not None


def model_of(card: str, profile: str) -> str:
    """Return `A100-40GB-1g.5gb`; `+me` becomes `-me`, and `-me` `-no-me`."""
    return f"{card}-{profile.replace('-', '-no-').replace('+', '-')}"
