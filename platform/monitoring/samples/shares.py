"""What tasks hold of cards now, and how busy they keep it."""

from dataclasses import dataclass
from uuid import UUID

from jobs.models import Task
from monitoring.samples.growth import ACTIVE_PERCENT, scale_to_share
from monitoring.samples.newest import CardUse, TaskUse, load_card_uses, load_task_uses
from quotas.models import Holding

WHOLE_MILLI = 1000
"""Of a card."""
HELD = ("task", "team", "user", "node", "pool", "gpu", "gpu__uuid", "gpu_milli", "gpu_compute_percent")


@dataclass(frozen=True)
class HeldShare:
    """A card, or a part of one, that a task holds. percent: how busy it is, of its own time; None is not known.

    source: how the percent came about (Source), "" if nothing was sampled.
    """

    task: UUID
    team: int
    user: int
    node: int
    pool: int
    gpu: int
    uuid: str
    milli: int
    compute: int
    percent: float | None
    source: str


def load_held_shares() -> list[HeldShare]:
    """Return what is held of cards now, by all tasks."""
    held = list(Holding.objects.live().filter(gpu__isnull=False).values_list(*HELD))
    ids = dict(Task.objects.filter(uuid__in={row[0] for row in held}).values_list("uuid", "pk"))
    tasks, cards = load_task_uses(ids.values()), load_card_uses({row[5] for row in held})
    found = []
    for task, team, user, node, pool, gpu, uuid, milli, compute in held:
        percent, source = _find_use(tasks.get(ids.get(task, 0)), uuid, milli, compute, cards.get(gpu))
        found.append(HeldShare(task, team, user, node, pool, gpu, uuid, milli, compute, percent, source))
    return found


def judge_share(percent: float | None) -> str:
    """Return "active", "idle" or "unknown" of a share that is so busy."""
    if percent is None:
        return "unknown"
    return "active" if percent >= ACTIVE_PERCENT else "idle"


def _find_use(
    task: TaskUse | None, uuid: str, milli: int, compute: int, card: CardUse | None
) -> tuple[float | None, str]:
    """Return how busy a share is, and the source. Who holds a whole card does all that the card does."""
    share = task.shares.get(uuid) if task else None
    if share is not None and share.busy_percent is not None:
        return scale_to_share(share.busy_percent, compute), share.source
    if milli >= WHOLE_MILLI and card is not None:
        return card.busy_percent, card.source
    return None, ""
