"""The plots of a simulation: over time, of waits, of teams, and card by card."""

from collections.abc import Iterable, Sequence
from math import log10

from scheduler.core.types import URGENT
from scheduler.simulation.history import COMPLETED, PREEMPTED, History, Run, Sample
from scheduler.simulation.plots import (
    Scale,
    across,
    axes,
    colour_of,
    figure,
    rectangle,
    round_ticks,
    steps,
    text,
    upright,
    upwards,
)
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.week import DAY, HOUR, WEEK

HEIGHT, ROW, TOP_OF_GANTT = 260, 16, 6
MOST_POINTS = 900
TIMES = (
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (HOUR, "1 h"),
    (6 * HOUR, "6 h"),
    (DAY, "1 d"),
    (WEEK, "1 w"),
    (4 * WEEK, "4 w"),
)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def plot_series(scenario: Scenario, history: History) -> str:
    """Two panels over time: cards with somebody on them, and jobs that wait."""
    cards = sum(len(machine.cards) for machine in scenario.cluster.machines)
    x = across(0.0, max(history.ended_at, 1.0))
    most = max((sample.waiting for sample in history.samples), default=0)
    points = thin(history.samples, history.ended_at)
    parts: list[str] = []
    for place, (name, high, values) in enumerate(
        (
            ("cards in use", cards, [(at, cards_in_use) for at, cards_in_use, _ in points]),
            ("waiting", most, [(at, waiting) for at, _, waiting in points]),
        )
    ):
        y = upwards(high, HEIGHT)
        panel = [*axes(x, y, _day_ticks(history.ended_at), round_ticks(high)), steps(values, x, y, colour_of(place))]
        panel.append(text(x.begin, y.end - 9, name))
        parts.append(f'<g transform="translate(0 {place * HEIGHT})">{"".join(panel)}</g>')
    return figure(2 * HEIGHT, "Cards in use and jobs that wait, over time", parts)


def plot_waits(scenario: Scenario, history: History) -> str:
    """How long the jobs of each team waited until they started, gave up or the end came."""
    each = [[history.wait_s(job.job) for job in _came(scenario, history, team)] for team in range(_teams(scenario))]
    return plot_shares(each, "How many jobs of each team waited at most how long")


def plot_times(scenario: Scenario, history: History) -> str:
    """How long the jobs of each team took from when they came until they were done."""
    ended = {run.job: run.ended_at for run in history.runs if run.how == COMPLETED}
    each = [
        [ended[job.job] - job.submitted_at for job in _came(scenario, history, team) if job.job in ended]
        for team in range(_teams(scenario))
    ]
    return plot_shares(each, "How many jobs of each team were done at most how long after they came")


def plot_shares(each: Sequence[Sequence[float]], says: str) -> str:
    """A cumulative distribution for each team, seconds on a logarithmic axis from one second."""
    longest = max((value for values in each for value in values), default=1.0)
    x, y = across(0.0, log10(max(1.5 * longest, 100.0))), upwards(100.0, HEIGHT)
    times = [(log10(seconds), name) for seconds, name in TIMES if log10(seconds) <= x.high]
    parts = [*axes(x, y, times, [(share, f"{share} %") for share in (0, 25, 50, 75, 100)])]
    for team, values in enumerate(each):
        points = [(log10(max(value, 1.0)), 100 * (n + 1) / len(values)) for n, value in enumerate(sorted(values))]
        if points:
            parts.append(steps([(x.low, 0.0), *_last_of_each(points), (x.high, 100.0)], x, y, colour_of(team)))
    return figure(HEIGHT, says, parts)


def plot_teams(scenario: Scenario, summary: dict[str, dict[str, float]]) -> str:
    names = [team.name for team in scenario.cluster.teams]
    means = [summary[name]["mean_queue_s"] / 60 for name in names]
    height = 24 * len(names) + 44
    x = across(0.0, max([*means, 1.0]) * 1.08)
    parts = []
    for place, (name, mean) in enumerate(zip(names, means, strict=True)):
        at = 12 + 24 * place
        parts += [
            rectangle(x.begin, at, x(mean) - x.begin, 16, colour_of(place)),
            text(x.begin - 6, at + 12, _short(name), "end"),
            text(x(mean) + 5, at + 12, f"{mean:.1f} min"),
        ]
    return figure(height, "Mean queue of each team in minutes", parts)


