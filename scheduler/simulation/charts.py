"""Charts of a simulation report."""

from collections.abc import Iterable, Sequence
from math import log10

from scheduler.core.model.types import URGENT
from scheduler.simulation.history import COMPLETED, PREEMPTED, JobRun, SimulationHistory, UsageSample
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.svg_elements import (
    STOP_COLOUR,
    LinearScale,
    draw_axes,
    draw_rectangle,
    draw_steps,
    draw_text,
    draw_vertical_line,
    make_x_scale,
    make_y_scale,
    pick_colour,
    round_ticks,
    wrap_svg,
)
from scheduler.simulation.working_week import DAY_S, HOUR_S, WEEK_S

HEIGHT, ROW, TOP_OF_GANTT = 260, 16, 6
MAX_POINTS = 900
TIME_TICKS = (
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (HOUR_S, "1 h"),
    (6 * HOUR_S, "6 h"),
    (DAY_S, "1 d"),
    (WEEK_S, "1 w"),
    (4 * WEEK_S, "4 w"),
)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def plot_usage(scenario: Scenario, history: SimulationHistory) -> str:
    """Plot cards in use and waiting jobs over time."""
    cards = sum(len(machine.cards) for machine in scenario.cluster.nodes)
    x = make_x_scale(0.0, max(history.ended_at, 1.0))
    most = max((sample.waiting for sample in history.samples), default=0)
    points = downsample(history.samples, history.ended_at)
    parts: list[str] = []
    for place, (name, high, values) in enumerate(
        (
            ("cards in use", cards, [(at, cards_in_use) for at, cards_in_use, _ in points]),
            ("waiting", most, [(at, waiting) for at, _, waiting in points]),
        )
    ):
        y = make_y_scale(high, HEIGHT)
        panel = [
            *draw_axes(x, y, _day_ticks(history.ended_at), round_ticks(high)),
            draw_steps(values, x, y, pick_colour(place)),
        ]
        panel.append(draw_text(x.begin, y.end - 9, name))
        parts.append(f'<g transform="translate(0 {place * HEIGHT})">{"".join(panel)}</g>')
    return wrap_svg(2 * HEIGHT, "Cards in use and jobs that wait, over time", parts)


def plot_waits(scenario: Scenario, history: SimulationHistory) -> str:
    """Plot the distribution of waits by team."""
    each = [
        [history.wait_s(job.job) for job in _submitted_jobs(scenario, history, team)]
        for team in range(_count_teams(scenario))
    ]
    return plot_distributions(each, "How many jobs of each team waited at most how long")


def plot_completion_times(scenario: Scenario, history: SimulationHistory) -> str:
    """Plot the distribution of completion times by team."""
    ended = {run.job: run.ended_at for run in history.runs if run.outcome == COMPLETED}
    each = [
        [ended[job.job] - job.submitted_at for job in _submitted_jobs(scenario, history, team) if job.job in ended]
        for team in range(_count_teams(scenario))
    ]
    return plot_distributions(each, "How many jobs of each team were done at most how long after they came")


def plot_distributions(each: Sequence[Sequence[float]], alt_text: str) -> str:
    """Plot cumulative distributions on a logarithmic axis of seconds."""
    longest = max((value for values in each for value in values), default=1.0)
    x, y = make_x_scale(0.0, log10(max(1.5 * longest, 100.0))), make_y_scale(100.0, HEIGHT)
    times = [(log10(seconds), name) for seconds, name in TIME_TICKS if log10(seconds) <= x.high]
    parts = [*draw_axes(x, y, times, [(share, f"{share} %") for share in (0, 25, 50, 75, 100)])]
    for team, values in enumerate(each):
        points = [(log10(max(value, 1.0)), 100 * (n + 1) / len(values)) for n, value in enumerate(sorted(values))]
        if points:
            parts.append(draw_steps([(x.low, 0.0), *_drop_overdrawn(points), (x.high, 100.0)], x, y, pick_colour(team)))
    return wrap_svg(HEIGHT, alt_text, parts)


def plot_team_waits(scenario: Scenario, summary: dict[str, dict[str, float]]) -> str:
    names = [team.name for team in scenario.cluster.teams]
    means = [summary[name]["mean_queue_s"] / 60 for name in names]
    height = 24 * len(names) + 44
    x = make_x_scale(0.0, max([*means, 1.0]) * 1.08)
    parts = []
    for place, (name, mean) in enumerate(zip(names, means, strict=True)):
        at = 12 + 24 * place
        parts += [
            draw_rectangle(x.begin, at, x(mean) - x.begin, 16, pick_colour(place)),
            draw_text(x.begin - 6, at + 12, _shorten(name), "end"),
            draw_text(x(mean) + 5, at + 12, f"{mean:.1f} min"),
        ]
    return wrap_svg(height, "Mean queue of each team in minutes", parts)


