"""A day of cards, in words and as CSV."""

from django.utils.formats import date_format, number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from monitoring.series.day_use import COLUMNS, DayUse, Slot
from portal.csv_text import write_csv

UNKNOWN = "?"
PARTS: dict[str, tuple[str, str | Promise]] = {
    "active": ("work", gettext_lazy("Active")),
    "idle": ("idle", gettext_lazy("Held, not active")),
    "unknown": ("unknown", gettext_lazy("Held, not seen")),
}
"""{what held cards were: (tone, words)}."""
DEFINITIONS: dict[str | Promise, str | Promise] = {
    gettext_lazy("Held"): gettext_lazy("Cards, and parts of cards, that tasks held: the mean of each step."),
    gettext_lazy("Active"): gettext_lazy("Held and busy for 5 % of their share or more."),
    gettext_lazy("Held, not active"): gettext_lazy(
        "Held and less busy than that at this moment, short pauses included: the report of usage counts as idle only "
        "what is longer."
    ),
    gettext_lazy("Held, not seen"): gettext_lazy("Held, but nothing tells how busy."),
    gettext_lazy("No bar"): gettext_lazy("Nobody counted then, or that time is still to come. It is not 0."),
}


def write_day_csv(use: DayUse) -> str:
    """Return a row for each slot that has begun, with mean numbers of cards; empty where nothing is known."""
    slots = use.slots[: use.begun]
    rows = ([slot.begins.isoformat(), *(_show_cell(slot, name) for name in COLUMNS)] for slot in slots)
    return write_csv(["from", *(f"{name}_gpus" for name in COLUMNS)], rows)


def describe_day(use: DayUse) -> str:
    """Say when most was active, and how much on average."""
    busiest = use.busiest
    held, active = use.percent("held"), use.percent("active")
    if busiest is None or held is None or active is None:
        return _("Nothing is known of this day.")
    words = {"at": date_format(busiest.begins, "H:i"), "all": show_cards(busiest.capacity)}
    words |= {"held": show_cards(busiest.held), "active": show_cards(busiest.active)}
    most = _("Most at %(at)s: %(active)s of %(all)s cards active, %(held)s held.") % words
    mean = _("On average %(active)s %% of the cards were active, %(held)s %% held.") % {
        "active": f"{active:.0f}",
        "held": f"{held:.0f}",
    }
    gaps = _("Of %(percent)s %% of the time nothing is known.") % {"percent": f"{100 - use.known_percent:.0f}"}
    return " ".join([most, mean, *([gaps] if use.known_percent < 99.5 else [])])


def show_cards(number: float | None) -> str:
    """Format "12", "3.5", or "?"."""
    if number is None:
        return UNKNOWN
    return number_format(number, 0 if number == round(number) else 1, force_grouping=True)


def _show_cell(slot: Slot, name: str) -> str:
    value = getattr(slot, name)
    return "" if value is None else f"{value:.3f}"
