"""Tags for meters of what was used. {% load usage %}. Lengths are attributes: the CSP forbids style attributes."""

from functools import lru_cache

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.wording.efficiency import Meter

register = template.Library()


@register.simple_tag
def meter_bar(meter: Meter) -> SafeString:
    """Draw one figure as a bar, beside its value in words; hatched where it is not known."""
    if meter.percent is None:
        return draw_bar((("unknown", 100.0),))
    return draw_bar(((meter.tone, meter.percent),))


@register.simple_tag
def parts_bar(parts: list[tuple[str, float]]) -> SafeString:
    """Draw what held time was, in percent of it, beside its figures."""
    return draw_bar(tuple(parts))


@register.simple_tag
def swatch(tone: str) -> SafeString:
    return format_html(
        '<svg class="usage-swatch" aria-hidden="true"><rect class="m-{}" width="100%" height="100%"/></svg>', tone
    )


@register.simple_tag
def day_bars(bars: list[tuple[float, list[tuple[str, float]]]]) -> SafeString:
    """Draw bars side by side, each (height in percent, its parts); the table beside them says the same."""
    wide, drawn = 100 / max(len(bars), 1), []
    for i, (height, parts) in enumerate(bars):
        top = 100.0
        for tone, percent in parts:
            high = percent * height / 100
            top -= high
            drawn.append((tone, f"{(i + 0.1) * wide:.4g}%", f"{top:.4g}%", f"{0.8 * wide:.4g}%", f"{high:.4g}%"))
    boxes = format_html_join("", '<rect class="m-{}" x="{}" y="{}" width="{}" height="{}"/>', drawn)
    return format_html('<svg class="day-bars" aria-hidden="true">{}</svg>', boxes)


@lru_cache(1024)
def draw_bar(parts: tuple[tuple[str, float], ...]) -> SafeString:
    """Draw parts of 100 % beside one another. Each is (tone, percent). Of a thousand machines most look alike."""
    begin, drawn = 0.0, []
    for tone, percent in parts:
        drawn.append((tone, f"{begin:.4g}%", f"{percent:.4g}%"))
        begin += percent
    boxes = format_html_join("", '<rect class="m-{}" x="{}" width="{}" height="100%"/>', drawn)
    return format_html(
        '<svg class="meter" aria-hidden="true"><rect class="m-box" width="100%" height="100%"/>{}</svg>', boxes
    )
