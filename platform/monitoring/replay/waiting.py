"""Which jobs waited at a past moment, and since when: from tasks, jobs and events, as the report of waits reads them.

Their places in the queue and the reasons why they waited are not kept.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from jobs.models import Job

SPANS = """
    SELECT t.job_id, coalesce(t.assigned_at, t.ended_at) AS over_at,
        CASE WHEN t.attempt = 1 THEN j.eligible_at
            WHEN t.attempt = j.attempt THEN j.queued_at
            ELSE (SELECT max(e.at) FROM events_event e WHERE e.kind = 'job' AND e.object_id = j.id
                AND e.to_state = 'QUEUED' AND e.at <= coalesce(t.assigned_at, t.ended_at))
        END AS queued_at
    FROM jobs_task t CROSS JOIN LATERAL (
        SELECT id, attempt, submitted_at, eligible_at, queued_at FROM jobs_job WHERE id = t.job_id OFFSET 0
    ) j
    WHERE t.rank = 0 AND j.submitted_at <= %(ends)s
        AND (coalesce(t.assigned_at, t.ended_at) > %(begins)s OR coalesce(t.assigned_at, t.ended_at) IS NULL)
"""
"""Each wait that was not over at `begins`, of a job that was there at `ends`; over_at is NULL while it goes on.

OFFSET 0: each job by its id. A join makes the planner read all jobs that there ever were.
"""
QUERY = """
WITH span AS ({spans})
SELECT span.job_id, greatest(queued_at, CASE WHEN last.verb = 'released' THEN last.at END),
    coalesce(last.verb = 'held', false)
FROM span LEFT JOIN LATERAL (
    SELECT e.verb, e.at FROM events_event e
    WHERE e.kind = 'job' AND e.object_id = span.job_id AND e.verb IN ('held', 'released') AND e.at <= %(ends)s
    ORDER BY e.seq DESC LIMIT 1
) last ON true
WHERE queued_at <= %(ends)s AND (%(pool)s = '' OR EXISTS (
    SELECT FROM jobs_job j JOIN cluster_pool p ON p.id = j.pool_id WHERE j.id = span.job_id
        AND CASE WHEN j.choices = '[]' THEN p.name = %(pool)s ELSE j.choices @> %(chosen)s::jsonb END
))
ORDER BY 2, 1
""".replace("{spans}", SPANS)


class FoundWait(NamedTuple):
    """since: the job's submit, new try or release, whichever was last. held: by a person."""

    job_id: int
    since: datetime
    held: bool


@dataclass(frozen=True)
class Wait:
    """A job that waited, with what `FoundWait` says of it."""

    job: Job
    since: datetime
    held: bool

    @property
    def pools(self) -> tuple[str, ...]:
        """All where it waited."""
        return tuple(choice["name"] for choice in self.job.choices) or (self.job.pool.name,)

    @property
    def asks(self) -> tuple[tuple[str, int], ...]:
        """(GPUs of a task, tasks) of each role, the fewest with which it starts."""
        return tuple((role["request"]["gpu"], role["min"]) for role in self.job.gang)


def find_waits(at: datetime, pool: str = "") -> list[FoundWait]:
    """Find the jobs that waited, those first that had waited longest. pool: its name; "" is all."""
    with connection.cursor() as cursor:
        cursor.execute(QUERY, {"begins": at, "ends": at, "pool": pool, "chosen": json.dumps([{"name": pool}])})
        return [FoundWait(*row) for row in cursor]


def load_waits(found: Sequence[FoundWait]) -> list[Wait]:
    """Return them with their jobs, in the same order."""
    jobs = Job.objects.with_names().defer("spec", "labels").in_bulk([wait.job_id for wait in found])
    return [Wait(jobs[pk], since, held) for pk, since, held in found]
