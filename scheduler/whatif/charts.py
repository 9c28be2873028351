"""Charts of a report of what would have happened."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from scheduler.simulation.charts import assign_lanes
from scheduler.simulation.history import PREEMPTED, JobRun
from scheduler.simulation.svg_elements import (
    LEFT,
    STOP_COLOUR,
    LinearScale,
    Ticks,
    draw_axes,
    draw_rectangle,
    draw_steps,
    draw_text,
    draw_vertical_line,
    make_x_scale,
    make_y_scale,
    round_ticks,
    wrap_svg,
)
from scheduler.whatif.comparison import Result

HEIGHT = 240
TALL_ROW, LEAST_ROW, MOST_HEIGHT = 15.0, 2.0, 1500.0
"""Heights of a card's row: as tall as so many cards leave room for."""
DAY = timedelta(days=1)


def plot_lines(
    title: str, values: Mapping[str, Sequence[float]], colours: Mapping[str, str], begins: float, ends: float
) -> str:
    """Plot equal spans of the period, a line for each name."""
    most = max((max(line, default=0.0) for line in values.values()), default=0.0)
    x, y = make_x_scale(begins, ends), make_y_scale(most, HEIGHT)
    parts = [*draw_axes(x, y, _day_ticks(begins, ends), round_ticks(y.high))]
    for name, line in values.items():
        step = (ends - begins) / max(len(line), 1)
        points = [(begins + place * step, float(value)) for place, value in enumerate(line)]
        parts.append(draw_steps(points, x, y, colours[name]))
    return wrap_svg(HEIGHT, f"{title} over time", parts)


def plot_shares(shares: Mapping[str, Mapping[str, float]], colours: Mapping[str, str]) -> str:
    """Plot a bar of shares for each name."""
    row, left = 26, 200
    x = LinearScale(0.0, 1.0, left, make_x_scale(0, 1).end)
    parts = []
    for place, (name, found) in enumerate(shares.items()):
        top, at = 4 + row * place, 0.0
        parts.append(draw_text(left - 6, top + 13, name if len(name) < 32 else name[:30] + "…", "end"))
        for why, share in found.items():
            parts.append(draw_rectangle(x(at), top, x(at + share) - x(at), 18, colours[why], f"{why}: {share:.1%}"))
            at += share
    return wrap_svg(row * len(shares) + 8, "Reasons of waiting, by share of time", parts)


def plot_cards(result: Result, colours: Mapping[str, str], begins: float, ends: float) -> str:
    """Plot what ran on each card, a row for each; runs that share a card are stacked. Many cards have low rows."""
    gap = 6.0
    machines = list(dict.fromkeys(machine for machine, _ in result.cards))
    row = max(min((MOST_HEIGHT - gap * len(machines)) / max(len(result.cards), 1), TALL_ROW), LEAST_ROW)
    x = make_x_scale(begins, ends)
    tops: list[float] = []
    at = 4.0
    for place, (machine, _) in enumerate(result.cards):
        at += gap if place and machine != result.cards[place - 1][0] else 0.0
        tops.append(at)
        at += row
    parts = [*_machine_rows(result.cards, tops, row, x)]
    on: dict[int, list[JobRun]] = {}
    for run in result.runs:
        if run.ended_at > begins and run.began_at < ends:
            for card in run.cards:
                on.setdefault(card, []).append(run)
    for card, runs in sorted(on.items()):
        for run, lane, lanes in assign_lanes(runs):
            parts += _bar(run, colours[result.teams[run.job]], x, tops[card] + row * lane / lanes, row / lanes)
    bottom = at + 4
    for day_at, label in _day_ticks(begins, ends):
        parts += [draw_vertical_line(x(day_at), 4, bottom), draw_text(x(day_at) + 3, bottom + 13, label)]
    return wrap_svg(round(bottom + 20), "What ran on each card", parts)


def _machine_rows(cards: Sequence[tuple[str, int]], tops: Sequence[float], row: float, x: LinearScale) -> Iterator[str]:
    """Yield the rows behind the runs, and names of machines as far as there is room for them."""
    named_at = -99.0
    for (machine, index), top in zip(cards, tops, strict=True):
        yield draw_rectangle(x.begin, top, x.end - x.begin, max(row - 0.8, 0.8), "none", attributes='class="row"')
        first = not index or top == tops[0]
        if (row >= 10 or first) and top - named_at >= 10:
            name = f"{machine} {index}" if row >= 10 else machine
            yield draw_text(LEFT - 6, top + 9, name if len(name) < 13 else "…" + name[-11:], "end")
            named_at = top


def _bar(run: JobRun, colour: str, x: LinearScale, top: float, height: float) -> Iterator[str]:
    left, right = x(max(run.began_at, x.low)), x(min(run.ended_at, x.high))
    yield draw_rectangle(left, top, right - left - 0.3, max(height - 0.8, 0.5), colour, f"{run.outcome}, {run.job}")
    if run.outcome == PREEMPTED and run.ended_at <= x.high:
        yield draw_rectangle(right - 2, top, 2, max(height - 0.8, 0.5), STOP_COLOUR)


def _day_ticks(begins: float, ends: float) -> Ticks:
    """Return midnights, at most ten."""
    first = datetime.fromtimestamp(begins, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [first + DAY * n for n in range(int((ends - begins) / 86_400) + 2)]
    inside = [day for day in days if begins <= day.timestamp() < ends]
    step = max(1, -(-len(inside) // 8))
    return [(day.timestamp(), f"{day:%b} {day.day}") for day in inside[::step]]
