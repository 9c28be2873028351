"""Readers of ports, directories, checkpoint and data."""

import posixpath
import re

from common.errors import FieldError, InvalidInput
from common.resources import duration_text, parse_duration
from common.text import bad_character, kind_of, shorten
from jobs.jobfile import schema
from jobs.jobfile.fields import check_keys, fail, read_choice, read_keys, read_map, read_text, read_whole
from jobs.jobfile.load import pointer_of
from jobs.jobfile.spec import Checkpoint

_SOURCE = re.compile(r"(home|team):(.*?)(:ro)?", re.DOTALL)


def read_ports(value: object, pointer: str) -> tuple[int, ...]:
    given = value if isinstance(value, list) else [value]
    if len(given) > schema.MAX_PORTS:
        fail(pointer, "too_many", max=schema.MAX_PORTS, got=len(given))
    read = read_whole(*schema.PORT_RANGE)
    ports = [read(port, f"{pointer}/{i}" if isinstance(value, list) else pointer) for i, port in enumerate(given)]
    for i, port in enumerate(ports):
        if port in ports[:i]:
            fail(f"{pointer}/{i}", "port_twice", port=port)
    return tuple(ports)


def read_directory(value: object, pointer: str) -> str:
    """Read a relative, absolute or home (~/runs) path inside the task."""
    text = read_text(value, pointer)
    if not text or text.startswith("-"):
        fail(pointer, "bad_directory", got=shorten(text))
    if len(text) > schema.MAX_WORKDIR:
        fail(pointer, "too_long", max=schema.MAX_WORKDIR, got=len(text))
    if bad := bad_character(text):
        fail(pointer, "bad_characters", character=bad)
    return text


def read_checkpoint(value: object, pointer: str) -> Checkpoint:
    """Read `ckpt`, or {dir: ckpt, signal: SIGUSR1, grace: 3m}."""
    if not isinstance(value, dict):
        return Checkpoint(read_directory(value, pointer))
    errors = check_keys(value, schema.CHECKPOINT_SUPPORTED, (), pointer)
    readers = {"dir": read_directory, "signal": read_choice(schema.CHECKPOINT_SIGNALS), "grace": _read_grace}
    found, more = read_keys(value, readers, pointer)
    if value.get("dir") is None:
        more.append(FieldError(f"{pointer}/dir", "required"))
    if errors or more:
        raise InvalidInput(errors=errors + more)
    return Checkpoint(**{"grace_s" if key == "grace" else key: item for key, item in found.items()})


def read_data(value: object, pointer: str) -> dict[str, str]:
    """Read {target: "home:path" or "team:path", then ":ro" if read-only}, normalised."""
    given = read_map(value, pointer)
    if len(given) > schema.MAX_DATA:
        fail(pointer, "too_many", max=schema.MAX_DATA, got=len(given))
    made: dict[str, str] = {}
    errors: list[FieldError] = []
    for target, item in given.items():
        where = pointer + pointer_of([target])
        try:
            place = _read_target(target, where)
            if place in made:
                fail(where, "data_twice", target=shorten(target))
            made[place] = _read_source(item, where)
        except InvalidInput as error:
            errors += error.errors
    if errors:
        raise InvalidInput(errors=errors)
    return made


def split_source(text: str) -> tuple[str, str, bool]:
    """Split a value of `read_data` into (home or team, path, read only)."""
    found = _SOURCE.fullmatch(text)
    assert found  # checked by read_data
    return found[1], found[2], found[3] is not None


def _read_grace(value: object, pointer: str) -> int:
    seconds = parse_duration(value, pointer)
    if seconds > schema.MAX_GRACE_S:
        fail(pointer, "too_large", max=duration_text(schema.MAX_GRACE_S), got=duration_text(seconds))
    return seconds


def _read_target(target: str, pointer: str) -> str:
    """Read a path below the work directory; elsewhere programs share the node's files."""
    path = posixpath.normpath(target) if target else "."
    if ".." in target.split("/") or path == "." or target.startswith(("/", "~")):
        fail(pointer, "bad_data_target", got=shorten(target))
    _check_length(path, pointer)
    return path


def _read_source(value: object, pointer: str) -> str:
    if not isinstance(value, str):
        fail(pointer, "wrong_type", expected="text", got=kind_of(value))
    found = _SOURCE.fullmatch(value)
    if not found:
        fail(pointer, "bad_data", got=shorten(value))
    parts = [part for part in found[2].split("/") if part not in ("", ".")]
    if ".." in parts or found[2].startswith(("/", "~")) or ":" in found[2]:
        fail(pointer, "bad_data", got=shorten(value))
    path = "/".join(parts)
    _check_length(path, pointer)
    return f"{found[1]}:{path}{found[3] or ''}"


def _check_length(path: str, pointer: str) -> None:
    if len(path.encode()) > schema.MAX_WORKDIR or any(len(part.encode()) > 255 for part in path.split("/")):
        fail(pointer, "too_long", max=schema.MAX_WORKDIR, got=len(path))
    if bad := bad_character(path):
        fail(pointer, "bad_characters", character=bad)
