"""What each pool and team holds, and how much of it is at work: one sample of each, for curves over all of them."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from django.db.models import Count
from django.utils import timezone

from cluster.models import Gpu
from jobs.models import Task
from monitoring.models import Sample, Source
from monitoring.samples.newest import CardUse, TaskUse, load_card_uses, load_task_uses
from monitoring.series.keys import Key, Kind
from monitoring.series.store import keep_samples
from quotas.models import Holding, load_parents, team_chain

TALLY_S = 30
ACTIVE_PERCENT = 5.0
"""A share that is busy for less of its time is idle."""
WHOLE_MILLI = 1000


def record_tally() -> None:
    """Keep a sample of each pool and team that has or holds cards."""
    capacity = _load_capacity()
    amounts: dict[Key, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    simulated: set[Key] = set()
    for keys, milli, state, source in _load_shares():
        for key in keys:
            amounts[key][state] += milli
            simulated |= {key} if source == Source.SIMULATED else set()
    at = timezone.now()
    keep_samples([_build(key, at, capacity.get(key), amounts[key], key in simulated) for key in {*capacity, *amounts}])


def judge_share(gpu_milli: int, compute_percent: int, share: tuple[float | None, str] | None) -> str:
    """Return "active", "idle" or "unknown" of a share. share: how busy it keeps the card in percent, and the source."""
    if share is None or share[0] is None:
        return "unknown"
    return "active" if 100 * share[0] >= ACTIVE_PERCENT * (compute_percent or 100) else "idle"


def _load_shares() -> list[tuple[list[Key], int, str, str]]:
    """Return (whom it counts for, milli-cards, state, source) of each card that a task holds."""
    held = list(
        Holding.objects.live()
        .filter(gpu__isnull=False)
        .values_list("task", "team", "pool", "gpu", "gpu__uuid", "gpu_milli", "gpu_compute_percent")
    )
    ids = dict(Task.objects.filter(uuid__in={row[0] for row in held}).values_list("uuid", "pk"))
    tasks, cards = load_task_uses(ids.values()), load_card_uses({row[3] for row in held})
    parents, found = load_parents(), []
    for task, team, pool, gpu, uuid, milli, compute in held:
        share = _find_use(tasks.get(ids.get(task, 0)), uuid, milli, cards.get(gpu))
        whom = [Key(Kind.POOL, pool), *(Key(Kind.TEAM, one) for one in team_chain(team, parents))]
        found.append((whom, milli, judge_share(milli, compute, share), share[1] if share else ""))
    return found


def _find_use(task: TaskUse | None, uuid: str, milli: int, card: CardUse | None) -> tuple[float | None, str] | None:
    """Return how busy a share keeps its card. Who holds a whole card does all that the card does."""
    share = task.shares.get(uuid) if task else None
    if share is not None and share.busy_percent is not None:
        return share.busy_percent, share.source
    if milli >= WHOLE_MILLI and card is not None:
        return card.busy_percent, card.source
    return None


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
