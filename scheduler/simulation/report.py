"""HTML report of a simulation, in one file without scripts."""

import subprocess
from html import escape
from pathlib import Path

from scheduler.simulation.charts import plot_completion_times, plot_gantt, plot_team_waits, plot_usage, plot_waits
from scheduler.simulation.history import SimulationHistory
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.summary import ALL_TEAMS
from scheduler.simulation.svg_elements import pick_colour
from scheduler.simulation.working_week import HOUR_S

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d1d1f; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { font-weight: 600; line-height: 1.25; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p { color: #55565a; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #e3e3e6; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: #55565a; }
.grid { stroke: #ececee; } .axis { stroke: #8d8e93; fill: none; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .35em 0 1em; }
"""
COLUMNS = (
    ("jobs", "jobs", 1),
    ("finished", "finished", 1),
    ("never started", "never_started", 1),
    ("mean queue, min", "mean_queue_s", 60),
    ("p50, min", "p50_queue_s", 60),
    ("p95, min", "p95_queue_s", 60),
    ("p99, min", "p99_queue_s", 60),
    ("longest, min", "max_queue_s", 60),
    ("mean JCT, h", "mean_jct_s", 3600),
    ("GPU hours", "gpu_hours", 1),
    ("stops", "stops", 1),
)


def build_report(
    scenario: Scenario, history: SimulationHistory, summary: dict[str, dict[str, float]], revision: str, week: int = 1
) -> str:
    """Build the report, deterministically. week: the Gantt's, from 1."""
    everybody = summary[ALL_TEAMS]
    in_use, hours = everybody["cards_in_use_pct"], everybody["virtual_makespan_s"] / HOUR_S
    used = f"{in_use:.1f} % of the cards in use over {hours:.1f} hours."
    names = [escape(scenario.name), f"revision {escape(revision)}", f"seed {scenario.seed}"]
    key = _render_legend(scenario)
    night = "Grey: nights and weekends. Pale: urgent, as notebooks are. A red end: stopped for others."
    sections = (
        ("Cards in use and length of the queue", "Means over equal spans of time.", plot_usage(scenario, history)),
        ("Waits", f"Share of the jobs that waited at most so long.{key}", plot_waits(scenario, history)),
        (
            "Completion",
            f"Share of the jobs done at most so long after they came.{key}",
            plot_completion_times(scenario, history),
        ),
        ("Mean queue of each team", "From coming to starting.", plot_team_waits(scenario, summary)),
        (f"Week {week}, card by card", f"{night}{key}", plot_gantt(scenario, history, week)),
    )
    body = "\n".join(f"<h2>{title}</h2>\n<p>{says}</p>\n{plot}" for title, says, plot in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>
<title>{names[0]}: simulation</title><style>{STYLE}</style></head>
<body>
<h1>{names[0]}</h1>
<p>Simulated by the scheduler of Tessera, {names[1]}, {names[2]}. {used}</p>
<div class="wide">{_render_table(summary)}</div>
{body}
</body>
</html>
"""


def _render_table(summary: dict[str, dict[str, float]]) -> str:
    head = "".join(f"<th>{title}</th>" for title, _, _ in COLUMNS)
    rows = (
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in (escape(who), *_format_cells(found))) + "</tr>"
        for who, found in summary.items()
    )
    return f"<table><tr><th>team</th>{head}</tr>{''.join(rows)}</table>"


def _format_cells(found: dict[str, float]) -> list[str]:
    values = (found[key] / unit for _, key, unit in COLUMNS)
    return [f"{value:,.0f}" if value >= 1000 else f"{value:.4g}" for value in values]


def _render_legend(scenario: Scenario) -> str:
    return "".join(
        f'<span class="key" style="background:{pick_colour(number)}"></span>{escape(team.name)}'
        for number, team in enumerate(scenario.cluster.teams)
    )


def read_revision() -> str:
    """Return the short commit hash, with "+" if files differ; "unknown" outside a repository."""
    here = Path(__file__).parent
    ask = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    said = subprocess.run(ask, cwd=here, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"
