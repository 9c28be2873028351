"""Readers of job file fields: (value, pointer) to the parsed value, or InvalidInput."""

import re
from collections.abc import Callable
from typing import NoReturn

from common.errors import FieldError, InvalidInput
from common.text import bad_character, check_name, did_you_mean, kind_of, shorten
from jobs.jobfile import schema
from jobs.jobfile.load import pointer_of

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
_ROLE_NAME = re.compile(r"[a-z]([a-z0-9_-]{0,29}[a-z0-9])?")
_SPAN = re.compile(r"([0-9]{1,9})\s*\.\.\s*([0-9]{1,9})")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def fail(pointer: str, code: str, **params) -> NoReturn:
    raise InvalidInput(errors=[FieldError(pointer, code, params)])


def read_text(value: object, pointer: str) -> str:
    if not isinstance(value, str):
        fail(pointer, "wrong_type", expected="text", got=kind_of(value))
    return value


def read_name(value: object, pointer: str) -> str:
    return check_name(read_text(value, pointer), pointer)


def read_run(value: object, pointer: str) -> str:
    """Read the command with Unix line ends: forms send CRLF, which breaks shells."""
    text = read_text(value, pointer).replace("\r\n", "\n").strip()
    if not text:
        fail(pointer, "required")
    return text


def read_bool(value: object, pointer: str) -> bool:
    if not isinstance(value, bool):
        fail(pointer, "wrong_type", expected="true_or_false", got=kind_of(value))
    return value


