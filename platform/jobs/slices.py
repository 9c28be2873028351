"""What tasks use of their slices, as the agent of their machine tells it where the runtime cannot see that itself."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from cluster.models import Agent
from events.bus import hint
from jobs.models import Task

FIELDS = ("uuid", "limit_mib", "used_mib", "peak_mib", "refused", "watched", "over")


def take_uses(agent: Agent, slices: Iterable[Mapping[str, Any]]) -> int:
    """Keep them, and have a task end that is above its slice. Of tasks of the agent's own machine only, and of their
    own slices; how many tasks that were. slices: {"task": uuid in hex, "cards": [of FIELDS]}. Any number of times.
    """
    told = {UUID(one["task"]): one["cards"] for one in slices}
    tasks = list(
        Task.objects.holding().filter(uuid__in=told, node__name=agent.node_name).only("cards", "gpu_use", "uuid")
    )
    for task in tasks:
        uses = _uses(task, told[task.uuid])
        if uses != task.gpu_use:
            Task.objects.holding().filter(pk=task.pk).update(gpu_use=uses)
            if any(use["over"] for use in uses):
                hint("reconcile")
    return len(tasks)


def _uses(task: Task, cards: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """That a task is to end is not taken back."""
    own = {card["uuid"] for card in task.cards if not card.get("whole")}
    before = {use["uuid"]: use.get("over", "") for use in task.gpu_use}
    kept = ({name: card[name] for name in FIELDS} for card in cards if card["uuid"] in own)
    return [card | {"over": card["over"] or before.get(card["uuid"], "")} for card in kept]
