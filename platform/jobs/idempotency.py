"""Answer a repeated Idempotency-Key with the first request's result.

Keys are stored in the transaction of the work, so a refusal does not use one up.
"""

import hashlib

from django.db import IntegrityError, models, transaction

from accounts.models import User
from common.errors import KeyReused
from common.steady_clock import steady_now
from jobs.models import IdempotencyKey


def find_answer(*, user: User, key: str, body: bytes) -> int | None:
    """Return the id of what this key made before. Raises KeyReused for another body.

    body: what was sent, with the address where one key could reach several.
    """
    row = IdempotencyKey.objects.filter(user=user, key=key).first() if key else None
    if row is None:
        return None
    if row.fingerprint != _fingerprint(body):
        raise KeyReused(key=key)
    return row.object_id


def keep_answer(*, user: User, key: str, body: bytes, made: models.Model) -> None:
    """Store what a key made. Raises KeyReused after a faster request; the transaction is then broken."""
    if not key:
        return
    try:
        with transaction.atomic(savepoint=False):
            answer = {"kind": made.KIND, "object_id": made.pk}  # type: ignore[attr-defined]
            IdempotencyKey.objects.create(
                user=user, key=key, fingerprint=_fingerprint(body), created_at=steady_now(), **answer
            )
    except IntegrityError:
        raise KeyReused(key=key) from None


def _fingerprint(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
