"""Load YAML or JSON into plain data within limits.

Scalars follow YAML 1.2 (`no`, `on` and `10:30` stay text). The tree is built from parser events, without a YAML
constructor; tags, anchors, aliases and merge keys are refused (CVE-2019-11253).
"""

import json
import math
import re
from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.scanner import Scanner

from common.errors import FieldError, InvalidInput
from common.text import shorten_text
from jobs.jobfile.description import JOB
from jobs.jobfile.shapes import Path, pointer_of

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_NODES = 2_000  # five roles with all variables that a role may have; 30 to 40 ms to read
MAX_SCALAR_BYTES = 64 * 1024
MAX_DIGITS = 30

# YAML 1.2.2, section 10.3.2
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?[0-9]+")
_OCT_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

# Kept as text as written, such as `name: 007` and `NORWAY: no`. "*" is any key.
_WRITTEN = frozenset(JOB.written_paths())


def load_jobfile(data: bytes) -> dict:
    """Load a YAML job file. Raises InvalidInput with the pointer, and the line if known."""
    return load_with_lines(data)[0]


def load_with_lines(data: bytes) -> tuple[dict, dict[str, int]]:
    """Load a YAML job file, with the line (from 1) of each JSON pointer."""
    text = _decode(data)
    parser = YAML(typ="safe", pure=True)
    parser.Scanner = _ShallowScanner
    builder = _Builder(parser.parse(text))
    try:
        tree = builder.document()
    except MarkedYAMLError as error:
        raise _syntax(error) from None
    except YAMLError as error:  # a ReaderError: a character not allowed in YAML
        raise _bad((), "bad_characters", character=_character_of(error)) from None
    return _top(tree), builder.lines


def load_json(data: bytes) -> dict:
    text = _decode(data)
    try:
        tree = json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_int=lambda digits: int(digits) if len(digits) <= MAX_DIGITS else math.inf,
            parse_constant=lambda _: math.nan,
        )
    except RecursionError:
        raise _bad((), "too_deep", max=MAX_DEPTH) from None
    except json.JSONDecodeError as error:
        problem = "json_syntax" if text.strip() else "empty"
        raise _bad((), problem, line=error.lineno, column=error.colno) from None
    return _top(_Limits().plain(tree, ()))


def keeps_text(path: Path) -> bool:
    """Return whether a plain scalar at this path stays as it is written."""
    return any(
        len(path) == len(pattern) and all(p in ("*", part) for p, part in zip(pattern, path, strict=True))
        for pattern in _WRITTEN
    )


class _Pairs(list):
    """A JSON object as pairs, to find duplicate keys."""


class _Limits:
    def __init__(self):
        self.nodes = 0

    def count(self, path: Path, **where) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _bad((), "too_many_nodes", max=MAX_NODES, **where)
        if len(path) > MAX_DEPTH:
            raise _bad(path[:MAX_DEPTH], "too_deep", max=MAX_DEPTH, **where)

    def text(self, value: str, path: Path, **where) -> str:
        """Refuse NUL and surrogates, which neither a database nor a process can hold."""
        if len(value.encode(errors="replace")) > MAX_SCALAR_BYTES:
            raise _bad(path, "too_long", max=MAX_SCALAR_BYTES, got=len(value), **where)
        for character in value:
            if character == "\0" or "\ud800" <= character <= "\udfff":
                raise _bad(path, "bad_characters", character=f"U+{ord(character):04X}", **where)
        return value

    def plain(self, value: object, path: Path):
        """Check the output of json.loads and turn its objects into dicts."""
        self.count(path)
        if isinstance(value, _Pairs):
            return self._object(value, path)
        if isinstance(value, list):
            return [self.plain(item, (*path, i)) for i, item in enumerate(value)]
        if isinstance(value, str):
            return self.text(value, path)
        if isinstance(value, float):
            return _finite(value, path)
        return value

    def _object(self, pairs: _Pairs, path: Path) -> dict:
        made: dict = {}
        for key, value in pairs:
            self.text(key, path)
            if key in made:
                raise _bad((*path, key), "duplicate_key", key=shorten_text(key))
            made[key] = self.plain(value, (*path, key))
        return made


class _ShallowScanner(Scanner):
    """Looks for no key below the depth that is refused: the time of a token grows with the keys in sight."""

    def save_possible_simple_key(self) -> None:
        if self.flow_level <= MAX_DEPTH:
            super().save_possible_simple_key()


