"""A page as a person reads it: elements by their class or id, and their text."""

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "link", "meta", "use", "rect", "path", "source", "wbr", "col"}
HIDDEN = {"script", "style", "template"}
BESIDE = "learn-more"
"""Class of a link that stands beside a sentence and is no part of it."""


class Element:
    def __init__(self, tag: str = "", attributes: dict[str, str] | None = None):
        self.tag, self.attributes = tag, attributes or {}
        self.inside: list[Element | str] = []

    def find_all(self, tag: str = "", **wanted: str) -> Iterator["Element"]:
        """Yield elements within: of a tag, with a class among its classes (class_), or with these attributes."""
        for one in self.inside:
            if isinstance(one, Element):
                if one._matches(tag, wanted):
                    yield one
                yield from one.find_all(tag, **wanted)

    def find(self, tag: str = "", **wanted: str) -> "Element | None":
        return next(self.find_all(tag, **wanted), None)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._pieces()).split())

    def _matches(self, tag: str, wanted: dict[str, str]) -> bool:
        if tag and self.tag != tag:
            return False
        for name, value in wanted.items():
            said = self.attributes.get(name.rstrip("_"), "")
            if value not in said.split() if name == "class_" else value != said:
                return False
        return True

    def _pieces(self) -> Iterator[str]:
        if self.tag in HIDDEN or BESIDE in self.attributes.get("class", "").split():
            return
        for one in self.inside:
            if isinstance(one, Element):
                yield from one._pieces()
            else:
                yield one


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Element()]

    def handle_starttag(self, tag, attributes):
        element = Element(tag, {name: value or "" for name, value in attributes})
        self.open[-1].inside.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.open[-1].inside.append(Element(tag, {name: value or "" for name, value in attributes}))

    def handle_endtag(self, tag):
        places = [at for at, element in enumerate(self.open) if element.tag == tag]
        if places:
            del self.open[places[-1] :]

    def handle_data(self, data):
        self.open[-1].inside.append(data)


def read_page(html: str) -> Element:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.open[0]
