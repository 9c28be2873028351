"""How many cards were held and how many jobs waited at each step of a span, to see where to look."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from django.db import connection

from monitoring.replay.waiting import SPANS

HELD = """
    SELECT held_from AS begins, released_at AS ends, gpu_milli AS amount FROM quotas_holding
    WHERE gpu_id IS NOT NULL AND held_from <= %(ends)s AND (released_at > %(begins)s OR released_at IS NULL)
"""
WAITED = """
    SELECT queued_at AS begins, over_at AS ends, 1 AS amount FROM ({spans}) span
    WHERE over_at IS NULL OR over_at > queued_at
""".replace("{spans}", SPANS)
STEPS = """
SELECT greatest(ceil(extract(epoch FROM at - %(begins)s) / %(step_s)s), 0)::int AS step, sum(change)
FROM ({spans}) span, LATERAL (VALUES (span.begins, amount), (span.ends, -amount)) moment(at, change)
WHERE at <= %(ends)s GROUP BY step
"""
"""What was added and taken away before each step, since the one before it."""


@dataclass(frozen=True)
class Hour:
    """A step: what was so at its begin."""

    at: datetime
    held_milli: int
    waiting: int


def load_hours(begins: datetime, ends: datetime, step: timedelta) -> list[Hour]:
    """Return what was held and waited at `begins` and each step on, up to `ends`."""
    steps = (ends - begins) // step + 1
    asked = {"begins": begins, "ends": begins + (steps - 1) * step, "step_s": step.total_seconds()}
    held, waiting = _sum_steps(HELD, asked, steps), _sum_steps(WAITED, asked, steps)
    return [Hour(begins + i * step, held[i], waiting[i]) for i in range(steps)]


def _sum_steps(spans: str, asked: Mapping[str, Any], steps: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(STEPS.replace("{spans}", spans), asked)
        changes = dict(cursor.fetchall())
    return list(accumulate(int(changes.get(i, 0)) for i in range(steps)))