class _Builder(_Limits):
    def __init__(self, events: Iterator[Event]):
        super().__init__()
        self.events = events
        self.lines: dict[str, int] = {}

    def document(self):
        """Return the stream's only document, or None."""
        tree, seen = None, False
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                if seen:
                    raise _bad((), "several_documents", line=_line(event))
                tree, seen = self.node(next(self.events), ()), True
        return tree

    def node(self, event: Event, path: Path):
        self.count(path, line=_line(event))
        self._refuse_cleverness(event, path)
        self.lines[pointer_of(path)] = _line(event)
        if isinstance(event, ScalarEvent):
            return self._scalar(event, path)
        if isinstance(event, SequenceStartEvent):
            return self._list(path)
        return self._map(path)

    def _list(self, path: Path) -> list:
        made: list = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            made.append(self.node(event, (*path, len(made))))
        return made

    def _map(self, path: Path) -> dict:
        made: dict = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            key = self._key(event, path)
            if key in made:
                raise _bad((*path, key), "duplicate_key", key=shorten_text(key), line=_line(event))
            made[key] = self.node(next(self.events), (*path, key))
        return made

    def _key(self, event: Event, path: Path) -> str:
        """Return a key as written: `1:` and `true:` are "1" and "true"."""
        self.count(path, line=_line(event))
        self._refuse_cleverness(event, path)
        if not isinstance(event, ScalarEvent):
            raise _bad(path, "key_not_text", line=_line(event))
        if event.value == "<<" and event.style is None:
            raise _bad(path, "merge_key", line=_line(event))
        return self.text(event.value, path, line=_line(event))

    def _scalar(self, event: ScalarEvent, path: Path):
        text = self.text(event.value, path, line=_line(event))
        if event.style is not None:
            return text
        if keeps_text(path):
            return None if _NULL.fullmatch(text) else text
        return _resolve(text, path, _line(event))

    def _refuse_cleverness(self, event: Event, path: Path) -> None:
        if isinstance(event, AliasEvent):
            raise _bad(path, "alias", name=shorten_text(str(event.anchor)), line=_line(event))
        # `tag` is an object or text, by version of the parser
        for clever in ("anchor", "tag"):
            if name := getattr(event, clever, None):
                raise _bad(path, clever, name=shorten_text(str(name)), line=_line(event))


def _resolve(text: str, path: Path, line: int):
    """Resolve a plain scalar by the core schema."""
    if _NULL.fullmatch(text):
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text) or _OCT_HEX.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise _bad(path, "number_out_of_range", line=line)
        return int(text, 10 if _INT.fullmatch(text) else 0)
    if _NOT_FINITE.fullmatch(text):
        raise _bad(path, "not_a_number", line=line)
    if _FLOAT.fullmatch(text):
        return _finite(float(text), path, line=line)
    return text


def _finite(value: float, path: Path, **where) -> float:
    if math.isnan(value):
        raise _bad(path, "not_a_number", **where)
    if math.isinf(value):
        raise _bad(path, "number_out_of_range", **where)
    return value


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise _bad((), "file_too_large", max=MAX_BYTES, got=len(data))
    try:
        return data.decode("utf-8-sig")  # Windows editors write a byte order mark
    except UnicodeDecodeError as error:
        raise _bad((), "not_utf8", byte=error.start, line=data.count(b"\n", 0, error.start) + 1) from None


def _top(tree) -> dict:
    if tree is None:
        raise _bad((), "empty")
    if not isinstance(tree, dict):
        raise _bad((), "not_a_map")
    return tree


def _syntax(error: MarkedYAMLError) -> InvalidInput:
    mark = error.problem_mark or error.context_mark
    where = {"line": mark.line + 1, "column": mark.column + 1} if mark else {"line": 1, "column": 1}
    problem = error.problem or error.context or ""
    if "'\\t'" in problem:
        return _bad((), "tab", **where)
    return _bad((), "yaml_syntax", problem=shorten_text(problem, 120), **where)


def _character_of(error: YAMLError) -> str:
    character = getattr(error, "character", "")
    code = character if isinstance(character, int) else ord(character[:1] or "\ufffd")
    return f"U+{code:04X}"


def _line(event: Event) -> int:
    return event.start_mark.line + 1


def _bad(path: Path, code: str, **params) -> InvalidInput:
    return InvalidInput(errors=[FieldError(pointer_of(path), code, params)])
