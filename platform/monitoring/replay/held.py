"""Who held what at a past moment."""

from collections.abc import Iterable
from datetime import datetime

from events.models import Event
from jobs.models import Task
from quotas.models import Holding


def load_held_cards(at: datetime, node_ids: Iterable[int]) -> list[Holding]:
    """Return the shares of cards of these machines that were held."""
    return list(Holding.objects.held_at(at).filter(gpu__isnull=False, node__in=node_ids))


def load_task_states(tasks: Iterable[Task], at: datetime) -> dict[int, str]:
    """Return the state that each task had, {id: state}: what its first move since then began from."""
    now = {task.pk: task.state for task in tasks}
    later = Event.objects.filter(kind=Task.KIND, object_id__in=now, verb="state", at__gt=at)
    first = later.order_by("object_id", "seq").distinct("object_id")
    return now | dict(first.values_list("object_id", "from_state"))
