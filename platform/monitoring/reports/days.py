"""Sum holdings by day once they have been over for a while: what they did then changes no more.

Reports read these sums, and of the rest the holdings themselves, so that they are always complete.
"""

import time
from datetime import date, datetime, timedelta

from django.db import connection, transaction
from django.db.models import Min

from common.steady_clock import steady_now
from monitoring.models import UsageDay, UsageSettled
from monitoring.models.usage_day import SUMS
from monitoring.reports.spans import find_midnight
from monitoring.usage.report import COUNTED, CUT, HOLDING
from quotas.models import Holding

SETTLES_AFTER = timedelta(hours=1)
"""Samplers send again what is half an hour old at most."""
STEP = timedelta(days=7)
"""Of ends that are summed in one transaction."""


def settle_days(for_s: float = 60.0, now: datetime | None = None) -> bool:
    """Sum the holdings that have been over for SETTLES_AFTER; return whether all of them are. for_s: then it stops."""
    target, deadline = (now or steady_now()) - SETTLES_AFTER, time.monotonic() + for_s
    while not _settle_step(target):
        if time.monotonic() > deadline:
            return False
    return True


def rebuild_days(first: date) -> int:
    """Sum the days from `first` on anew; return how many rows they have. Reports wait for nothing meanwhile."""
    with transaction.atomic():
        settled = UsageSettled.objects.select_for_update().first()
        if settled is None:
            return 0
        UsageDay.objects.filter(day__gte=first).delete()
        begins = datetime.combine(first, datetime.min.time(), settled.settled_to.tzinfo)
        _add_days(begins, settled.settled_to, first)
        return UsageDay.objects.filter(day__gte=first).count()


@transaction.atomic
def _settle_step(target: datetime) -> bool:
    """Sum some more; return whether that is all. Only one process does it at a time."""
    settled = UsageSettled.objects.select_for_update().first() or _begin()
    if settled is None or settled.settled_to >= target:
        return True
    until = min(settled.settled_to + STEP, target)
    _add_days(settled.settled_to, until, date.min)
    settled.settled_to = until
    settled.save()
    return until == target


def _begin() -> UsageSettled | None:
    """Return the row as of before the first end; None if nothing has ended. Of two at once the second fails."""
    earliest = Holding.objects.aggregate(at=Min("released_at"))["at"]
    return None if earliest is None else UsageSettled.objects.create(pk=1, settled_to=find_midnight(earliest))


def _add_days(after: datetime, until: datetime, first: date) -> None:
    """Add the holdings that were released from `after` on and before `until` to the days from `first` on."""
    with connection.cursor() as cursor:
        cursor.execute(ADD, {"after": after, "until": until, "first": first})


ADD = """
INSERT INTO monitoring_usageday (day, team_id, user_id, pool_id, model, simulated, held, active, idle, unknown, busy,
    begun, carried)
WITH held AS MATERIALIZED (
    SELECT h.team_id, h.user_id, h.pool_id, gpu.model, {holding}, h.released_at, false AS open
    FROM quotas_holding h JOIN cluster_gpu gpu ON gpu.id = h.gpu_id
    WHERE h.released_at >= %(after)s AND h.released_at < %(until)s
), span AS MATERIALIZED (
    SELECT begins, begins + interval '1 day' AS ends, 'all' AS of, true AS leads
    FROM generate_series((SELECT date_trunc('day', min(held_from), 'UTC') FROM held), %(until)s, '1 day') AS begins
    WHERE begins >= %(first)s::timestamp AT TIME ZONE 'UTC'
), {cut}
SELECT (begins AT TIME ZONE 'UTC')::date, team_id, user_id, pool_id, model, simulated, sum(held), sum(active),
    sum(idle), sum(unknown), sum(busy), count(*) FILTER (WHERE begun), count(*) FILTER (WHERE carried)
FROM part GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
ON CONFLICT ON CONSTRAINT one_sum_of_a_day DO UPDATE SET {add}
"""
ADD = ADD.replace("{holding}", HOLDING).replace("{cut}", CUT.replace("%(count)s", COUNTED))
ADD = ADD.replace("{add}", ", ".join(f"{name} = monitoring_usageday.{name} + excluded.{name}" for name in SUMS))
