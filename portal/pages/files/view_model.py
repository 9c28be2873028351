"""View models of files."""

import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from common.amounts import show_bytes
from common.text import bad_character
from files.file_areas import FileArea
from runtimes.storage.file_store import Entry

ICONS = {"folder": "folder", "file": "file", "link": "link", "other": "question-mark"}


@dataclass(frozen=True)
class Row:
    """A directory entry; `shown` is `name` with invisible characters escaped; `href` may be ""."""

    name: str
    shown: str
    kind: str
    icon: str
    href: str
    download: str
    size: str
    changed_at: datetime

    @classmethod
    def of(cls, area: FileArea, folder: str, entry: Entry, name: str) -> "Row":
        path = join(folder, name)
        query = urlencode({"place": area.name, "path": path})
        is_file = entry.kind == "file"
        packed = {"file": "file_content", "folder": "file_archive"}.get(entry.kind)
        opens = {"folder": address(area, path), "other": ""}.get(entry.kind, f"{reverse('file_view')}?{query}")
        return cls(
            name=name,
            shown=show_name(name),
            kind=entry.kind,
            icon=ICONS[entry.kind],
            href=opens,
            download=f"{reverse(packed)}?{query}" if packed else "",
            size=show_bytes(entry.size) if is_file else "",
            changed_at=_time_of(entry),
        )


@dataclass(frozen=True)
class Crumb:
    words: str
    href: str


@dataclass(frozen=True)
class Text:
    """A text preview, `cut` if the file is longer."""

    body: str
    cut: bool


def rows_of(area: FileArea, folder: str, entries: list[Entry]) -> list[Row]:
    return [Row.of(area, folder, entry, entry.name) for entry in entries]


def crumbs_of(area: FileArea, path: str) -> list[Crumb]:
    """Return links from the root to `path`."""
    crumbs = [Crumb(area.team.name if area.team else _("My home"), address(area, ""))]
    names = path.split("/") if path else []
    for depth, name in enumerate(names, 1):
        crumbs.append(Crumb(show_name(name), address(area, "/".join(names[:depth]))))
    return crumbs


def address(area: FileArea, path: str, page: int = 1) -> str:
    there = reverse("files_team", args=[area.team.name]) if area.team else reverse("files")
    asked = {**({"path": path} if path else {}), **({"page": page} if page > 1 else {})}
    return f"{there}?{urlencode(asked)}" if asked else there


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def show_name(name: str) -> str:
    r"""Escape invisible and direction-changing characters: "a\u202etxt"."""
    return "".join(_written(char) if bad_character(char) else char for char in name)


def text_of(head: bytes, *, cut: bool) -> Text | None:
    """Decode the start of a file for display; None if binary."""
    text = head.decode("utf-8", errors="replace")
    if "\0" in text or text.count("\ufffd") > 8 + len(text) // 20:
        return None
    return Text("".join(char if _is_plain(char) else _written(char) for char in text), cut)


def _is_plain(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} or char == "\ufeff"


def _written(char: str) -> str:
    return "" if char == "\r" else char.encode("unicode_escape").decode("ascii")


def _time_of(entry: Entry) -> datetime:
    try:
        return datetime.fromtimestamp(entry.changed_ns / 1e9, tz=UTC)
    except (OverflowError, ValueError):  # mtime may be any year
        return datetime(1970, 1, 1, tzinfo=UTC)
