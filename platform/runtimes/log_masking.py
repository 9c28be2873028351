"""Mask the values of secrets in a task's output by asterisks, byte for byte, so that offsets stay.

A value is found as it is, in base64 wherever it stands in what was encoded, and as URLs quote it. Values below LEAST
characters would hide ordinary words, and are not masked. Few imports, for the shim.
"""

from binascii import b2a_base64
from collections.abc import Iterable

LEAST = 8
BLOCK = 1024
"""Longer forms are masked block by block, so that little is held back where output pauses."""
MOST_ENCODED = 4096
"""Bytes of a value that is looked for in base64 and URLs, too: longer ones are files."""

FOR_URLS = bytes.maketrans(b"+/", b"-_")
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
"""Bytes that URLs have as they are. Source: RFC 3986, section 2.3."""


class LogMask:
    def __init__(self, values: Iterable[str]):
        found = {block for value in values for form in list_forms(value) for block in _split(form)}
        self._forms = sorted(found, key=lambda form: (-len(form), form))

    def cover(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Return the data, masked, up to where a value may begin whose rest has not come yet.

        is_last: nothing follows. Wherever a stream is cut, the sum of what is returned is the same.
        """
        if not self._forms:
            return data
        kept: list[bytes] = []
        at, tail = 0, len(data) if is_last else len(data) - len(self._forms[0]) + 1
        places = {form: data.find(form) for form in self._forms}
        while places := {form: place for form, place in places.items() if place >= 0}:
            form = min(places, key=lambda form: (places[form], -len(form)))
            if (begin := places[form]) >= tail and self._find_open(data, at) <= begin:
                break
            kept += [data[at:begin], b"*" * len(form)]
            at = begin + len(form)
            places = {each: place if place >= at else data.find(each, at) for each, place in places.items()}
        return b"".join([*kept, data[at : len(data) if is_last else self._find_open(data, at)]])

    def _find_open(self, data: bytes, at: int) -> int:
        """Return where from `at` on the data ends in the begin of a form, or else its length."""
        first = len(data)
        for form in self._forms:
            begin = data.find(form[:1], max(at, len(data) - len(form) + 1), first)
            while begin >= 0 and not form.startswith(data[begin:]):
                begin = data.find(form[:1], begin + 1, first)
            first = begin if begin >= 0 else first
        return first


NO_MASK = LogMask(())


class MaskedStream:
    """The mask over output that comes in pieces."""

    def __init__(self, mask: LogMask):
        self._mask, self._held = mask, b""

    def feed(self, data: bytes) -> bytes:
        held = self._held + data
        covered = self._mask.cover(held)
        self._held = held[len(covered) :]
        return covered

    def finish(self) -> bytes:
        held, self._held = self._held, b""
        return self._mask.cover(held, is_last=True)


def list_forms(value: str) -> set[bytes]:
    """Return how a value may stand in a log: as it is, without the space around it, in base64, in URLs."""
    text = value.strip()
    if len(text) < LEAST:
        return set()
    raw = text.encode()
    if len(raw) > MOST_ENCODED:
        return {raw}
    urls = {_quote(raw, b"/"), _quote(raw, b""), _quote(raw, b" ").replace(b" ", b"+")}
    return {raw} | urls | set(_list_base64(raw))


def _list_base64(raw: bytes) -> Iterable[bytes]:
    """Yield the value's part of base64 for each place within three bytes: what stands around it changes the ends."""
    for before in range(3):
        encoded = b2a_base64(b"\0" * before + raw, newline=False)
        begin, end = (before * 8 + 5) // 6, (before + len(raw)) * 8 // 6
        for whole in (encoded, encoded.translate(FOR_URLS)):
            yield whole[begin:end]
            if not before:
                yield whole


def _quote(raw: bytes, safe: bytes) -> bytes:
    return b"".join(b"%c" % byte if byte in UNRESERVED + safe else b"%%%02X" % byte for byte in raw)


def _split(form: bytes) -> Iterable[bytes]:
    parts = -(-len(form) // BLOCK)
    for part in range(parts):
        yield form[len(form) * part // parts : len(form) * (part + 1) // parts]