def read_whole(low: int, high: int) -> Callable[[object, str], int]:

    def read(value: object, pointer: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            fail(pointer, "wrong_type", expected="whole_number", got=kind_of(value))
        if value > high:
            fail(pointer, "too_large", max=high, got=value)
        if value < low:
            fail(pointer, "too_small", min=low, got=value)
        return value

    return read


def read_span(low: int, high: int) -> Callable[[object, str], tuple[int, int]]:
    """Return a reader of a number or a range such as 4..8, as (least, most)."""
    read_one = read_whole(low, high)

    def read(value: object, pointer: str) -> tuple[int, int]:
        if not isinstance(value, str) or ".." not in value:
            return (number := read_one(value, pointer)), number
        found = _SPAN.fullmatch(value.strip())
        if not found:
            fail(pointer, "bad_span", got=shorten(value))
        least, most = (read_one(int(text), pointer) for text in found.groups())
        if least > most:
            fail(pointer, "bad_span", got=shorten(value))
        return least, most

    return read


def read_choice(known: tuple[str, ...], later: tuple[str, ...] = ()) -> Callable[[object, str], str]:
    """Return a reader of one of the `known` words."""

    def read(value: object, pointer: str) -> str:
        word = read_text(value, pointer)
        if word in later:
            fail(pointer, "not_supported_yet", key=word)
        if word not in known:
            fail(pointer, "unknown_value", got=shorten(word), allowed=list(known), **_near(word, known))
        return word

    return read


def read_map(value: object, pointer: str) -> dict:
    if not isinstance(value, dict):
        fail(pointer, "wrong_type", expected="map", got=kind_of(value))
    return value


def read_image(value: object, pointer: str) -> str:
    text = read_text(value, pointer)
    if len(text) > schema.MAX_IMAGE:
        fail(pointer, "too_long", max=schema.MAX_IMAGE, got=len(text))
    if not _IMAGE.fullmatch(text):
        fail(pointer, "bad_image", got=shorten(text))
    return text


def read_code(value: object, pointer: str) -> str:
    """Read "." (the submitted directory) or a digest."""
    text = read_text(value, pointer)
    if text in (".", "./"):
        return "."
    if text.startswith(("git+", "git@", "https://", "http://", "ssh://")):
        fail(pointer, "not_supported_yet", key=shorten(text), feature="code_from_git")
    if not _DIGEST.fullmatch(text):
        fail(pointer, "bad_code", got=shorten(text))
    return text


def read_workdir(value: object, pointer: str) -> str:
    """Read and normalise a path below the code."""
    text = read_text(value, pointer)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith(("/", "~")) or ".." in parts or "\\" in text:
        fail(pointer, "workdir_outside", got=shorten(text))
    if len(text) > schema.MAX_WORKDIR or any(len(part.encode()) > 255 for part in parts):
        fail(pointer, "too_long", max=schema.MAX_WORKDIR, got=len(text))
    if bad := bad_character(text):
        fail(pointer, "bad_characters", character=bad)
    return "/".join(parts)


def read_env(value: object, pointer: str) -> dict[str, str]:
    given = read_map(value, pointer)
    if len(given) > schema.MAX_ENV:
        fail(pointer, "too_many", max=schema.MAX_ENV, got=len(given))
    made, errors = {}, []
    for name, item in given.items():
        where = pointer + pointer_of([name])
        try:
            made[_env_name(name, where)] = _env_value(item, where)
        except InvalidInput as error:
            errors += error.errors
    total = sum(len(name.encode()) + len(text.encode()) + 2 for name, text in made.items())
    if total > schema.MAX_ENV_BYTES:
        errors.append(FieldError(pointer, "too_long", {"max": schema.MAX_ENV_BYTES, "got": total}))
    if errors:
        raise InvalidInput(errors=errors)
    return made


def read_labels(value: object, pointer: str) -> dict[str, str]:
    given = read_map(value, pointer)
    if len(given) > schema.MAX_LABELS:
        fail(pointer, "too_many", max=schema.MAX_LABELS, got=len(given))
    made = {}
    for name, item in given.items():
        where = pointer + pointer_of([name])
        if not _LABEL_NAME.fullmatch(name):
            fail(where, "bad_label_name", got=shorten(name))
        made[name] = (
            "" if item is None or item == "" else check_name(_as_text(item, where), where, schema.MAX_LABEL_VALUE)
        )
    return made


def read_retry(value: object, pointer: str) -> dict:
    """Read `3`, or {times: 3, when: [...]}."""
    times = read_whole(0, schema.MAX_RETRY_TIMES)
    if not isinstance(value, dict):
        return {"times": times(value, pointer)}
    errors = check_keys(value, schema.RETRY_SUPPORTED, (), pointer)
    found, more = read_keys(value, {"times": times, "when": _read_when}, pointer)
    if errors or more:
        raise InvalidInput(errors=errors + more)
    return found


def read_role_name(name: str, pointer: str) -> str:
    if not _ROLE_NAME.fullmatch(name):
        fail(pointer, "bad_role_name", got=shorten(name))
    return name


def check_keys(given: dict, built: tuple[str, ...], later: tuple[str, ...], pointer: str) -> list[FieldError]:
    """Return the errors of a map's keys. Keys without a value are ignored."""
    errors = []
    for key in given:
        where = pointer + pointer_of([key])
        if key in later and given[key] is not None:
            errors.append(FieldError(where, "not_supported_yet", {"key": key}))
        elif key not in built and key not in later:
            meant = schema.ALIASES.get(key)
            near = {"did_you_mean": meant} if meant in built else _near(key, (*built, *later))
            errors.append(FieldError(where, "unknown_key", {"key": shorten(key), **near}))
    return errors


def read_keys(given: dict, readers: dict, pointer: str) -> tuple[dict, list[FieldError]]:
    """Return (valid values of the keys given, errors of the others)."""
    found, errors = {}, []
    for key, reader in readers.items():
        if given.get(key) is None:
            continue
        try:
            found[key] = reader(given[key], pointer + pointer_of([key]))
        except InvalidInput as error:
            errors += error.errors
    return found, errors


def _read_when(value: object, pointer: str) -> tuple[str, ...]:
    reasons = [value] if isinstance(value, str) else value
    if not isinstance(reasons, list):
        fail(pointer, "wrong_type", expected="list", got=kind_of(value))
    read = read_choice(schema.RETRY_WHEN, schema.RETRY_WHEN_UNSUPPORTED)
    return tuple(dict.fromkeys(read(reason, f"{pointer}/{i}") for i, reason in enumerate(reasons)))


def _env_name(name: str, pointer: str) -> str:
    if not _ENV_NAME.fullmatch(name) or len(name) > schema.MAX_ENV_NAME:
        fail(pointer, "bad_env_name", got=shorten(name))
    if name in schema.RESERVED_ENV or name.startswith(schema.RESERVED_ENV_PREFIXES):
        fail(pointer, "reserved_name", name=shorten(name))
    return name


def _env_value(value: object, pointer: str) -> str:
    text = "" if value is None else _as_text(value, pointer)
    if len(text.encode()) > schema.MAX_ENV_VALUE_BYTES:
        fail(pointer, "too_long", max=schema.MAX_ENV_VALUE_BYTES, got=len(text))
    return text


def _as_text(value: object, pointer: str) -> str:
    """Read text or a whole number; other numbers could change their spelling."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return read_text(value, pointer)


def _near(word: str, known: tuple[str, ...]) -> dict:
    near = did_you_mean(word, known)
    return {"did_you_mean": near} if near else {}
