"""Access to running tasks: the runtime's, and the secret that gateway and task know each other by."""

from functools import cache
from uuid import UUID

from django.conf import settings
from django.utils.crypto import salted_hmac
from django.utils.module_loading import import_string

from runtimes.contract.access import Access

UPSTREAM_TOKEN = "TESSERA_UPSTREAM_TOKEN"  # noqa: S105 (the name of a variable)
"""The variable in which a task finds its secret."""


@cache
def get_access() -> Access:
    return import_string(settings.TESSERA_ACCESS)(**settings.TESSERA_RUNTIME_OPTIONS)


def derive_task_secret(task_uuid: str | UUID) -> str:
    """Return the task's secret, 64 hex digits. Raises ValueError."""
    return salted_hmac("tessera.upstream", UUID(str(task_uuid)).hex, algorithm="sha256").hexdigest()