def plot_gantt(scenario: Scenario, history: SimulationHistory, week: int) -> str:
    """Plot a week of runs, one row per card; runs that share a card are stacked."""
    begin, end = (week - 1) * WEEK_S, week * WEEK_S
    names = scenario.cluster.card_names()
    height = len(names) * (ROW + 2) + TOP_OF_GANTT + 34
    x = make_x_scale(begin, end)
    bottom = height - 34
    parts = []
    for dusk, dawn in scenario.working_day.list_nights(end):
        if dawn > begin and dusk < end:
            left, right = x(max(dusk, begin)), x(min(dawn, end))
            parts.append(draw_rectangle(left, TOP_OF_GANTT, right - left, bottom - TOP_OF_GANTT, "#efeff2"))
    for card, name in enumerate(names):
        at = TOP_OF_GANTT + card * (ROW + 2)
        parts.append(draw_text(x.begin - 6, at + 12, name, "end"))
        for run, lane, lanes in assign_lanes(run for run in history.runs if card in run.cards):
            if run.ended_at > begin and run.began_at < end:
                parts += _bar(scenario, run, x, at + ROW * lane / lanes, ROW / lanes, begin, end)
    for day in range(7):
        parts.append(draw_text(x(begin + day * DAY_S) + 4, height - 16, DAYS[day]))
        parts.append(draw_vertical_line(x(begin + day * DAY_S), TOP_OF_GANTT, bottom))
    return wrap_svg(height, f"What ran on each card in week {week}", parts)


def assign_lanes(runs: Iterable[JobRun]) -> list[tuple[JobRun, int, int]]:
    """Return [(run, lane, lanes)], overlapping runs in different lanes."""
    placed: list[tuple[JobRun, int, int]] = []
    group: list[tuple[JobRun, int]] = []
    ends: list[float] = []
    for run in sorted(runs, key=lambda run: (run.began_at, run.job)):
        if all(end <= run.began_at for end in ends):
            placed += [(other, lane, len(ends)) for other, lane in group]
            group, ends = [], []
        lane = next((lane for lane, end in enumerate(ends) if end <= run.began_at), len(ends))
        ends[lane : lane + 1] = [run.ended_at]
        group.append((run, lane))
    return placed + [(other, lane, len(ends)) for other, lane in group]


def downsample(samples: Sequence[UsageSample], until: float) -> list[tuple[float, float, float]]:
    """Return [(at, cards in use, waiting)]: time-weighted means over at most MAX_POINTS spans."""
    span = max(until, 1.0) / MAX_POINTS
    sums = [[0.0, 0.0, 0.0] for _ in range(MAX_POINTS)]
    for sample, next_at in zip(samples, [*(s.at for s in samples[1:]), until], strict=True):
        place, at = int(sample.at / span), sample.at
        while at < next_at and place < MAX_POINTS:
            piece = min(next_at, (place + 1) * span) - at
            for column, value in enumerate((1, sample.cards_in_use, sample.waiting)):
                sums[place][column] += max(piece, 0.0) * value
            at, place = (place + 1) * span, place + 1
    return [
        (place * span, cards / seconds, waiting / seconds)
        for place, (seconds, cards, waiting) in enumerate(sums)
        if seconds > 0
    ]


def _bar(
    scenario: Scenario, run: JobRun, x: LinearScale, top: float, height: float, begin: float, end: float
) -> list[str]:
    job = scenario.jobs[run.job - 1]
    left, right = x(max(run.began_at, begin)), x(min(run.ended_at, end))
    team = scenario.cluster.teams[job.team].name
    title = f"{team}, job {run.job}: {_format_clock(run.began_at)} to {_format_clock(run.ended_at)}, {run.outcome}"
    pale = 'opacity="0.45"' if job.priority == URGENT else ""
    bar = draw_rectangle(left, top, right - left - 0.6, height - 0.6, pick_colour(job.team), title, pale)
    if run.outcome == PREEMPTED and run.ended_at <= end:
        return [bar, draw_rectangle(right - 2, top, 2, height - 0.6, STOP_COLOUR)]
    return [bar]


def _submitted_jobs(scenario: Scenario, history: SimulationHistory, team: int) -> list:
    return [job for job in scenario.jobs if job.team == team and job.submitted_at <= history.ended_at]


def _count_teams(scenario: Scenario) -> int:
    return len(scenario.cluster.teams)


def _drop_overdrawn(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep one point per tenth of a pixel."""
    return list({round(at, 3): (at, share) for at, share in points}.values())


def _day_ticks(until: float) -> list[tuple[float, str]]:
    days = int(until // DAY_S) + 1
    step = max(1, -(-days // 10))
    return [(float(day * DAY_S), f"{DAYS[day % 7]} {day // 7 + 1}") for day in range(0, days, step)]


def _format_clock(at: float) -> str:
    day, rest = divmod(int(at), DAY_S)
    return f"{DAYS[day % 7]} {rest // HOUR_S:02}:{rest % HOUR_S // 60:02}"


def _shorten(name: str) -> str:
    return name if len(name) < 10 else name[:8] + "…"
