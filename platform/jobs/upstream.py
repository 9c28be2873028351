"""The secret between the gateway and what answers inside one task: it proves that an address is still this task's."""

from uuid import UUID

from django.utils.crypto import salted_hmac

UPSTREAM_TOKEN = "TESSERA_UPSTREAM_TOKEN"  # noqa: S105 (the name of a variable)
"""The variable in which the task finds its own."""


def upstream_secret(task_uuid: str | UUID) -> str:
    """64 hex digits, the same for ever for one task and known to it and to us. Kept nowhere: made from the secret key.

    task_uuid: a UUID, or its hex with or without dashes. Raises ValueError for anything else.
    """
    return salted_hmac("tessera.upstream", UUID(str(task_uuid)).hex, algorithm="sha256").hexdigest()
