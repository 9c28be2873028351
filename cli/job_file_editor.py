"""Edits of a job file's text that change nothing else. What keys mean is the platform's business."""

import json
import re
from collections.abc import Sequence

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from cli.failures import USAGE, Failure
from cli.output.safe_text import plain

_COLON = re.compile(r"[ \t]*:")


def read_text(source: bytes, name: str) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Failure(USAGE, f"{name} is no text in UTF-8.") from None


def read_key(text: str, key: str) -> str | None:
    """Return a top-level scalar's text, or None. Raises Failure."""
    if key not in text:  # the usual case needs no parser
        return None
    root = _compose(text)
    found = _find(root, key) if isinstance(root, MappingNode) else None
    return found[1].value if found and isinstance(found[1], ScalarNode) else None


def change(text: str, settings: Sequence[tuple[str, str]]) -> str:
    """Set keys of the document: ("gpu", "1/2"), ("env.LR", "3e-4"). Raises Failure."""
    for key, value in settings:
        text = _set(text, key.split("."), _scalar(value))
    return text


def _set(text: str, path: list[str], value: str) -> str:
    root = _compose(text)
    if root is None:
        return f"{text.rstrip()}\n{_nested(path, value)}\n".lstrip("\n")
    at, node = list(path), root
    while isinstance(node, MappingNode):
        found = _find(node, at[0])
        if found is None:
            return _insert(text, node, _nested(at, value))
        if len(at) == 1 or _is_empty(found[1]):
            return _replace(text, found, _inner(at[1:], value))
        at, node = at[1:], found[1]
    raise Failure(USAGE, f"{'.'.join(path)} cannot be set: there are no keys at this place of the job file.")


def _find(mapping: MappingNode, key: str) -> tuple[Node, Node] | None:
    return next(((k, v) for k, v in mapping.value if isinstance(k, ScalarNode) and k.value == key), None)


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value == ""


def _replace(text: str, pair: tuple[Node, Node], value: str) -> str:
    """Replace all after the key: lists begin on the next line."""
    key, old = pair
    start = key.end_mark.index
    colon = _COLON.match(text, start)
    if colon is None:
        raise Failure(USAGE, f"{key.value} cannot be set: write it as “{key.value}: value” in the job file.")
    end = max(colon.end(), old.start_mark.index + len(text[old.start_mark.index : old.end_mark.index].rstrip()))
    return f"{text[: colon.end()]} {value}{text[end:]}"


def _insert(text: str, mapping: MappingNode, entry: str) -> str:
    start = mapping.start_mark.index
    if mapping.flow_style:
        comma = ", " if mapping.value else ""
        return f"{text[: start + 1]}{entry}{comma}{text[start + 1 :]}"
    return f"{text[:start]}{entry}\n{' ' * mapping.start_mark.column}{text[start:]}"


def _nested(path: list[str], value: str) -> str:
    return f"{json.dumps(path[0], ensure_ascii=False)}: {_inner(path[1:], value)}"


def _inner(path: list[str], value: str) -> str:
    return f"{{{_nested(path, value)}}}" if path else value


def _scalar(value: str) -> str:
    """Return JSON as it is, all else as quoted text."""
    try:
        json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False)
    return " ".join(value.split()) if "\n" in value else value.strip()


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _compose(text: str) -> Node | None:
    try:
        return YAML(typ="safe", pure=True).compose(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        what = plain(str(getattr(error, "problem", "") or "it is not YAML"))
        raise Failure(USAGE, f"The job file cannot be read{where}: {what}.") from None
    except RecursionError:
        raise Failure(USAGE, "The job file cannot be read: it is nested too deeply.") from None
