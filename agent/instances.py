"""The instances into which MIG cuts a card: where they are, and what the driver calls them.

An administrator makes them (nvidia-smi mig, NVIDIA's mig-manager); nothing here makes or removes one.
Sources: NVML, Multi Instance GPU Management; NVIDIA's MIG user guide.
"""

import re
from collections.abc import Iterator
from typing import Any

import pynvml

FROM, STRIDE = 1000, 100
"""Instance 5 of card 2 is in place 1205: apart from the places of cards, and of the other cards' instances."""
NAMED = re.compile(r" MIG (?P<profile>(?:\d+c\.)?\d+g\.\d+gb\S*)", re.IGNORECASE)
PART = re.compile(r"\d+c\.")


class Unusable(Exception):
    """The driver tells of an instance in a way that nobody can be given it. The message is a sentence."""


def is_cut(handle: Any) -> bool:
    try:
        return pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except pynvml.NVMLError:
        return False


def list_places(handle: Any) -> Iterator[int]:
    """Where this card may have instances. Raises NVMLError."""
    yield from range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))


def find_instance(handle: Any, place: int) -> Any:
    """Its handle; None where nobody made one. Raises NVMLError."""
    try:
        return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_FOUND:
            return None
        raise


def list_instances(handle: Any) -> list[Any]:
    """The handles of those that a card has. Raises NVMLError."""
    found = (find_instance(handle, place) for place in list_places(handle))
    return [instance for instance in found if instance is not None]


def index_of(card: int, place: int) -> int:
    return FROM + STRIDE * card + place


def check_uuid(uuid: str) -> str:
    """Raises Unusable for the form of drivers before R470, which names a path."""
    if "/" in uuid:
        raise Unusable("This driver has no uuids for the instances of a card. Use R470 or newer.")
    return uuid


def profile_of(name: str) -> str:
    """`NVIDIA A100-SXM4-40GB MIG 1g.5gb` is 1g.5gb. Raises Unusable."""
    found = NAMED.search(name)
    if found is None:
        raise Unusable(f"The driver does not say which size this instance has, but calls it {name}.")
    return found["profile"]


def is_part(profile: str) -> bool:
    """1c.2g.10gb: some of the compute of an instance, whose memory it shares with the rest."""
    return PART.match(profile) is not None


def model_of(card: str, profile: str) -> str:
    """What people ask for: `A100-40GB-1g.5gb`; `1g.10gb+me` ends in `-me`, `1g.24gb-me` in `-no-me`."""
    return f"{card}-{profile.replace('-', '-no-').replace('+', '-')}"
