"""What is left of the disk that the platform lives on."""

from pathlib import Path
from shutil import disk_usage

from django.conf import settings

from common.errors import DiskFull


def check_disk() -> None:
    """Raise DiskFull where less is free than the platform keeps for what runs already."""
    least = settings.TESSERA_DISK_RESERVE_MIB
    if least and free_mib() < least:
        raise DiskFull


def free_mib() -> int:
    """Return what an ordinary account may still write there, in MiB."""
    data = Path(settings.TESSERA_DATA)
    made = next(path for path in (data, *data.parents) if path.exists())
    return disk_usage(made).free >> 20
