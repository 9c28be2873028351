"""Filters for stored amounts: {{ milli|gpu }} {{ mib|memory }} {{ milli|cpu }} {{ s|duration }}."""

from collections.abc import Callable

from django import template

from common.resources import show_cpu, show_duration, show_gpu, show_memory
from portal.wording.usage import describe_share_activity

register = template.Library()


def or_dash(show: Callable[[int], str]) -> Callable[[int | None], str]:
    return lambda value: "–" if value is None else show(int(value))


for name, show in {"gpu": show_gpu, "memory": show_memory, "cpu": show_cpu, "duration": show_duration}.items():
    register.filter(name, or_dash(show))
register.filter("activity", describe_share_activity)


@register.filter
def gpu_sum(milli: int) -> str:
    """Format to hundredths of a card, for sums."""
    return show_gpu(milli if milli % 125 == 0 else round(milli, -1))
