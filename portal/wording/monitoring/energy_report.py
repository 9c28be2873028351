"""Reports of energy, in words and as CSV."""

from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from monitoring.usage.energy_report import Energy
from monitoring.usage.report import HOUR_MILLI_MS
from portal.access.usage_reports import EnergyReport
from portal.csv_text import write_csv
from portal.wording.monitoring.usage_report import GROUP_WORDS, show_exactly

ENERGY_GROUP_WORDS: dict[str, str | Promise] = {
    **{by: GROUP_WORDS[by] for by in ("team", "user", "pool", "model")},
    "node": _("Machine"),
}
DEFINITIONS: dict[str | Promise, str | Promise] = {
    _("Energy"): _(
        "What cards drew while they were held, by their own counters. What a card drew while nobody held it, and what "
        "CPUs, fans and machines draw, is not in it."
    ),
    _("Shared cards"): _(
        "Who kept the card busy has what it drew, in proportion of how busy; where that is not known of each holder, "
        "or nobody did anything, in proportion of what each holds."
    ),
    _("Mean power"): _("Of a whole card, over the time that it was held and its energy is known."),
    _("Not known"): _("Held GPU-hours of cards that told no energy. They are in no sum of energy, and are not 0."),
    _("Simulated cards"): _("Drew nothing: their figures are made up, and left out where there are real cards."),
    _("Over the edge of the period"): _(
        "A task that began before the period or went on after it is active, idle and busy in it in proportion."
    ),
}
CSV_COLUMNS = ("kwh", "mean_w", "held_gpu_h", "unknown_gpu_h", "simulated")
UNKNOWN = "?"


def write_energy_csv(report: EnergyReport) -> str:
    """Return a row for each group, empty where energy is not known; what is left over is in a row without a name."""
    groups = [*report.groups.items(), *([("", report.rest)] if report.rest else [])]
    return write_csv([report.by, *CSV_COLUMNS], ([name, *_list_values(energy)] for name, energy in groups))


def _list_values(energy: Energy) -> list[str]:
    return [
        "" if energy.kwh is None else show_exactly(energy.kwh),
        "" if energy.watts is None else f"{energy.watts:.1f}",
        show_exactly(energy.held / HOUR_MILLI_MS),
        show_exactly(energy.unmetered / HOUR_MILLI_MS),
        str(energy.simulated).lower(),
    ]


def show_kwh(energy: Energy) -> str:
    """Format "1,204.5", "0.03", or "?" where nothing is known."""
    if energy.kwh is None:
        return UNKNOWN
    return number_format(energy.kwh, 1 if energy.kwh >= 10 else 2, force_grouping=True)


def show_watts(energy: Energy) -> str:
    return UNKNOWN if energy.watts is None else number_format(energy.watts, 0, force_grouping=True)
