"""Send people's files as downloads: whole, in ranges or as an archive.

Their content is untrusted: on the portal's origin it is an attachment of opaque type, with nosniff and a sandbox,
except raster images recognised by their first bytes. SVG and HTML can run script.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator

from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header

from common.errors import Conflict, RangeOutside
from common.text import shorten_text
from runtimes.storage.file_store import Archive, Entry, FileStore

PIECE = 256 * 1024
OPAQUE = "application/octet-stream"
SANDBOX = "default-src 'none'; sandbox; frame-ancestors 'none'"
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
IMAGE_MOST = 32 * 1024 * 1024
IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)


class Reading:
    """Bytes `start` to `end` of a descriptor in chunks; closes it, even if never read."""

    def __init__(self, fd: int, start: int, end: int):
        self.fd, self.at, self.end = fd, start, end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.at < self.end:
            piece = await asyncio.to_thread(os.pread, self.fd, min(PIECE, self.end - self.at), self.at)
            if not piece:  # the file shrank; the short body tells the client
                return
            self.at += len(piece)
            yield piece

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def send_file(request: HttpRequest, store: FileStore, path: str) -> StreamingHttpResponse:
    """Return a file, whole or the requested range (RFC 9110, section 14). Raises RangeOutside."""
    fd, entry = store.open_to_read(path)
    tag = etag_of(entry)
    start, end = 0, entry.size
    status = 200
    if (asked := request.headers.get("Range")) and request.headers.get("If-Range", tag) == tag:
        found = read_range(asked, entry.size)
        if found == (0, 0):
            os.close(fd)
            raise RangeOutside(size=entry.size)
        if found is not None:
            (start, end), status = found, 206
    response = StreamingHttpResponse(Reading(fd, start, end), status=status, content_type=OPAQUE)
    response["Content-Length"], response["ETag"] = str(end - start), tag
    response["Accept-Ranges"], response["X-Accel-Buffering"] = "bytes", "no"
    if status == 206:
        response["Content-Range"] = f"bytes {start}-{end - 1}/{entry.size}"
    return _closed(response, path)


class Packing:
    """A folder's archive in chunks. Raises OSError if it fails, so that the connection breaks."""

    def __init__(self, archive: Archive):
        self.archive = archive

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(self.archive.read, PIECE):
            yield piece

    def close(self) -> None:
        self.archive.close()


def send_archive(store: FileStore, path: str, name: str) -> StreamingHttpResponse:
    """Return a folder as a tar stream of unknown length."""
    response = StreamingHttpResponse(Packing(store.open_archive(path, name)), content_type=OPAQUE)
    response["X-Accel-Buffering"] = "no"
    return _closed(response, f"{name}.tar")


def send_image(store: FileStore, path: str) -> StreamingHttpResponse:
    """Return an image for an <img>. Raises Conflict (not_an_image)."""
    fd, entry = store.open_to_read(path)
    kind = image_type(os.pread(fd, 16, 0))
    if not kind or entry.size > IMAGE_MOST:
        os.close(fd)
        raise Conflict("not_an_image")
    response = StreamingHttpResponse(Reading(fd, 0, entry.size), content_type=kind)
    response["Content-Length"] = str(entry.size)
    response["Content-Security-Policy"] = SANDBOX
    response["Cache-Control"] = "private, no-store"
    return response


def image_type(head: bytes) -> str:
    """Return the media type by the first 16 bytes, or ""."""
    return next((kind for magic, kind in IMAGES if magic.match(head)), "")


def read_range(text: str, size: int) -> tuple[int, int] | None:
    """Return (start, end); (0, 0) if outside the file, None if not understood: send all."""
    found = RANGE.fullmatch(text.strip())
    if not found or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        return (max(size - int(last), 0), size) if int(last) and size else (0, 0)
    start, end = int(first), min(int(last) + 1, size) if last else size
    if last and int(last) < start:
        return None
    return (start, end) if start < size else (0, 0)


def etag_of(entry: Entry) -> str:
    return f'"{entry.changed_ns:x}-{entry.size:x}"'


def _closed(response: StreamingHttpResponse, path: str) -> StreamingHttpResponse:
    name = shorten_text(path.rpartition("/")[2], 255).replace("\ufffd", "_")
    response["Content-Type"] = OPAQUE
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["Content-Security-Policy"] = SANDBOX
    response["Cache-Control"] = "private, no-store"
    return response
