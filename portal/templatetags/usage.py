"""Tags for meters of what was used. {% load usage %}. Lengths are attributes: the CSP forbids style attributes."""

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.wording.efficiency import Meter

register = template.Library()


@register.simple_tag
def meter_bar(meter: Meter) -> SafeString:
    """Draw one figure as a bar, beside its value in words; hatched where it is not known."""
    if meter.percent is None:
        return draw_bar([("unknown", 100.0)])
    return draw_bar([(meter.tone, meter.percent)])


def draw_bar(parts: list[tuple[str, float]]) -> SafeString:
    """Draw parts of 100 % beside one another. Each is (tone, percent)."""
    begin, drawn = 0.0, []
    for tone, percent in parts:
        drawn.append((tone, f"{begin:.4g}%", f"{percent:.4g}%"))
        begin += percent
    boxes = format_html_join("", '<rect class="m-{}" x="{}" width="{}" height="100%"/>', drawn)
    return format_html(
        '<svg class="meter" aria-hidden="true"><rect class="m-box" width="100%" height="100%"/>{}</svg>', boxes
    )
