"""A line of the palette, and the heading that it stands under."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.functional import Promise


@dataclass(frozen=True)
class Option:
    """href: the page that it leads to; else presses: the id of the button of the page that it presses."""

    words: str | Promise
    icon: str
    href: str = ""
    presses: str = ""
    note: str | Promise = ""


@dataclass(frozen=True)
class Group:
    words: str | Promise
    options: Sequence[Option]
