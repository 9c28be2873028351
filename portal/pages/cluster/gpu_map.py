"""The GPU map: who holds which card; of many machines a bar of their cards for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import cast

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from accounts.models import Team, User
from cluster.models import Gpu, Node, NodeState, Pool
from common.errors import NotFound
from portal.access.redacted_rows import filter_nodes, view_nodes
from portal.pages.cluster import tiles
from portal.pages.cluster.card_figures import SIZES, CardFigures, count_machines, list_closed_nodes, load_figures
from portal.pages.cluster.machines import Card, Machine, build_machines, keep_pool, show_gpu_size
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.templatetags.amounts import gpu_sum
from portal.templatetags.bars import team_classes


@dataclass(frozen=True)
class Size:
    """A size to look for; `count`: cards with room for one now."""

    value: str
    words: str
    count: int
    chosen: bool


class GpuMap:
    """pool: shows its cards only. size: of many machines, shows only those with room for one more task of it."""

    def __init__(self, user: User, pool: str, size: str):
        self.user, self.pool, self.size = user, pool, size

    @cached_property
    def is_large(self) -> bool:
        """Whether the machines are too many to draw their slices."""
        return tiles.is_large(count_machines(Gpu.objects.present(), self.pool))

    @cached_property
    def figures(self) -> list[CardFigures]:
        """Return what is held and left of each card, whether it is shown or not."""
        if self.is_large:
            return [card for cards in self._figures_by_node.values() for card in cards]
        return [card.figures for card in self.cards]

    @cached_property
    def cards(self) -> list[Card]:
        return [card for machine in self.machines for card in machine.cards]

    @cached_property
    def machines(self) -> list[Machine]:
        """Return those that are shown with their slices."""
        if not self.is_large:
            return self._view_machines(filter_nodes(pool=self.pool))
        few = self.size and not tiles.is_large(len(self._shown))
        return self._view_machines(filter_nodes().filter(pk__in=self._shown)) if few else []

    @property
    def tiles(self) -> list[tiles.Tile]:
        """Return what stands for the slices of many machines."""
        if not self.is_large or self.machines:
            return []
        names = Node.objects.filter(pk__in=self._shown).order_by("name").values_list("pk", "name")
        by_name = {name: self._shown[node] for node, name in names}
        return tiles.build_tiles(by_name, lambda name: reverse("node", args=[name]))

    @property
    def sizes(self) -> list[Size]:
        counts = [sum(size in card.fitting_sizes for card in self.figures) for size in SIZES]
        return [
            Size(size, show_gpu_size(size), count, size == self.size) for size, count in zip(SIZES, counts, strict=True)
        ]

    @property
    def answer(self) -> str:
        if not self.figures:
            return ""
        free, whole = sum(card.free_milli for card in self.figures), sum(card.is_whole for card in self.figures)
        numbers = {"free": gpu_sum(free), "all": len(self.figures), "whole": whole}
        return _("%(free)s of %(all)s cards free; %(whole)s of them whole.") % numbers

    @property
    def is_sampled(self) -> bool:
        """Whether curves are shown, which change without events."""
        return not self.is_large and any(machine.is_sampled for machine in self.machines)

    @cached_property
    def _shown(self) -> dict[int, list[CardFigures]]:
        by_node = self._figures_by_node
        if not self.size:
            return by_node
        return {
            node: cards for node, cards in by_node.items() if any(self.size in card.fitting_sizes for card in cards)
        }

    @cached_property
    def _figures_by_node(self) -> dict[int, list[CardFigures]]:
        now = timezone.now()
        ready = Node.objects.present().filter(state=NodeState.READY).values_list("pk", flat=True)
        cards = load_figures(set(ready).difference(*list_closed_nodes(now)), self.pool)
        return {node: [card for _node, card in there] for node, there in groupby(cards, key=itemgetter(0))}

    def _view_machines(self, nodes: QuerySet[Node]) -> list[Machine]:
        return keep_pool(build_machines(view_nodes(self.user, nodes, only_cards=True)), self.pool)


@signed_in
@require_safe
def show_gpu_map(request: HttpRequest) -> HttpResponse:
    """Show the GPU map; ?pool= filters, ?size= highlights cards with room, or of many machines lists those with any."""
    pool, size = request.GET.get("pool", ""), request.GET.get("size", "")
    pools = list(Pool.objects.values_list("name", flat=True))
    if pool and pool not in pools:
        raise NotFound(kind="pool")
    shown = GpuMap(cast(User, request.user), pool, size if size in SIZES else "")
    context = {
        "map": shown,
        "machines": shown.machines,
        "cards": shown.cards,
        "tiles": shown.tiles,
        "is_large": shown.is_large,
        "is_sampled": shown.is_sampled,
        "legend": teams_on(shown.cards),
        "answer": shown.answer,
        "pool": pool,
        "pools": pools,
    }
    return render_page(request, "cluster/map.html", context, fragment="cluster/_map_live.html")


def teams_on(cards: Sequence[Card]) -> list[tuple[str, str]]:
    """Return the teams that hold some of the cards, each with the classes of its colour."""
    names = {part.team for card in cards for part in card.view.slices if part.team and not part.own}
    numbers = Team.objects.filter(name__in=names).values_list("name", "pk")
    return [(name, team_classes(number)) for name, number in numbers]
