"""HTML report of a comparison, in one file without scripts; and the same as text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import ceil

from monitoring.history.file_format import History
from scheduler.simulation.svg_elements import pick_colour
from scheduler.simulation.working_week import DAY_S, WEEK_S
from scheduler.whatif import charts
from scheduler.whatif.comparison import Comparison, Outcome, Result
from scheduler.whatif.measures import ALL, Figures

STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1f; --soft: #55565a; --line: #e3e3e6; --back: #fff; --bar: #f4f4f6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececee; --soft: #a9aab0; --line: #38393d; --back: #161618; --bar: #232326; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 66rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { font-weight: 600; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2.4rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; } p { color: var(--soft); margin: .4rem 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; } th:first-child, td:first-child { text-align: left; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--back); white-space: normal;
  overflow-wrap: anywhere; min-width: 7rem; max-width: 16rem; }
@media (max-width: 40rem) { th:first-child, td:first-child { max-width: 8rem; } }
small { color: var(--soft); display: block; }
.better { color: #1f7a43; } .worse { color: #b3261e; }
@media (prefers-color-scheme: dark) { .better { color: #62c98a; } .worse { color: #ff8a80; } }
svg { width: 100%; height: auto; display: block; } .wide svg { min-width: 44rem; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); fill: none; } .row { fill: var(--bar); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .35em 0 0; }
.legend { font-size: 13px; color: var(--soft); } .legend span { display: inline-block; margin-right: 1em; }
summary { cursor: pointer; color: var(--soft); }
"""
Value = Callable[[Figures], float]


def _of(team: str, name: str) -> Value:
    return lambda figures: getattr(figures.of[team], name) if team in figures.of else 0.0


COLUMNS: tuple[tuple[str, str, float, bool], ...] = (
    ("mean wait, min", "mean_wait_s", 60, True),
    ("p50, min", "p50_wait_s", 60, True),
    ("p95, min", "p95_wait_s", 60, True),
    ("slowdown", "slowdown", 1, True),
    ("GPU hours", "gpu_hours", 1, False),
    ("stops", "stops", 1, True),
)
"""(title, measure, unit, whether less is better)"""


def check_week(history: History, week: int) -> None:
    """Raises ValueError."""
    weeks = max(ceil((history.header.ends - history.header.begins) / WEEK_S), 1)
    if not 1 <= week <= weeks:
        raise ValueError(f"--week: the history has {weeks} of them, counted from 1")


