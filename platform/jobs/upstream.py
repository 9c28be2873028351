"""The secret by which the gateway and a program inside a task know each other."""

from uuid import UUID

from django.utils.crypto import salted_hmac

UPSTREAM_TOKEN = "TESSERA_UPSTREAM_TOKEN"  # noqa: S105 (the name of a variable)
"""The variable in which a task finds its secret."""


def upstream_secret(task_uuid: str | UUID) -> str:
    """Return the task's secret, 64 hex digits. Raises ValueError."""
    return salted_hmac("tessera.upstream", UUID(str(task_uuid)).hex, algorithm="sha256").hexdigest()
