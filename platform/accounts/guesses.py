"""Limits tries at secrets, counted in the database: for all processes together, whatever becomes of the cache."""

import hashlib
import logging
import math
from datetime import UTC, datetime
from time import time

from django.db import connection

from accounts.models import GuessCount
from common.errors import TooManyRequests

log = logging.getLogger("tessera.rates")

COUNT = """INSERT INTO accounts_guesscount (key, used, ends_at) VALUES (%s, 1, %s)
ON CONFLICT (key) DO UPDATE SET used = accounts_guesscount.used + 1 RETURNING used"""


def check_guess(what: str, who: str, *, limit: int, per_s: int) -> None:
    """Count a try in the present window of so many seconds. Raises TooManyRequests above `limit`.

    Outside a transaction: a try counts whatever becomes of its request.
    """
    now = time()
    ends_at = (now // per_s + 1) * per_s
    used = _count(f"{what}\0{who}\0{ends_at:.0f}", *(datetime.fromtimestamp(at, UTC) for at in (ends_at, now)))
    if used > limit:
        log.warning("too many %s", what)
        raise TooManyRequests(retry_after_s=math.ceil(ends_at - now))


def _count(text: str, ends_at: datetime, now: datetime) -> int:
    """Return how often it was counted, with this one. Each new count removes those that are over."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [hashlib.sha256(text.encode()).hexdigest(), ends_at])
        used = cursor.fetchone()[0]
    if used == 1:
        GuessCount.objects.filter(ends_at__lte=now).delete()
    return used
