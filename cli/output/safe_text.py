"""Safe display of foreign text: it never moves the cursor, hides or reorders a line."""

import codecs
import re
import unicodedata

# Control, format, surrogate, private, unassigned, separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

# ECMA-48: CSI (SGR ends in m), strings (OSC, DCS, SOS, PM, APC), two-character sequences.
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_SPECIAL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?P<end>\x07|\x9c|\x1b\\|(?=[\x1b\n]))?)"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
_STRING_END = re.compile(r"\x07|\x9c|\x1b\\|(?=[\x1b\n])")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)\Z|\x9b[0-?]*[ -/]*\Z")
_MOST_HELD = 256
RESET = "\x1b[0m"


def plain(text: str) -> str:
    """Return text as one safe line."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_replace_if_unsafe(character) for character in text)


def _replace_if_unsafe(character: str) -> str:
    if character in "\n\r\t":
        return " "
    return "\ufffd" if unicodedata.category(character) in _UNSEEN else character


def width(text: str) -> int:
    """Return terminal columns; East Asian wide characters take two (UAX #11)."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def cut(text: str, most: int) -> str:
    if width(text) <= most:
        return text
    kept, used = [], 0
    for character in text:
        used += _columns(character)
        if used > most - 1:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…" if most > 0 else ""


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class LogText:
    """Decoder of a log in pieces, which may end anywhere.

    colour: keep SGR; other escapes and controls are removed. An unfinished string sequence ends with its line, so that
    no log can hide its rest.
    """

    def __init__(self, colour: bool):
        self.colour = colour
        self.coloured = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._in_string = False

    def feed(self, data: bytes) -> str:
        return self._clean(self._decoder.decode(data))

    def end(self) -> str:
        rest = self._clean(self._decoder.decode(b"", final=True), last=True)
        return rest + (RESET if self.coloured else "")

    def _clean(self, text: str, last: bool = False) -> str:
        text, self._held = self._held + text, ""
        if self._in_string:
            text = self._leave_string(text, last)
        if not last and (unfinished := _UNFINISHED.search(text)) and len(text) - unfinished.start() <= _MOST_HELD:
            text, self._held = text[: unfinished.start()], text[unfinished.start() :]
        return _SPECIAL.sub(self._filter_sequence, text)

    def _leave_string(self, text: str, last: bool) -> str:
        end = _STRING_END.search(text)
        if end is None:
            return ""
        if text[end.start() :] == "\x1b" and not last:  # perhaps half of the string's end
            self._held = "\x1b"
            return ""
        self._in_string = False
        return text[end.end() :]

    def _filter_sequence(self, found: re.Match) -> str:
        if found["string"] is not None:
            # Without an end the string goes on in the next piece.
            self._in_string = found["end"] is None
            return ""
        if self.colour and _SGR.fullmatch(found[0]):
            self.coloured = True
            return found[0]
        return ""