def plot_gantt(scenario: Scenario, history: History, week: int) -> str:
    """One row for each card; tasks that share one lie below each other."""
    begin, end = (week - 1) * WEEK, week * WEEK
    names = scenario.cluster.card_names()
    height = len(names) * (ROW + 2) + TOP_OF_GANTT + 34
    x = across(begin, end)
    bottom = height - 34
    parts = []
    for dusk, dawn in scenario.working_day.nights(end):
        if dawn > begin and dusk < end:
            left, right = x(max(dusk, begin)), x(min(dawn, end))
            parts.append(rectangle(left, TOP_OF_GANTT, right - left, bottom - TOP_OF_GANTT, "#efeff2"))
    for card, name in enumerate(names):
        at = TOP_OF_GANTT + card * (ROW + 2)
        parts.append(text(x.begin - 6, at + 12, name, "end"))
        for run, lane, lanes in in_lanes(run for run in history.runs if card in run.cards):
            if run.ended_at > begin and run.began_at < end:
                parts += _bar(scenario, run, x, at + ROW * lane / lanes, ROW / lanes, begin, end)
    for day in range(7):
        parts.append(text(x(begin + day * DAY) + 4, height - 16, DAYS[day]))
        parts.append(upright(x(begin + day * DAY), TOP_OF_GANTT, bottom))
    return figure(height, f"What ran on each card in week {week}", parts)


def in_lanes(runs: Iterable[Run]) -> list[tuple[Run, int, int]]:
    """[(run, lane, lanes)]: runs that overlap lie in different lanes, of as many as they need while they touch."""
    placed: list[tuple[Run, int, int]] = []
    group: list[tuple[Run, int]] = []
    ends: list[float] = []
    for run in sorted(runs, key=lambda run: (run.began_at, run.job)):
        if all(end <= run.began_at for end in ends):
            placed += [(other, lane, len(ends)) for other, lane in group]
            group, ends = [], []
        lane = next((lane for lane, end in enumerate(ends) if end <= run.began_at), len(ends))
        ends[lane : lane + 1] = [run.ended_at]
        group.append((run, lane))
    return placed + [(other, lane, len(ends)) for other, lane in group]


def thin(samples: Sequence[Sample], until: float) -> list[tuple[float, float, float]]:
    """[(at, cards in use, waiting)]: means over at most MOST_POINTS equal spans, weighted by time."""
    span = max(until, 1.0) / MOST_POINTS
    sums = [[0.0, 0.0, 0.0] for _ in range(MOST_POINTS)]
    for sample, next_at in zip(samples, [*(s.at for s in samples[1:]), until], strict=True):
        place, at = int(sample.at / span), sample.at
        while at < next_at and place < MOST_POINTS:
            piece = min(next_at, (place + 1) * span) - at
            for column, value in enumerate((1, sample.cards_in_use, sample.waiting)):
                sums[place][column] += max(piece, 0.0) * value
            at, place = (place + 1) * span, place + 1
    return [
        (place * span, cards / seconds, waiting / seconds)
        for place, (seconds, cards, waiting) in enumerate(sums)
        if seconds > 0
    ]


def _bar(scenario: Scenario, run: Run, x: Scale, top: float, height: float, begin: float, end: float) -> list[str]:
    job = scenario.jobs[run.job - 1]
    left, right = x(max(run.began_at, begin)), x(min(run.ended_at, end))
    team = scenario.cluster.teams[job.team].name
    title = f"{team}, job {run.job}: {_clock(run.began_at)} to {_clock(run.ended_at)}, {run.how}"
    pale = 'opacity="0.45"' if job.priority == URGENT else ""
    bar = rectangle(left, top, right - left - 0.6, height - 0.6, colour_of(job.team), title, pale)
    if run.how == PREEMPTED and run.ended_at <= end:
        return [bar, rectangle(right - 2, top, 2, height - 0.6, "#d11f2e")]
    return [bar]


def _came(scenario: Scenario, history: History, team: int) -> list:
    return [job for job in scenario.jobs if job.team == team and job.submitted_at <= history.ended_at]


def _teams(scenario: Scenario) -> int:
    return len(scenario.cluster.teams)


def _last_of_each(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """One point for each tenth of a pixel: thousands of equal waits are one step."""
    return list({round(at, 3): (at, share) for at, share in points}.values())


def _day_ticks(until: float) -> list[tuple[float, str]]:
    days = int(until // DAY) + 1
    step = max(1, -(-days // 10))
    return [(float(day * DAY), f"{DAYS[day % 7]} {day // 7 + 1}") for day in range(0, days, step)]


def _clock(at: float) -> str:
    day, rest = divmod(int(at), DAY)
    return f"{DAYS[day % 7]} {rest // HOUR:02}:{rest % HOUR // 60:02}"


def _short(name: str) -> str:
    return name if len(name) < 10 else name[:8] + "…"
