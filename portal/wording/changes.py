"""What an event says was changed, in the words and units of forms."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model
from django.utils.dates import WEEKDAYS_ABBR
from django.utils.translation import gettext as _

from accounts.models import Team, User
from cluster.models import Pool, Window
from common.resources import show_cpu, show_duration, show_gpu, show_memory
from events.models import Event
from images.models import Image
from monitoring.models import AlertRule, IdleRule, Price
from portal.wording.time_of_day import name_moment
from quotas.models import Quota, UserLimit

MODELS: dict[str, type[Model]] = {
    model.KIND: model  # type: ignore[attr-defined]
    for model in (User, Team, Quota, UserLimit, Pool, Window, Image, AlertRule, IdleRule, Price)
}
UNITS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("gpu_milli", show_gpu),
    ("cpu_milli", show_cpu),
    ("memory_mib", show_memory),
)
OF_FIELD = {"lender_name": "lender", "borrower_name": "borrower", "opens": "begins", "closes": "ends"}
"""Whose value an event holds under another name, for readers of JSON."""
NOTHING = "–"


def list_changes(event: Event) -> list[tuple[str, str, str]]:
    """Return what was changed: (field, before, after). Nothing that was empty and stays so."""
    before, after = event.params.get("from"), event.params.get("to")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    changes = [(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])]
    return [
        (name_field(event.kind, name), show_value(name, was), show_value(name, now))
        for name, was, now in changes
        if was not in (None, "") or now not in (None, "")
    ]


def describe_return(quota: Quota) -> str:
    """Say until when a quota holds, and what it returns to then; "" if it lasts."""
    if quota.until is None:
        return ""
    until = name_moment(quota.until)
    if quota.then is None:
        return _("Until %(until)s, then the team has no quota here.") % {"until": until}
    lines = "; ".join(_describe_then(name, getattr(quota, name), value) for name, value in quota.then.items())
    return _("Until %(until)s: %(lines)s.") % {"until": until, "lines": lines}


def name_field(kind: str, name: str) -> str:
    """Return the field's name in the reader's language, or as it is stored."""
    name = OF_FIELD.get(name, name)
    try:
        return str(MODELS[kind]._meta.get_field(name).verbose_name)  # type: ignore[union-attr]
    except (KeyError, FieldDoesNotExist, AttributeError):
        return name


def name_days(weekdays: str) -> str:
    """Name weekdays, by their ISO 8601 numbers: "Mon–Fri", "every day", "Sat, Sun"."""
    days = [int(day) for day in weekdays]
    if days == list(range(1, 8)):
        return _("every day")
    if len(days) > 2 and days == list(range(days[0], days[-1] + 1)):
        return f"{WEEKDAYS_ABBR[days[0] - 1]}–{WEEKDAYS_ABBR[days[-1] - 1]}"
    return ", ".join(str(WEEKDAYS_ABBR[day - 1]) for day in days)


def show_value(name: str, value: Any) -> str:
    """Show a stored value in its unit."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if name == "weekdays":
        return name_days(value)
    if isinstance(value, int):
        if show := next((show for unit, show in UNITS if name.startswith(unit)), None):
            return show(value)
        if name.endswith("_s"):
            return show_duration(value)
    return str(value)


def _describe_then(name: str, now: int | None, then: int | None) -> str:
    words = {"field": name_field(Quota.KIND, name), "now": _show_limit(name, now), "then": _show_limit(name, then)}
    return _("%(field)s %(now)s, then %(then)s") % words


def _show_limit(name: str, value: int | None) -> str:
    return _("none") if value is None else show_value(name, value)
