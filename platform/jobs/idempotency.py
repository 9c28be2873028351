"""Idempotency-Key: a request that is sent again is answered by what its first try made, and nothing is done twice.

The answer is kept in the transaction that does the work, so a refusal does not use a key up. scheduler.tasks.sweep
drops the old ones.
"""

import hashlib

from django.db import IntegrityError, models, transaction

from accounts.models import User
from common.errors import KeyReused
from jobs.models import IdempotencyKey


def find_answer(*, user: User, key: str, body: bytes) -> int | None:
    """The id of what the first request with this key made; None where there was none, or no key is sent.

    body: what was sent with it, its address too where one key could come to several. Raises KeyReused where it differs.
    """
    row = IdempotencyKey.objects.filter(user=user, key=key).first() if key else None
    if row is None:
        return None
    if row.fingerprint != _fingerprint(body):
        raise KeyReused(key=key)
    return row.object_id


def keep_answer(*, user: User, key: str, body: bytes, made: models.Model) -> None:
    """Raises KeyReused where another request with this key was faster: the transaction can do nothing more then."""
    if not key:
        return
    try:
        with transaction.atomic(savepoint=False):
            answer = {"kind": made.KIND, "object_id": made.pk}  # type: ignore[attr-defined]
            IdempotencyKey.objects.create(user=user, key=key, fingerprint=_fingerprint(body), **answer)
    except IntegrityError:
        raise KeyReused(key=key) from None


def _fingerprint(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
