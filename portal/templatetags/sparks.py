"""Tag for small curves without axes. {% load sparks %}{% spark activity.values activity.words %}."""

from collections.abc import Sequence
from itertools import groupby

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

WIDTH, HEIGHT = 100, 20


@register.simple_tag
def spark(values: Sequence[float | None], words: str, top: float = 100) -> SafeString:
    """Render a curve from 0 to `top`; None is a gap. words: the same for who does not see it."""
    runs = build_runs(values, top)
    line = " ".join("M" + " L".join(f"{x:.4g} {y:.4g}" for x, y in run) for run in runs)
    area = " ".join(
        f"M{run[0][0]:.4g} {HEIGHT} L"
        + " L".join(f"{x:.4g} {y:.4g}" for x, y in run)
        + f" L{run[-1][0]:.4g} {HEIGHT} Z"
        for run in runs
    )
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" width="72" height="20" role="img" '
        'aria-label="{}"><path class="base" d="M0 {} H{}"/><path class="area" d="{}"/><path d="{}"/></svg>',
        WIDTH, HEIGHT, words, HEIGHT, WIDTH, area, line,
    )  # fmt: skip


def build_runs(values: Sequence[float | None], top: float) -> list[list[tuple[float, float]]]:
    """Return the points between gaps. A value that stands alone is as wide as its slot."""
    wide = WIDTH / max(len(values), 1)
    runs = []
    for known, slots in groupby(range(len(values)), key=lambda slot: values[slot] is not None):
        if known:
            points = [(wide * (slot + 0.5), _height(values[slot], top)) for slot in slots]
            runs.append(
                points if len(points) > 1 else [(points[0][0] + side * wide / 2, points[0][1]) for side in (-1, 1)]
            )
    return runs


def _height(value: float | None, top: float) -> float:
    return HEIGHT - 1 - (HEIGHT - 2) * min(max((value or 0) / top, 0), 1)
