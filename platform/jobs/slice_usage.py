"""Store the GPU use of slices that node agents report."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from cluster.models import Agent
from events.bus import hint
from jobs.models import Task

FIELDS = ("uuid", "limit_mib", "used_mib", "peak_mib", "refused", "watched", "over")


def take_uses(agent: Agent, slices: Iterable[Mapping[str, Any]]) -> int:
    """Store the slice use of tasks on the agent's node. Tasks above their slice are stopped.

    slices: {"task": uuid in hex, "cards": [dict of FIELDS]}.
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
    """Keep `over` once it is set."""
    own = {card["uuid"] for card in task.cards if not card.get("whole")}
    before = {use["uuid"]: use.get("over", "") for use in task.gpu_use}
    kept = ({name: card[name] for name in FIELDS} for card in cards if card["uuid"] in own)
    return [card | {"over": card["over"] or before.get(card["uuid"], "")} for card in kept]
