"""The runtime that this installation uses, loaded once by the dotted name in the settings."""

from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from runtimes.base import Runtime


@cache
def the_runtime() -> Runtime:
    return import_string(settings.TESSERA_RUNTIME)(**settings.TESSERA_RUNTIME_OPTIONS)


def resizes() -> bool:
    """Whether slices of its running tasks can be made another size; asked without making one."""
    return import_string(settings.TESSERA_RUNTIME).capabilities.resizes


def has_own_addresses() -> bool:
    """Whether its tasks have all ports to themselves; asked without making one."""
    return import_string(settings.TESSERA_RUNTIME).capabilities.own_addresses