def build_report(comparison: Comparison, revision: str, week: int = 1) -> str:
    """Build the report, deterministically. week: which is shown card by card, from 1."""
    header = comparison.history.header
    days = (header.ends - header.begins) / DAY_S
    span = f"{days:.4g} days from {_day(header.begins)} to {_day(header.ends)}, UTC"
    jobs = comparison.recorded.figures.of[ALL].jobs
    sections = [
        ("Truth and replay", _LEGEND_RECORDED, _table_of_recorded(comparison)),
        ("What would have been", _LEGEND_SCENARIOS, _table_of_scenarios(comparison, ALL)),
        ("By team", "Differences to the replay as it was.", _tables_of_teams(comparison)),
        ("Why jobs waited", _LEGEND_REASONS, _reasons(comparison)),
        ("Cards in use and jobs that wait", "Means over equal spans of time.", _use(comparison)),
        (f"Week {week}, card by card", _LEGEND_CARDS, _cards(comparison, week)),
    ]
    body = "\n".join(f"<h2>{title}</h2>\n<p>{words}</p>\n{plot}" for title, words, plot in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>
<title>What if: {span}</title><style>{STYLE}</style></head>
<body>
<h1>What would have happened</h1>
<p>{span}: {jobs:,} jobs. Only the truth is real: all else is simulated by the scheduler of Tessera, revision
{escape(revision)}, which knows at each time what was known then.</p>
{body}
</body>
</html>
"""


_LEGEND_RECORDED = (
    "The replay shows how far the simulation can be believed: it plays the same jobs on the same machines. "
    "Waits are from submit to the first start; while somebody held a job it does not wait."
)
_LEGEND_SCENARIOS = (
    "Below each figure its difference to the replay as it was. Where chance is in it, the mean over the seeds, with "
    "the least and the most. Slowdown is (wait + run) / run. Fairness is Jain’s index of the teams’ slowdowns: 1 where "
    "all teams wait alike in proportion to what they run."
)
_LEGEND_REASONS = "Share of all waiting time, by the first reason that the scheduler gave, as on a job’s page."
_LEGEND_CARDS = "A row for each card, machine by machine. Free time is pale; a red end is a stop for others."


def _table_of_recorded(comparison: Comparison) -> str:
    recorded, replay = comparison.recorded.figures, comparison.outcomes[0].results[0].figures
    heads = ("team", "jobs", "mean wait, min", "replay", "", "p95, min", "replay", "", "GPU hours", "replay")
    rows = []
    for team, was in recorded.of.items():
        got = replay.of[team]
        cells = [team, f"{was.jobs:,}"]
        for name in ("mean_wait_s", "p95_wait_s"):
            before, after = getattr(was, name), getattr(got, name)
            cells += [_number(before / 60), _number(after / 60), _percent(before, after)]
        rows.append([*cells, _number(was.gpu_hours), _number(got.gpu_hours)])
    return _table(heads, [[escape(cell) for cell in row] for row in rows])


def _table_of_scenarios(comparison: Comparison, team: str) -> str:
    base = comparison.outcomes[0]
    heads = ["scenario", "jobs", *(title for title, *_ in COLUMNS), *(["fairness"] if team == ALL else [])]
    rows = []
    for outcome in comparison.outcomes:
        cells = [escape(outcome.name), f"{outcome.spread(_of(team, 'jobs'))[0]:,.0f}"]
        for _, name, unit, less in COLUMNS:
            cells.append(_difference(outcome, base, _of(team, name), unit, less))
        if team == ALL:
            cells.append(_difference(outcome, base, lambda figures: figures.fairness, 1, False))
        rows.append(cells)
    return _table(heads, rows)


def _tables_of_teams(comparison: Comparison) -> str:
    teams = [team for team in comparison.recorded.figures.of if team != ALL]
    return "\n".join(f"<h3>{escape(team)}</h3>{_table_of_scenarios(comparison, team)}" for team in teams)


def _difference(outcome: Outcome, base: Outcome, value: Value, unit: float, less_is_better: bool) -> str:
    mean, least, most = (figure / unit for figure in outcome.spread(value))
    before = base.spread(value)[0] / unit
    shown = _number(mean)
    if outcome is base:
        return shown
    change = mean - before
    small = f"{'+' if change >= 0 else '−'}{_number(abs(change))}"
    if abs(change) > 0.005 * max(abs(before), 1e-9):
        word = "better" if (change < 0) == less_is_better else "worse"
        small = f'<span class="{word}">{small}</span>'
    span = f"<small>{_number(least)} to {_number(most)}</small>" if len(outcome.results) > 1 else ""
    return f"{shown}<small>{small}</small>{span}"


def _reasons(comparison: Comparison) -> str:
    shares = {outcome.name: mean_reasons(outcome) for outcome in comparison.outcomes}
    order = list(dict.fromkeys(why for found in shares.values() for why in sorted(found, key=lambda w: -found[w])))
    colours = {why: pick_colour(place, len(order)) for place, why in enumerate(order)}
    legend = _legend({describe_reason(why): colour for why, colour in colours.items()})
    heads = ["scenario", *(describe_reason(why) for why in order)]
    rows = [[escape(name), *(f"{100 * found.get(why, 0):.1f} %" for why in order)] for name, found in shares.items()]
    bars = charts.plot_shares(shares, colours)
    return f'<div class="wide">{bars}</div>{legend}{_table(heads, rows)}'


def mean_reasons(outcome: Outcome) -> dict[str, float]:
    """Return {reason: share of the waiting time}, the mean over the seeds."""
    found: dict[str, float] = {}
    for result in outcome.results:
        for why, share in result.figures.of[ALL].reasons.items():
            found[why] = found.get(why, 0.0) + share / len(outcome.results)
    return dict(sorted(found.items(), key=lambda one: -one[1]))


REASONS = {
    "ahead_in_queue": "jobs ahead",
    "making_room": "room is being made",
    "emptying": "machines are being emptied for a larger job",
    "maintenance": "maintenance",
    "reserved_for_larger": "reserved for larger jobs",
    "borrow_denied": "not preemptible, may not borrow",
    "no_fit_now": "no room now",
    "gang_incomplete": "gang does not fit whole",
    "fits_only_apart": "room only on several switches or machines",
    "fragmented": "free in pieces too small",
    "team_limit": "limit of the team",
    "user_limit": "limit of the person",
    "rate_policy": "jobs at once of a person",
    "model_unavailable": "no card of that model free",
    "dependency": "jobs that it starts after",
    "start_after": "asked for later, or a pause before a retry",
    "held": "held",
    "node_recovering": "no machine is ready",
    "impossible": "can never run",
    "not_explained_yet": "unexplained",
}


def describe_reason(code: str) -> str:
    return REASONS.get(code, code.replace("_", " "))


def _use(comparison: Comparison) -> str:
    header = comparison.history.header
    lines = {"truth": comparison.recorded, **{one.name: one.results[0] for one in comparison.outcomes}}
    colours = {name: pick_colour(place, len(lines)) for place, name in enumerate(lines)}
    plots = [
        ("Cards in use", {name: list(result.busy) for name, result in lines.items()}),
        ("Jobs that wait", {name: list(result.waiting) for name, result in lines.items()}),
    ]
    drawn = ""
    for title, values in plots:
        plot = charts.plot_lines(title, values, colours, header.begins, header.ends)
        drawn += f'<h3>{title}</h3><div class="wide">{plot}</div>'
    return drawn + _legend(colours)


def _cards(comparison: Comparison, week: int) -> str:
    header = comparison.history.header
    begins = header.begins + (week - 1) * WEEK_S
    ends = min(begins + WEEK_S, header.ends)
    teams = [team.name for team in comparison.history.teams]
    colours = {team: pick_colour(place, len(teams)) for place, team in enumerate(teams)}
    shown: list[tuple[str, Result]] = [("truth", comparison.recorded)]
    shown += [(outcome.name, outcome.results[0]) for outcome in comparison.outcomes]
    drawn = (
        f"<details{' open' if place < 2 else ''}><summary>{escape(name)}</summary>"
        f'<div class="wide">{charts.plot_cards(result, colours, begins, ends)}</div></details>'
        for place, (name, result) in enumerate(shown)
    )
    return _legend(colours) + "".join(drawn)


def _legend(colours: Mapping[str, str]) -> str:
    key = '<span><i class="key" style="background:{}"></i>{}</span>'
    return f'<p class="legend">{"".join(key.format(colour, escape(name)) for name, colour in colours.items())}</p>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def write_text(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of the same tables as text."""
    recorded, replay = comparison.recorded.figures, comparison.outcomes[0].results[0].figures
    width = max(len(name) for name in [*recorded.of, *(one.name for one in comparison.outcomes), "scenario"])
    pair = "{:>11} {:>11} {:>8}".format
    yield f"{'team'.ljust(width)}  {'jobs':>7}  {pair('mean wait', 'replayed', '')}  {pair('p95', 'replayed', '')}"
    for team, was in recorded.of.items():
        got = replay.of[team]
        mean = _minutes(was.mean_wait_s, got.mean_wait_s)
        yield f"{team.ljust(width)}  {was.jobs:>7}  {mean}  {_minutes(was.p95_wait_s, got.p95_wait_s)}"
    if len(comparison.outcomes) == 1:
        return
    yield ""
    yield f"{'scenario'.ljust(width)}  " + "  ".join(f"{title:>26}" for title, *_ in COLUMNS) + f"  {'fairness':>26}"
    values = [(_of(ALL, name), unit) for _, name, unit, _ in COLUMNS] + [(lambda figures: figures.fairness, 1.0)]
    for outcome in comparison.outcomes:
        cells = (_cell(outcome, comparison.outcomes[0], value, unit) for value, unit in values)
        yield f"{outcome.name.ljust(width)}  " + "  ".join(f"{cell:>26}" for cell in cells)
    for outcome in comparison.outcomes:
        shares = (f"{describe_reason(why)} {100 * share:.0f} %" for why, share in mean_reasons(outcome).items())
        yield f"{outcome.name.ljust(width)}  waited for: {', '.join(shares) or 'nothing'}"


def _cell(outcome: Outcome, base: Outcome, value: Value, unit: float) -> str:
    mean, least, most = (figure / unit for figure in outcome.spread(value))
    if outcome is base:
        return _number(mean)
    span = f" [{_number(least)}..{_number(most)}]" if len(outcome.results) > 1 else ""
    return f"{_number(mean)} ({mean - base.spread(value)[0] / unit:+.4g}){span}"


def _minutes(before: float, after: float) -> str:
    return f"{_number(before / 60):>7} min {_number(after / 60):>7} min {_percent(before, after):>8}"


def _percent(before: float, after: float) -> str:
    if abs(after - before) < 0.0005 * abs(before) or before == after:
        return "0 %"
    return f"{100 * (after / before - 1):+.1f} %" if before else "new"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
