"""Load the runtime's access to running tasks."""

from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from runtimes.contract.access import Access


@cache
def get_access() -> Access:
    return import_string(settings.TESSERA_ACCESS)(**settings.TESSERA_RUNTIME_OPTIONS)
