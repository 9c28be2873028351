"""Which pools lend their cards now, and which jobs may use them: those that end before the window does, or that may be
stopped when it closes.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from cluster.models import Pool
from cluster.windows import lends_until
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Waiting

Lending = dict[tuple[int, int], datetime]
"""{(lender, borrower): until when}, pools by their ids."""


def load_lending(now: float) -> Lending:
    return lends_until(datetime.fromtimestamp(now, UTC))


def lend_cards(snapshot: Snapshot, pools: Sequence[Pool], lending: Lending, now: float) -> None:
    """Mark in a snapshot, whose pools these are, what is lent now and to whom."""
    if not lending:
        return
    at = {pool.pk: place for place, pool in enumerate(pools)}
    for lender, borrower in lending:
        snapshot.gpu_lent[snapshot.gpu_pool == at[lender]] = at[borrower]
    snapshot.waiting = tuple(with_lent(job, pools[job.pool].pk, lending, now) for job in snapshot.waiting)


def with_lent(job: Waiting, pool_id: int, lending: Lending, now: float) -> Waiting:
    """The job, told whether it may use what its pool is lent now. Of several windows the first to close counts."""
    ends = [until.timestamp() for (_, borrower), until in lending.items() if borrower == pool_id]
    return replace(job, lent=bool(ends) and (job.preemptible or now + job.time_s <= min(ends)))


def is_lent(lender_id: int, borrower_id: int, now: datetime) -> bool:
    return (lender_id, borrower_id) in lends_until(now)
