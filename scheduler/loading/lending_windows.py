"""Load windows in which pools lend cards."""

from collections.abc import Sequence
from datetime import UTC, datetime

from cluster.models import Pool
from cluster.windows import lends_until, load_spans
from scheduler.core.model.types import LendingWindow


def load_windows(pools: Sequence[Pool], card_pools: Sequence[int], now: float) -> tuple[LendingWindow, ...]:
    """Load current and coming windows. card_pools: [G] pool ids; pools in windows are indices in `pools`."""
    at = {pool.pk: place for place, pool in enumerate(pools)}
    windows = []
    for (lender, borrower), spans in load_spans(datetime.fromtimestamp(now, UTC)).items():
        gpus = tuple(gpu for gpu, pool in enumerate(card_pools) if pool == lender)
        windows += [
            LendingWindow(gpus, at[borrower], begins.timestamp(), ends.timestamp()) for begins, ends in spans if gpus
        ]
    return tuple(windows)


def is_lent(lender_id: int, borrower_id: int, now: datetime, time_s: float) -> bool:
    """Return whether the pool lends for `time_s` from now."""
    until = lends_until(now).get((lender_id, borrower_id))
    return until is not None and (until - now).total_seconds() >= time_s
