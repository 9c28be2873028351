"""Pages and actions for home and team folders."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.models import User
from common.amounts import show_bytes
from common.errors import NotFound, PlatformError
from files.file_areas import HOME, TEAM, FileArea, find_file_area, list_file_areas
from files.uploads import CHUNK_BYTES
from files.usage import Used, load_used, record_removal
from portal.downloads import image_type, send_archive, send_file, send_image
from portal.pages.files.view_model import Row, address, crumbs_of, join, rows_of, show_name, text_of
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.templatetags.bars import LEGEND, Segment
from portal.wording.errors import describe_error

PAGE_ROWS = 500
PREVIEW_BYTES = 256 * 1024


@dataclass(frozen=True)
class Fullness:
    used: Used

    @property
    def words(self) -> str:
        """Say how full the area is."""
        numbers = {"used": show_bytes(self.used.bytes), "limit": show_bytes(self.used.limit)}
        if self.used.limit:
            words = _("%(used)s of %(limit)s used") if self.used.whole else _("at least %(used)s of %(limit)s used")
        else:
            words = _("%(used)s used, no limit") if self.used.whole else _("at least %(used)s used, no limit")
        return words % numbers

    @property
    def segments(self) -> list[Segment]:
        if not self.used.limit:
            return []
        kind = "idle" if self.used.is_nearly_full else "work"
        parts = (
            (kind, min(self.used.bytes, self.used.limit), _("Used")),
            ("free", max(self.used.limit - self.used.bytes, 0), str(LEGEND["free"])),
        )
        return [Segment(kind, share, title=title) for kind, share, title in parts if share]


@signed_in
@require_safe
def show_home(request: HttpRequest) -> HttpResponse:
    return _show_folder(request, HOME)


@signed_in
@require_safe
def show_team(request: HttpRequest, name: str) -> HttpResponse:
    return _show_folder(request, f"{TEAM}{name}")


@signed_in
@require_safe
def view_file(request: HttpRequest) -> HttpResponse:
    """Preview text or a raster image; offer else a download."""
    area, path = _find_named_area(request, request.GET)
    if not path:
        raise NotFound()
    if area.store.stat(path).kind == "folder":  # a link to a folder
        return redirect(address(area, path))
    fd, entry = area.store.open_to_read(path)
    with open(fd, "rb") as file:
        head = os.pread(file.fileno(), PREVIEW_BYTES, 0)
    picture = bool(image_type(head[:16]))
    context = {
        **_frame(area, path),
        "name": show_name(path.rpartition("/")[2]),
        "size": show_bytes(entry.size),
        "row": Row.of(area, path.rpartition("/")[0], entry, path.rpartition("/")[2]),
        "picture": f"{reverse('file_image')}?{_query(area, path)}" if picture else "",
        "text": None if picture else text_of(head, cut=entry.size > len(head)),
        "shown": show_bytes(PREVIEW_BYTES),
    }
    return render_page(request, "files/view.html", context)


@signed_in
@require_safe
def download_file(request: HttpRequest) -> HttpResponseBase:
    area, path = _find_named_area(request, request.GET)
    return send_file(request, area.store, path)


@signed_in
@require_safe
def download_folder(request: HttpRequest) -> HttpResponseBase:
    area, path = _find_named_area(request, request.GET)
    return send_archive(area.store, path, area.name_of(path))


@signed_in
@require_safe
def show_image(request: HttpRequest) -> HttpResponseBase:
    """Return a preview image; opened directly, redirect to its page."""
    area, path = _find_named_area(request, request.GET)
    if request.headers.get("Sec-Fetch-Dest", "image") != "image":
        return redirect(f"{reverse('file_view')}?{_query(area, path)}")
    return send_image(area.store, path)


@signed_in
@require_POST
def make_folder(request: HttpRequest) -> HttpResponse:
    area, folder = _find_named_area(request, request.POST, write=True)
    return _tried(request, area, folder, lambda: area.store.make_folder(join(folder, request.POST.get("name", ""))))


@signed_in
@require_POST
def move_file(request: HttpRequest) -> HttpResponse:
    """Rename within the folder, or move to a path with a slash."""
    area, folder = _find_named_area(request, request.POST, write=True)
    old, new = request.POST.get("name", ""), request.POST.get("to", "")
    to = new if "/" in new else join(folder, new)
    return _tried(request, area, folder, lambda: area.store.move(join(folder, old), to))


@signed_in
@require_POST
def delete_file(request: HttpRequest) -> HttpResponse:
    area, folder = _find_named_area(request, request.POST, write=True)
    name = request.POST.get("name", "")

    def remove() -> None:
        record_removal(area=area, freed_bytes=area.store.remove(join(folder, name)))

    done = _("“%(name)s” is deleted.") % {"name": show_name(name)}
    return _tried(request, area, folder, remove, done)


def _show_folder(request: HttpRequest, place: str) -> HttpResponse:
    area = find_file_area(cast(User, request.user), place)
    path = request.GET.get("path", "")
    listing = area.store.list_folder(path)
    page = max(int(asked), 1) if (asked := request.GET.get("page", "")).isdecimal() and len(asked) < 6 else 1
    rows = rows_of(area, path, listing.entries[(page - 1) * PAGE_ROWS : page * PAGE_ROWS])
    used = load_used(area)
    context = {
        **_frame(area, path),
        "rows": rows,
        "listing": listing,
        "count": len(listing.entries),
        "areas": [_tab(other, area) for other in list_file_areas(area.user)],
        "full": Fullness(used),
        "pages": _pages(area, path, page, len(listing.entries)),
        "chunk": CHUNK_BYTES,
        "command": _command(area, path),
    }
    return render_page(request, "files/list.html", context, fragment="files/_listing.html")


def _frame(area: FileArea, path: str) -> dict:
    return {"area": area, "path": path, "crumbs": crumbs_of(area, path), "query": _query(area, path)}


def _tab(other: FileArea, area: FileArea) -> dict:
    words = _("My home") if other.team is None else other.team.title or other.team.name
    return {"words": words, "href": address(other, ""), "current": other.name == area.name}


def _pages(area: FileArea, path: str, page: int, count: int) -> dict:
    before = address(area, path, page - 1) if page > 1 else ""
    return {"before": before, "after": address(area, path, page + 1) if count > page * PAGE_ROWS else ""}


def _command(area: FileArea, path: str) -> str:
    place = f"team:{area.team.name}/" if area.team else ""
    plain = path if path.isascii() and path.replace("/", "").replace("-", "").replace("_", "").isalnum() else ""
    return f"tessera files put FILE {place}{plain + '/' if plain else ''}".strip()


def _find_named_area(request: HttpRequest, fields: dict, write: bool = False) -> tuple[FileArea, str]:
    return find_file_area(cast(User, request.user), fields.get("place", HOME), write=write), fields.get("path", "")


def _tried(request: HttpRequest, area: FileArea, folder: str, act: Callable[[], None], done: str = "") -> HttpResponse:
    """Run an action, report it and redirect to the folder."""
    try:
        act()
    except PlatformError as error:
        errors = getattr(error, "errors", [])
        messages.error(request, _bad_name() if errors else describe_error(error))
    else:
        if done:
            messages.success(request, done)
    return redirect(address(area, folder))


def _bad_name() -> str:
    return _("This name is not valid. Use at most 255 bytes, no slash, and not only dots.")


def _query(area: FileArea, path: str) -> str:
    return urlencode({"place": area.name, "path": path})
