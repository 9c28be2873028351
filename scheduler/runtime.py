"""The runtime of this installation, from the settings."""

from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from runtimes.contract.runtime import Runtime, Sampler


@cache
def get_runtime() -> Runtime:
    return import_string(settings.TESSERA_RUNTIME)(**settings.TESSERA_RUNTIME_OPTIONS)


def can_resize() -> bool:
    """Return whether it can resize slices, without creating it."""
    return import_string(settings.TESSERA_RUNTIME).capabilities.resizes


def has_own_addresses() -> bool:
    """Return whether its tasks have their own addresses, without creating it."""
    return import_string(settings.TESSERA_RUNTIME).capabilities.own_addresses


def list_listening_ports() -> set[int]:
    """Return the ports that programs of the machine hold; none where tasks have their own addresses."""
    dotted = import_string(settings.TESSERA_RUNTIME).capabilities.listening
    return import_string(dotted)() if dotted else set()


@cache
def get_sampler() -> Sampler | None:
    """Return what samples the machine that this process sees; None where agents do."""
    dotted = import_string(settings.TESSERA_RUNTIME).capabilities.sampler
    return import_string(dotted)(get_runtime()) if dotted else None
