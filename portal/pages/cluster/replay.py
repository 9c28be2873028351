"""The replay: the GPU map and the queue as they were at a moment of the last days."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from accounts.models import User
from cluster.models import Gpu, Pool
from common.errors import InvalidInput, NotFound
from jobs.models import Priority
from monitoring.replay.hours import load_hours
from monitoring.replay.machines import was_there
from monitoring.replay.span import check_moment, find_first
from monitoring.replay.waiting import FoundWait, find_waits
from portal.access.past_rows import PastWait, list_past_nodes, list_past_waits
from portal.pages.cluster.card_figures import CardFigures, count_machines, load_past_figures
from portal.pages.cluster.gpu_map import teams_on
from portal.pages.cluster.machines import Card, Machine, build_machines, keep_pool
from portal.pages.cluster.queue import SHOWN, describe_ask
from portal.pages.cluster.tiles import Tile, build_tiles, describe_cards, is_large
from portal.pages.request_guards import signed_in
from portal.partial import render_page, wants_fragment
from portal.templatetags.amounts import gpu_sum
from portal.wording.resources import show_elapsed

GRID_S = 300
"""Of the slider, in seconds."""
MOST_BARS = 168
"""An hour each, once the history is a week long."""
HOUR, MINUTES = timedelta(hours=1), timedelta(minutes=5)
STEPS: tuple[tuple[timedelta, Promise, Promise], ...] = (
    (-HOUR, gettext_lazy("−1 h"), gettext_lazy("An hour earlier")),
    (-MINUTES, gettext_lazy("−5 min"), gettext_lazy("Five minutes earlier")),
    (MINUTES, gettext_lazy("+5 min"), gettext_lazy("Five minutes later")),
    (HOUR, gettext_lazy("+1 h"), gettext_lazy("An hour later")),
)


@dataclass(frozen=True)
class Step:
    """A button that leads to another moment; href: "" where that cannot be shown."""

    words: str
    says: str
    href: str


class WaitLine:
    def __init__(self, row: PastWait, at: datetime):
        self.row = row
        self.waited = show_elapsed(row.since, at)

    @property
    def ask(self) -> str:
        return " + ".join(describe_ask(gpu, tasks) for gpu, tasks in self.row.asks)

    @property
    def priority(self) -> str:
        return "" if self.row.priority is None else str(Priority(self.row.priority).label)


@dataclass(frozen=True)
class Strip:
    """Bars under the slider, each (height in percent, its parts). most: the highest bar, in words."""

    says: str
    tone: str
    bars: list[tuple[float, list[tuple[str, float]]]]
    most: str


class Replay:
    """?at=2026-11-28T17:30Z, or seconds since 1970 as the slider sends them; ?pool= and ?node= filter."""

    def __init__(self, user: User, get: Mapping[str, str]):
        self.user, self.now, self.trouble = user, timezone.now(), ""
        self.first = find_first(self.now)
        self.at = self._read(get.get("at", ""))
        self.asked = "" if self.at == self.now else write_moment(self.at)
        self.pool, self.pools = get.get("pool", ""), list(Pool.objects.values_list("name", flat=True))
        if self.pool and self.pool not in self.pools:
            raise NotFound(kind="pool")
        self.node = get.get("node", "")

    def _read(self, text: str) -> datetime:
        """Return what is asked for; now, and the trouble with it, where that cannot be shown."""
        try:
            return check_moment(read_moment(text), self.first, self.now) if text else self.now
        except ValueError:
            self.trouble = _("Write the time as 2026-11-28T17:30Z.")
        except InvalidInput:
            span = {"first": show_moment(self.first), "last": show_moment(self.now)}
            self.trouble = _("That time cannot be shown. Choose one from %(first)s to %(last)s.") % span
        return self.now

    @cached_property
    def is_large(self) -> bool:
        """Whether the machines are too many to draw their slices."""
        return not self.node and is_large(count_machines(Gpu.objects.filter(was_there(self.at)), self.pool))

    @cached_property
    def figures(self) -> dict[str, list[CardFigures]]:
        """Return what was held and left of cards, by machine."""
        if self.is_large:
            return load_past_figures(self.at, self.pool)
        return {machine.node.name: [card.figures for card in machine.cards] for machine in self.machines}

    @cached_property
    def machines(self) -> list[Machine]:
        """Return those that are shown with their slices."""
        if self.is_large:
            return []
        return keep_pool(build_machines(list_past_nodes(self.user, self.at, self.node)), self.pool)

    @cached_property
    def cards(self) -> list[Card]:
        return [card for machine in self.machines for card in machine.cards]

    @cached_property
    def waits(self) -> list[FoundWait]:
        return find_waits(self.at, self.pool)

    @property
    def tiles(self) -> list[Tile]:
        """Return what stands for the slices of many machines; each leads to the replay of that machine alone."""
        if not self.is_large:
            return []
        begin = self.address(self.at, "")
        return build_tiles(self.figures, lambda name: f"{begin}&{urlencode({'node': name})}")

    @property
    def everywhere(self) -> str:
        """Link to all machines."""
        return self.address(self.at, "")

    @cached_property
    def lines(self) -> list[WaitLine]:
        return [WaitLine(row, self.at) for row in list_past_waits(self.user, self.waits[:SHOWN])]

    @property
    def more(self) -> int:
        return len(self.waits[SHOWN:])

    @property
    def legend(self) -> list[tuple[str, str]]:
        return teams_on(self.cards)

    @property
    def answer(self) -> str:
        waiting = ngettext("%(count)s job waiting", "%(count)s jobs waiting", len(self.waits))
        cards = [card for there in self.figures.values() for card in there]
        parts = {"at": show_moment(self.at), "cards": describe_cards(cards)}
        return _("%(at)s: %(cards)s, %(waiting)s.") % {**parts, "waiting": waiting % {"count": len(self.waits)}}

    @property
    def shown(self) -> str:
        return show_moment(self.at)

    @property
    def zone(self) -> str:
        return timezone.get_current_timezone_name()

    @property
    def slider(self) -> dict[str, int]:
        """Return its ends and place, in seconds since 1970."""
        last = int(self.now.timestamp()) // GRID_S * GRID_S
        first = min(-(int(-self.first.timestamp()) // GRID_S) * GRID_S, last - GRID_S)
        return {"min": first, "max": last, "step": GRID_S, "value": round(self.at.timestamp())}

    @property
    def strips(self) -> list[Strip]:
        """Return what was held and who waited, over all that the slider reaches."""
        span_s = self.slider["max"] - self.slider["min"]
        step = timedelta(seconds=-(-span_s // (MOST_BARS * GRID_S)) * GRID_S)
        begins = datetime.fromtimestamp(self.slider["min"], UTC)
        hours = load_hours(begins, begins + timedelta(seconds=span_s), step)
        held, waiting = [hour.held_milli for hour in hours], [hour.waiting for hour in hours]
        return [
            build_strip(_("Cards held"), "work", held, gpu_sum(max(held))),
            build_strip(_("Jobs waiting"), "idle", waiting, str(max(waiting))),
        ]

    @property
    def steps(self) -> list[Step]:
        moments = [(self.at + by, words, says) for by, words, says in STEPS]
        return [
            Step(str(words), str(says), self.address(at) if self.first <= at <= self.now else "")
            for at, words, says in moments
        ]

    @property
    def latest(self) -> str:
        """Link to now."""
        return self.address(None)

    def address(self, at: datetime | None, node: str | None = None) -> str:
        asked = {"at": write_moment(at) if at else "", "pool": self.pool, "node": self.node if node is None else node}
        return f"{reverse('replay')}?{urlencode({name: value for name, value in asked.items() if value})}".rstrip("?")


def build_strip(says: str, tone: str, values: Sequence[int], most: str) -> Strip:
    top = max(values) or 1
    return Strip(says, tone, [(100 * value / top, [(tone, 100.0)]) for value in values], most)


@signed_in
@require_safe
def show_replay(request: HttpRequest) -> HttpResponse:
    replay = Replay(cast(User, request.user), request.GET)
    context = {
        "replay": replay,
        "answer": replay.answer,
        "strips": [] if wants_fragment(request) else replay.strips,
        "at": replay.at,
        "machines": replay.machines,
        "tiles": replay.tiles,
        "cards": replay.cards,
        "legend": replay.legend,
    }
    response = render_page(request, "cluster/replay.html", context, fragment="cluster/_replay_live.html")
    response["HX-Replace-Url"] = replay.address(replay.at if replay.asked else None)
    return response


def read_moment(text: str) -> datetime:
    """Read RFC 3339, in UTC where it names no zone, or seconds since 1970. Raises ValueError."""
    if text.isdecimal() and text.isascii():
        try:
            return datetime.fromtimestamp(int(text), UTC)
        except (OverflowError, OSError) as far:
            raise ValueError(text) from far
    at = parse_datetime(text)
    if at is None:
        raise ValueError(text)
    return at if timezone.is_aware(at) else at.replace(tzinfo=UTC)


def write_moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def show_moment(at: datetime) -> str:
    """Return the moment by the clocks of the person's zone, which it names: "2026-11-28 18:30 Europe/Berlin"."""
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M} {timezone.get_current_timezone_name()}"
