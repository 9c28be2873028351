"""The documents' site, which bin/docs builds (settings.HELP_SITE), and the addresses of its entries."""

import mimetypes
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from common.errors import NotFound

INDEX = Path("index").with_suffix(".html")  # of a folder of the site; no template of ours


@require_safe
def show_help(request: HttpRequest, page: str) -> HttpResponse:
    """Serve a file of the site; where it has not been built, say what builds it. Anybody may read it.

    Raises: NotFound.
    """
    if not (settings.HELP_SITE / INDEX).is_file():
        return render(request, "help.html")
    path = _find_file(page)
    if path.is_dir():
        return HttpResponseRedirect(f"{request.path}/")
    return _send(request, path)


def _find_file(page: str) -> Path:
    if "\0" in page:
        raise NotFound()
    site = settings.HELP_SITE.resolve()
    path = (site / page / (INDEX if page.endswith("/") or not page else "")).resolve()
    if not path.is_relative_to(site) or not path.exists():
        raise NotFound()
    return path


def _send(request: HttpRequest, path: Path) -> HttpResponse:
    """Return the file, or 304 where the browser has it."""
    changed = path.stat().st_mtime_ns
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    response = HttpResponse(
        path.read_bytes(), content_type=f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    )
    response["ETag"] = f'"{changed:x}"'
    return get_conditional_response(request, response["ETag"], None, response) or response
