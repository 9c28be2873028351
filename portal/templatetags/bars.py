"""Tags for 100 % bars: cards with slices, quotas. {% load bars %}.

Widths are attributes of table cells, because the CSP forbids style attributes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

register = template.Library()

TEAM_COLOURS = 8
MARKS = {"idle": "zz", "fault": "!", "stale": "?"}  # never colour alone
LEGEND = {
    "free": gettext_lazy("Free"),
    "work": gettext_lazy("In use"),
    "idle": gettext_lazy("Held, idle"),
    "next": gettext_lazy("Reserved or draining"),
    "fault": gettext_lazy("Fault"),
    "stale": gettext_lazy("Unknown or out of date"),
    "unused": gettext_lazy("Left of the guarantee"),
    "borrowed": gettext_lazy("Borrowed: can be taken back"),
    "lent": gettext_lazy("Guaranteed, but not free now"),
    "left": gettext_lazy("Within the limit, but not free now"),
    "spare": gettext_lazy("Left of your own limit"),
}


@dataclass(frozen=True)
class Segment:
    """A part of a bar.

    kind: key of LEGEND. share: in any unit. note: second label. title: tooltip, read aloud. owner: team number for its
    colour. activity: measured use in percent, or None.
    """

    kind: str
    share: float
    words: str = ""
    note: str = ""
    title: str = ""
    href: str = ""
    owner: int | None = None
    mine: bool = False
    activity: float | None = None
    tick: bool = False


@register.inclusion_tag("_bar.html")
def gpu_bar(segments: Sequence[Segment], label: str, by_owner: bool = False) -> dict:
    """Render a card as a bar of slices. label: for screen readers."""
    return {"cells": _cells(segments), "label": label, "by_owner": by_owner, "words": any(s.words for s in segments)}


@register.inclusion_tag("_bar.html")
def quota_bar(used: float, guarantee: float, limit: float | None, free: float, label: str = "") -> dict:
    """Render a quota, in any unit. free: what its pool has free now."""
    segments = quota_segments(used, guarantee, limit, free)
    return {"cells": _cells(segments), "label": label or _("Quota"), "by_owner": False, "words": False}


@register.inclusion_tag("_legend.html")
def bar_legend(*kinds: str) -> dict:
    return {"entries": [(kind, LEGEND[kind]) for kind in kinds]}


def quota_segments(used: float, guarantee: float, limit: float | None, free: float) -> list[Segment]:
    """Return a quota's parts. Only what the pool has is free; without a limit, that is all that is left."""
    within, borrowed = min(used, guarantee), max(used - guarantee, 0)
    unused = min(guarantee - within, free)
    beyond = free - unused
    room = beyond if limit is None else max(limit - max(used, guarantee), 0)
    parts = [
        ("work", within),
        ("lent", guarantee - within - unused),
        ("unused", unused),
        ("borrowed", borrowed),
        ("free", min(room, beyond)),
        ("left", max(room - beyond, 0)),
    ]
    last_of_guarantee = max((i for i, part in enumerate(parts[:3]) if part[1] > 0), default=-1)
    return [
        Segment(kind, share, title=str(LEGEND[kind]), tick=i == last_of_guarantee)
        for i, (kind, share) in enumerate(parts)
        if share > 0
    ]


def team_classes(number: int) -> str:
    """Return CSS classes: eight colours, then again with a pattern."""
    return f"team-{number % TEAM_COLOURS}" + (" team-again" if number // TEAM_COLOURS % 2 else "")


def _cells(segments: Iterable[Segment]) -> list[dict]:
    segments = list(segments)
    whole = sum(segment.share for segment in segments) or 1
    return [
        {
            "segment": segment,
            "width": f"{100 * segment.share / whole:.4g}%",
            "classes": _classes(segment),
            "mark": MARKS.get(segment.kind, ""),
            "empty": None if segment.activity is None else round(100 - min(max(segment.activity, 0), 100)),
        }
        for segment in segments
    ]


def _classes(segment: Segment) -> str:
    names = ["seg", f"seg-{segment.kind}"]
    if segment.owner is not None and segment.kind in {"work", "idle"}:
        names.append(team_classes(segment.owner))
    if segment.mine:
        names.append("is-mine")
    if segment.activity is not None:
        names.append("has-fill")
    return " ".join(names)
