"""SVG drawing primitives."""

from collections.abc import Iterable, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from html import escape
from math import log10

COLOURS = ("#2563a8", "#c2571a", "#2f7d4f", "#8a4fa0", "#a8832a", "#b33a55", "#3a8a94", "#6b6b6b")
STOP_COLOUR = "#d11f2e"
GOLDEN = 0.618
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960, 76, 16, 24, 34

Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class LinearScale:
    """Linear scale from values to pixels."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return round(self.begin + share * (self.end - self.begin), 1)


def make_x_scale(low: float, high: float) -> LinearScale:
    return LinearScale(low, high, LEFT, WIDTH - RIGHT)


def make_y_scale(high: float, height: int) -> LinearScale:
    return LinearScale(0.0, high or 1.0, height - BOTTOM, TOP)


def wrap_svg(height: int, alt_text: str, parts: Iterable[str]) -> str:
    """Wrap parts in an SVG. says: its text alternative."""
    box = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
    head = f'<svg {box} role="img" aria-label="{escape(alt_text)}">'
    return "\n".join((head, *parts, "</svg>"))


def draw_axes(x: LinearScale, y: LinearScale, x_ticks: Ticks, y_ticks: Ticks) -> Iterable[str]:
    """Draw axes with ticks and horizontal grid lines."""
    bottom, top = y.begin, y.end
    for value, label in y_ticks:
        at = y(value)
        yield f'<line class="grid" x1="{x.begin}" x2="{x.end}" y1="{at}" y2="{at}"/>'
        yield draw_text(x.begin - 6, at + 4, label, "end")
    for value, label in x_ticks:
        yield f'<line class="axis" x1="{x(value)}" x2="{x(value)}" y1="{bottom}" y2="{bottom + 4}"/>'
        yield draw_text(x(value), bottom + 17, label, "middle")
    yield f'<path class="axis" d="M{x.begin} {top}V{bottom}H{x.end}"/>'


def draw_steps(points: Iterable[tuple[float, float]], x: LinearScale, y: LinearScale, colour: str) -> str:
    """Draw a step line."""
    path = ""
    for at, value in points:
        path += f"H{x(at)}V{y(value)}" if path else f"M{x(at)} {y(value)}"
    return f'<path fill="none" stroke="{colour}" stroke-width="1.5" d="{path}"/>'


def draw_vertical_line(x: float, top: float, bottom: float) -> str:
    return f'<line class="grid" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'


def draw_rectangle(
    x: float, y: float, width: float, height: float, colour: str, title: str = "", attributes: str = ""
) -> str:
    """Draw a rectangle. title: tooltip. words: more attributes."""
    shape = (
        f'<rect x="{x:g}" y="{y:g}" width="{max(width, 0.4):.4g}" height="{height:.4g}" fill="{colour}" {attributes}'
    )
    return f"{shape}><title>{escape(title)}</title></rect>" if title else f"{shape}/>"


def draw_text(x: float, y: float, content: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(content)}</text>'


def round_ticks(high: float, count: int = 5) -> Ticks:
    """Return ticks from 0 in steps of 1, 2 or 5 times a power of ten."""
    step = _round_step(high / count)
    return [(at * step, f"{at * step:g}") for at in range(int(high / step + 1e-9) + 1)]


def pick_colour(number: int, of: int = len(COLOURS)) -> str:
    """Return one of `of` colours that differ, readable on light and dark; beyond them they come again."""
    if of <= len(COLOURS):
        return COLOURS[number % len(COLOURS)]
    red, green, blue = hls_to_rgb((number * GOLDEN) % 1, (0.42, 0.55, 0.66)[number % 3], 0.55)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def _round_step(about: float) -> float:
    if about <= 0:
        return 1.0
    power = 10.0 ** int(log10(about) // 1)
    return next(power * times for times in (1, 2, 5, 10) if power * times >= about * 0.999)
