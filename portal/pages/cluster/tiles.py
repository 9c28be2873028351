"""A map of many machines: one bar of cards for each, as their slices would be megabytes of HTML."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import ngettext

from portal.pages.cluster.card_figures import CardFigures
from portal.templatetags.amounts import gpu_sum

MOST_DRAWN = 250
"""Machines of a map that shows their slices, and is drawn anew with each sample."""


@dataclass(frozen=True)
class Tile:
    """A machine of a large map. parts: (tone, percent) of each card. href: where its slices are."""

    name: str
    href: str
    parts: list[tuple[str, float]]
    words: str


def build_tiles(machines: Mapping[str, Sequence[CardFigures]], link: Callable[[str], str]) -> list[Tile]:
    """Return one for each machine. machines: {name: its cards}."""
    return [
        Tile(
            name=name,
            href=link(name),
            parts=[(card.tone, 100 / len(cards)) for card in cards],
            words=describe_cards(cards),
        )
        for name, cards in machines.items()
    ]


def is_large(machines: int) -> bool:
    """Whether so many machines are too many to draw their slices."""
    return machines > MOST_DRAWN


def describe_cards(cards: Sequence[CardFigures]) -> str:
    words = ngettext("%(held)s of %(all)s card held", "%(held)s of %(all)s cards held", len(cards))
    return words % {"held": gpu_sum(sum(card.held.milli for card in cards)), "all": len(cards)}
