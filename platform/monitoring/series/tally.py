"""What each pool and team holds, and how much of it is at work: one sample of each, for curves over all of them."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from django.db.models import Count
from django.utils import timezone

from cluster.models import Gpu
from monitoring.models import Sample, Source
from monitoring.samples.shares import WHOLE_MILLI, judge_share, load_held_shares
from monitoring.series.keys import Key, Kind
from monitoring.series.store import keep_samples
from quotas.models import load_parents, team_chain

TALLY_S = 30


def record_tally() -> None:
    """Keep a sample of each pool and team that has or holds cards."""
    capacity = _load_capacity()
    amounts: dict[Key, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    simulated: set[Key] = set()
    parents = load_parents()
    for share in load_held_shares():
        for key in [Key(Kind.POOL, share.pool), *(Key(Kind.TEAM, team) for team in team_chain(share.team, parents))]:
            amounts[key][judge_share(share.percent)] += share.milli
            simulated |= {key} if share.source == Source.SIMULATED else set()
    at = timezone.now()
    keep_samples([_build(key, at, capacity.get(key), amounts[key], key in simulated) for key in {*capacity, *amounts}])


def _load_capacity() -> dict[Key, int]:
    """Return the milli-cards of each pool."""
    rows = Gpu.objects.present().values_list("pool").annotate(cards=Count("pk")).order_by()
    return {Key(Kind.POOL, pool): WHOLE_MILLI * cards for pool, cards in rows}


def _build(key: Key, at: datetime, capacity: int | None, amounts: Mapping[str, int], simulated: bool) -> Sample:
    states = [amounts.get(state, 0) for state in ("active", "idle", "unknown")]
    return Sample(
        kind=key.kind,
        subject=key.subject,
        card=key.card,
        at=at,
        span_ms=1000 * TALLY_S,
        source=Source.SIMULATED if simulated else Source.MEASURED,
        values=[capacity, sum(states), *states],
    )
