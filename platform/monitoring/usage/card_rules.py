"""Rules of verdicts about what cards themselves did while a job held them. Pure."""

from collections.abc import Sequence
from statistics import median

from monitoring.usage.job_use import HOUR_MS, CardUse, JobUse
from monitoring.usage.verdict import Limits, Verdict


def find_coarse_only(use: JobUse, limits: Limits) -> Verdict | None:
    """A program that keeps one multiprocessor at work keeps the card busy, as its driver counts."""
    busy, of_ms = use.busy_percent, sum(card.sm_of_ms for card in use.cards)
    if busy is None or busy < limits.coarse_busy_percent or not _is_known(of_ms, use, limits):
        return None
    worked = 100 * sum(card.sm_ms or 0 for card in use.cards) / of_ms
    if worked >= limits.coarse_sm_percent:
        return None
    return Verdict(
        "coarse_only", use.sum_hours("held_ms") * (busy - worked) / 100, {"percent": busy, "sm_percent": worked}
    )


def find_straggler(use: JobUse, limits: Limits) -> Verdict | None:
    """Name the slowest task that lacks more than a fifth of the median of all, over all of its time."""
    ranks: dict[str, list[CardUse]] = {}
    for card in use.cards:
        ranks.setdefault(card.task, []).append(card)
    busy = {task: mean for task, cards in ranks.items() if (mean := _mean_busy(cards, limits)) is not None}
    if len(busy) < limits.straggler_ranks or 2 * len(busy) <= len(ranks):
        return None
    usual = median(busy.values())
    behind = {task: 100 * (1 - mean / usual) for task, mean in busy.items() if usual >= limits.quiet_percent}
    slow = [task for task, percent in behind.items() if percent > limits.straggler_percent]
    if not slow:
        return None
    slowest = max(slow, key=lambda task: behind[task])
    hours = sum(c.milli * c.held_ms * (usual - busy[task]) for task in slow for c in ranks[task]) / 100_000 / HOUR_MS
    params = {"task": slowest, "node": ranks[slowest][0].node, "percent": behind[slowest], "tasks": len(slow)}
    return Verdict("straggler", hours, params)


def find_throttled(use: JobUse, limits: Limits) -> Verdict | None:
    of_ms = sum(card.throttle_of_ms for card in use.cards)
    if not _is_known(of_ms, use, limits):
        return None
    percent = 100 * sum(card.throttle_ms or 0 for card in use.cards) / of_ms
    if percent < limits.throttled_percent:
        return None
    worst = max(use.cards, key=lambda card: (card.throttle_ms or 0) / max(card.throttle_of_ms, 1))
    return Verdict("throttled", 0.0, {"percent": percent, "node": worst.node, "gpu": worst.gpu})


def find_gpu_fault(use: JobUse, limits: Limits) -> Verdict | None:
    faulty = [card for card in use.cards if card.faults]
    if not faulty:
        return None
    return Verdict("gpu_fault", 0.0, {"node": faulty[0].node, "gpu": faulty[0].gpu, "check": faulty[0].faults[0]})


def _is_known(of_ms: int, use: JobUse, limits: Limits) -> bool:
    """Return whether something of its cards was known as long as a verdict needs."""
    ran_ms = sum(card.ran_ms for card in use.cards)
    return of_ms > 0 and 100 * of_ms >= limits.coverage_percent * ran_ms


def _mean_busy(cards: Sequence[CardUse], limits: Limits) -> float | None:
    """Return how busy a task kept its shares of cards; None where too little of it was seen."""
    room = sum(max(card.percent, 1) * card.known_ms for card in cards)
    ran_ms, seen_ms = (sum(getattr(card, name) for card in cards) for name in ("ran_ms", "seen_ms"))
    known = all(card.busy_ms is not None for card in cards) and room
    if not known or 100 * seen_ms < limits.coverage_percent * ran_ms:
        return None
    return min(100 * 100 * sum(card.busy_ms or 0 for card in cards) / room, 100.0)
