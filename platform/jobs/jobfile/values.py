"""Values of a job file that have a grammar of their own: readers, with limits and what JSON Schema can say of them."""

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from common.errors import FieldError, InvalidInput
from common.resources import (
    MAX_CPU_MILLI,
    MAX_DURATION_S,
    MAX_GPUS,
    duration_text,
    parse_cpu,
    parse_duration,
    parse_gpu,
    parse_memory,
)
from common.text import (
    ENV_NAME,
    MAX_ENV_NAME,
    MAX_NAME,
    RESERVED_ENV,
    RESERVED_ENV_PREFIXES,
    bad_character,
    check_env_name,
    check_name,
    kind_of,
    shorten_text,
)
from datasets.naming import ENVIRONMENT, OUTPUT, is_dataset_name, read_environment_name
from datasets.naming import TEXT as DATASET
from files.volume_names import VOLUME_NAME
from jobs.code.git_code import TEXT as GIT
from jobs.code.git_code import read_git
from jobs.jobfile.shapes import (
    Choice,
    Map,
    Plain,
    Reader,
    Shape,
    Whole,
    fail,
    pointer_of,
    read_text,
    refuse,
)
from secret_store.names import MOST_OF_A_TASK, check_secret_name
from secret_store.names import WORDS as SECRET_WORDS

MAX_IMAGE = 512
MAX_PATH = 1_024
MAX_ENV_VALUE_BYTES = 32 * 1024
MAX_ENV_BYTES = 128 * 1024  # Linux: 128 KiB per string, a quarter of the stack for all
MAX_PORTS = 16
MAX_LABEL_VALUE = 256

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
_ROLE_NAME = re.compile(r"[a-z]([a-z0-9_-]{0,29}[a-z0-9])?")
_SPAN = re.compile(r"([0-9]{1,9})\s*\.\.\s*([0-9]{1,9})")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})")
_HTTP_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?")
_SHARE = re.compile(r"([1-9]|[1-4][0-9]|50)%")
_PERCENT = re.compile(r"(100|[0-9]{1,2}(\.[0-9])?)%")
_FACTOR = re.compile(r"([1-9][0-9]?(\.[0-9]{1,2})?)x")
_SOURCE = re.compile(r"(home|team|volume):(.*?)(:ro)?", re.DOTALL)

# For JSON Schema: characters that no name has, the most common of those that `bad_character` refuses.
_UNSEEN = r"\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ue000-\uf8ff\ufeff"
_BELOW = r"(?![/~])(?!(.*/)?\.\.(/|$))"
_FOLDER = rf"((home|team):|volume:(?={VOLUME_NAME}(/|:ro$|$)))"
_RESERVED = f"(?!{'|'.join(RESERVED_ENV_PREFIXES)})(?!({'|'.join(RESERVED_ENV)})$)"
_GPU_MODELS = "[A-Za-z][A-Za-z0-9._ -]*( *, *[A-Za-z][A-Za-z0-9._ -]*)*"
_GPU_AMOUNT = r"[0-9][0-9 ]*(/ *[0-9][0-9 ]*|(\.[0-9 ]+)?[gG] *[bB])?"


def read_name(value: object, pointer: str) -> str:
    return check_name(read_text(value, pointer), pointer)


def read_run(value: object, pointer: str) -> str:
    """Read the command with Unix line ends: forms send CRLF, which breaks shells."""
    text = read_text(value, pointer).replace("\r\n", "\n").strip()
    if not text:
        fail(pointer, "required")
    return text


def read_image(value: object, pointer: str) -> str:
    text = read_text(value, pointer)
    if len(text) > MAX_IMAGE:
        fail(pointer, "too_long", max=MAX_IMAGE, got=len(text))
    if not _IMAGE.fullmatch(text):
        fail(pointer, "bad_image", got=shorten_text(text))
    return text


def read_code(value: object, pointer: str) -> str:
    """Read "." (the submitted directory), a digest or a repository."""
    text = read_text(value, pointer)
    if text in (".", "./"):
        return "."
    if (git := read_git(text)) is not None:
        return git.text
    if text.startswith(("git+", "git@", "git:", "https://", "http://", "ssh://")):
        fail(pointer, "bad_git", got=shorten_text(text))
    if not _DIGEST.fullmatch(text):
        fail(pointer, "bad_code", got=shorten_text(text))
    return text


def read_role_code(value: object, pointer: str) -> str:
    """Read the code of a role: only the job's can be the submitted directory."""
    code = read_code(value, pointer)
    if code == ".":
        fail(pointer, "code_of_role_here")
    return code


def read_workdir(value: object, pointer: str) -> str:
    """Read and normalise a path below the code."""
    text = read_text(value, pointer)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith(("/", "~")) or ".." in parts or "\\" in text:
        fail(pointer, "workdir_outside", got=shorten_text(text))
    if len(text) > MAX_PATH or any(len(part.encode()) > 255 for part in parts):
        fail(pointer, "too_long", max=MAX_PATH, got=len(text))
    if bad := bad_character(text):
        fail(pointer, "bad_characters", character=bad)
    return "/".join(parts)


def read_directory(value: object, pointer: str) -> str:
    """Read a relative, absolute or home (~/runs) path inside the task."""
    text = read_text(value, pointer)
    if not text or text.startswith("-"):
        fail(pointer, "bad_directory", got=shorten_text(text))
    if len(text) > MAX_PATH:
        fail(pointer, "too_long", max=MAX_PATH, got=len(text))
    if bad := bad_character(text):
        fail(pointer, "bad_characters", character=bad)
    return text


def read_env_value(value: object, pointer: str) -> str:
    text = "" if value is None else _as_text(value, pointer)
    if len(text.encode()) > MAX_ENV_VALUE_BYTES:
        fail(pointer, "too_long", max=MAX_ENV_VALUE_BYTES, got=len(text))
    return text


def read_label_name(name: str, pointer: str) -> str:
    if not _LABEL_NAME.fullmatch(name):
        fail(pointer, "bad_label_name", got=shorten_text(name))
    return name


def read_label_value(value: object, pointer: str) -> str:
    return "" if value is None or value == "" else check_name(_as_text(value, pointer), pointer, MAX_LABEL_VALUE)


def read_data_target(target: str, pointer: str) -> str:
    """Read a path below the work directory; elsewhere programs share the node's files."""
    path = posixpath.normpath(target) if target else "."
    if ".." in target.split("/") or path == "." or target.startswith(("/", "~")):
        fail(pointer, "bad_data_target", got=shorten_text(target))
    _check_length(path, pointer)
    return path


def read_data_source(value: object, pointer: str) -> str:
    """Read "home:path", "team:path" or "volume:name/path", then ":ro" if read-only, normalised; or a dataset's name."""
    text = read_text(value, pointer)
    if is_dataset_name(text):
        if not re.fullmatch(DATASET, text):
            fail(pointer, "bad_dataset", got=shorten_text(text))
        return text
    found = _SOURCE.fullmatch(text)
    if not found:
        fail(pointer, "bad_data", got=shorten_text(text))
    parts = [part for part in found[2].split("/") if part not in ("", ".")]
    if ".." in parts or found[2].startswith(("/", "~")) or ":" in found[2]:
        fail(pointer, "bad_data", got=shorten_text(text))
    if found[1] == "volume" and not (parts and re.fullmatch(VOLUME_NAME, parts[0])):
        fail(pointer, "bad_volume", got=shorten_text(text))
    path = "/".join(parts)
    _check_length(path, pointer)
    return f"{found[1]}:{path}{found[3] or ''}"


def read_output(value: object, pointer: str) -> str:
    """Read the name of a dataset or model of the job's team, whose next version it is to be."""
    text = read_text(value, pointer)
    if not re.fullmatch(OUTPUT, text):
        fail(pointer, "bad_output", got=shorten_text(text))
    return text


def read_environment(value: object, pointer: str) -> str:
    """Read the name of an environment; `@3` is `@v3`."""
    text = read_text(value, pointer)
    name = read_environment_name(text)
    if name is None:
        fail(pointer, "bad_environment", got=shorten_text(text))
    return name.in_kind


def split_source(text: str) -> tuple[str, str, bool]:
    """Split a value of `data` that is no dataset into (home, team or volume, path, read only).

    The path of a volume begins with its name.
    """
    found = _SOURCE.fullmatch(text)
    assert found  # checked by read_data_source
    return found[1], found[2], found[3] is not None


def read_moment(value: object, pointer: str) -> datetime:
    """Read a moment with its offset from UTC: where a file is read, nobody knows the writer's zone."""
    text = read_text(value, pointer)
    try:
        return datetime.fromisoformat(_MOMENT.fullmatch(text)[0])  # type: ignore[index]
    except (TypeError, ValueError):
        fail(pointer, "bad_moment", got=shorten_text(text))


def read_http_path(value: object, pointer: str) -> str:
    path = read_text(value, pointer)
    if not _HTTP_PATH.fullmatch(path) or len(path) > MAX_PATH:
        fail(pointer, "bad_http_path", got=shorten_text(path))
    return path


def read_share(value: object, pointer: str) -> int:
    """Read how much of the requests a canary gets, in percent."""
    text = str(value)
    if not isinstance(value, str) or not _SHARE.fullmatch(text):
        fail(pointer, "bad_share", got=shorten_text(text))
    return int(text[:-1])


def read_percent(value: object, pointer: str) -> float:
    text = str(value)
    if not isinstance(value, str) or not _PERCENT.fullmatch(text):
        fail(pointer, "bad_percent", got=shorten_text(text))
    return float(text[:-1])


def read_factor(value: object, pointer: str) -> float:
    """Read how many times as much, such as 1.5x."""
    text = str(value)
    if not isinstance(value, str) or not _FACTOR.fullmatch(text):
        fail(pointer, "bad_factor", got=shorten_text(text))
    return float(text[:-1])


def read_role_name(name: str, pointer: str) -> str:
    if not _ROLE_NAME.fullmatch(name):
        fail(pointer, "bad_role_name", got=shorten_text(name))
    return name


def _check_length(path: str, pointer: str) -> None:
    if len(path.encode()) > MAX_PATH or any(len(part.encode()) > 255 for part in path.split("/")):
        fail(pointer, "too_long", max=MAX_PATH, got=len(path))
    if bad := bad_character(path):
        fail(pointer, "bad_characters", character=bad)


def _as_text(value: object, pointer: str) -> str:
    """Read text or a whole number; other numbers could change their spelling."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return read_text(value, pointer)


def _text(reader: Reader, pattern: str, max_length: int = 0, types: str | list[str] = "string") -> Plain:
    limit = {"maxLength": max_length} if max_length else {}
    return Plain(reader, {"type": types, "pattern": f"^{pattern}$", **limit}, written=True)


_OUTER = rf"[^\s{_UNSEEN}]"
_NAME = f"{_OUTER}([^{_UNSEEN}]*{_OUTER})?"

NAME = _text(read_name, _NAME, MAX_NAME)
RUN = Plain(read_run, {"type": "string", "pattern": r"^[^\u0000]*\S[^\u0000]*$"}, written=True)
IMAGE = _text(read_image, _IMAGE.pattern, MAX_IMAGE)
CODE = _text(read_code, rf"(\.|\./|{_DIGEST.pattern}|{GIT})")
ROLE_CODE = _text(read_role_code, rf"({_DIGEST.pattern}|{GIT})")
WORKDIR = _text(read_workdir, rf"{_BELOW}[^\\{_UNSEEN}]*", MAX_PATH)
DIRECTORY = _text(read_directory, f"(?!-)[^{_UNSEEN}]+", MAX_PATH)
GPU = Plain(
    parse_gpu,
    {
        "type": ["integer", "string"],
        "minimum": 0,
        "maximum": MAX_GPUS,
        "pattern": rf"^\s*(?!.*\.\.)({_GPU_AMOUNT}|{_GPU_MODELS}( *: *{_GPU_AMOUNT}|/ *[0-9][0-9 ]*)?)\s*$",
    },
)
CPU = Plain(
    parse_cpu,
    {
        "type": ["number", "string"],
        "minimum": 0.001,
        "maximum": MAX_CPU_MILLI // 1000,
        "pattern": r"^\s*(?=.*[1-9])[0-9]+(m|(\.[0-9]{1,6})?)\s*$",
    },
)
MOMENT = _text(read_moment, _MOMENT.pattern)
SHARE = Plain(read_share, {"type": "string", "pattern": f"^{_SHARE.pattern}$"})
PERCENT = Plain(read_percent, {"type": "string", "pattern": f"^{_PERCENT.pattern}$"})
FACTOR = Plain(read_factor, {"type": "string", "pattern": f"^{_FACTOR.pattern}$"})
HTTP_PATH = _text(read_http_path, _HTTP_PATH.pattern, MAX_PATH)
MEMORY = Plain(
    parse_memory,
    {"type": "string", "pattern": r"^\s*(?=.*[1-9])[0-9]+(\.[0-9]{1,6})? ?([mMgGtT][iI]?[bB]?)\s*$"},
)


class Span(Whole):
    """A number or a range such as 4..8, as (least, most)."""

    def read(self, value: Any, pointer: str) -> tuple[int, int]:  # type: ignore[override]
        if not isinstance(value, str) or ".." not in value:
            return (number := super().read(value, pointer)), number
        found = _SPAN.fullmatch(value.strip())
        if not found:
            fail(pointer, "bad_span", got=shorten_text(value))
        least, most = (super(Span, self).read(int(text), pointer) for text in found.groups())
        if least > most:
            fail(pointer, "bad_span", got=shorten_text(value))
        return least, most

    def schema(self, yaml: bool) -> dict[str, Any]:
        return {**super().schema(yaml), "type": ["integer", "string"], "pattern": rf"^\s*{_SPAN.pattern}\s*$"}


@dataclass(frozen=True)
class Duration(Shape):
    most_s: int = MAX_DURATION_S
    least_s: int = 1

    def read(self, value: Any, pointer: str) -> int:
        seconds = parse_duration(value, pointer)
        if seconds > self.most_s:
            fail(pointer, "too_large", max=duration_text(self.most_s), got=duration_text(seconds))
        if seconds < self.least_s:
            fail(pointer, "too_small", min=duration_text(self.least_s), got=duration_text(seconds))
        return seconds

    def schema(self, yaml: bool) -> dict[str, Any]:
        parts = "".join(f"([0-9][0-9 ]*[{unit}{unit.upper()}] *)?" for unit in "dhms")
        return {
            "type": ["integer", "string"],
            "minimum": self.least_s,
            "maximum": self.most_s,
            "pattern": rf"^\s*(?=.*[1-9])([0-9][0-9 ]*|{parts})\s*$",
        }


class Ports(Whole):
    """A port, or a list of them."""

    def read(self, value: Any, pointer: str) -> tuple[int, ...]:  # type: ignore[override]
        given = value if isinstance(value, list) else [value]
        if len(given) > MAX_PORTS:
            fail(pointer, "too_many", max=MAX_PORTS, got=len(given))
        read, listed = super().read, isinstance(value, list)
        ports = [read(port, f"{pointer}/{i}" if listed else pointer) for i, port in enumerate(given)]
        for i, port in enumerate(ports):
            if port in ports[:i]:
                fail(f"{pointer}/{i}", "port_twice", port=port)
        return tuple(ports)

    def schema(self, yaml: bool) -> dict[str, Any]:
        one = super().schema(yaml)
        return {**one, "type": ["integer", "array"], "items": one, "maxItems": MAX_PORTS, "uniqueItems": True}


class Choices(Choice):
    """A word, or a list of them."""

    def read(self, value: Any, pointer: str) -> tuple[str, ...]:  # type: ignore[override]
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list):
            fail(pointer, "wrong_type", expected="list", got=kind_of(value))
        read = super().read
        return tuple(dict.fromkeys(read(word, f"{pointer}/{i}") for i, word in enumerate(words)))

    def schema(self, yaml: bool) -> dict[str, Any]:
        one = super().schema(yaml)
        return {"anyOf": [one, {"type": "array", "items": one}]}


@dataclass(frozen=True)
class Names(Shape):
    """Names as a list, or as a text with commas."""

    name: Reader
    most: int

    def read(self, value: Any, pointer: str) -> tuple[str, ...]:
        given = list(dict.fromkeys(_read_list(value, pointer)))
        if len(given) > self.most:
            fail(pointer, "too_many", max=self.most, got=len(given))
        return tuple(self.name(name, f"{pointer}/{at}") for at, name in enumerate(given))

    def schema(self, yaml: bool) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


@dataclass(frozen=True)
class Words(Shape):
    """Names with a word each, as a map, a list or a text such as "prepare, job-12: any". The first word is usual."""

    name: Reader
    words: tuple[str, ...]
    most: int

    def read(self, value: Any, pointer: str) -> dict[str, str]:
        given = value if isinstance(value, dict) else dict(map(self._split, _read_list(value, pointer)))
        if len(given) > self.most:
            fail(pointer, "too_many", max=self.most, got=len(given))
        choice = Choice(self.words)
        return {
            self.name(name, pointer + pointer_of([name])): choice.read(word, pointer + pointer_of([name]))
            for name, word in given.items()
        }

    def schema(self, yaml: bool) -> dict[str, Any]:
        words = {"type": "string", "enum": list(self.words)}
        return {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": words, "maxProperties": self.most},
            ]
        }

    def _split(self, text: str) -> tuple[str, str]:
        for word in sorted(self.words, key=len, reverse=True):
            name = text.removesuffix(word).rstrip()
            if text.endswith(word) and name.endswith(":") and name != ":":
                return name[:-1].strip(), word
        return text, self.words[0]


def _read_list(value: Any, pointer: str) -> list[str]:
    if isinstance(value, list):
        return [read_text(name, f"{pointer}/{i}").strip() for i, name in enumerate(value)]
    return [name.strip() for name in read_text(value, pointer).split(",") if name.strip()]


@dataclass(frozen=True)
class Roles(Map):
    """Values of each role's keys by its name, in file order. most_tasks: of all roles."""

    most_tasks: int = 0

    def read(self, value: Any, pointer: str) -> dict[str, dict]:
        given = self.entries(value, pointer)
        if not given:
            fail(pointer, "required")
        errors = self._check_names(given, pointer)
        roles: dict[str, dict] = {}
        for name, said in given.items():
            try:
                roles[name] = self.value.read(said, pointer + pointer_of([name]))
            except InvalidInput as error:
                errors += error.errors
        tasks = sum(role.get("nodes", (1, 1))[1] for role in roles.values())
        if tasks > self.most_tasks:
            errors.append(FieldError(pointer, "too_many_tasks", {"max": self.most_tasks, "got": tasks}))
        refuse(errors)
        return roles

    def schema(self, yaml: bool) -> dict[str, Any]:
        return {**super().schema(yaml), "minProperties": 1}

    def _check_names(self, given: Iterable[str], pointer: str) -> list[FieldError]:
        """Refuse names that differ only in - and _, as environment variables have no dash."""
        seen: dict[str, str] = {}
        errors = []
        for name in given:
            where, other = pointer + pointer_of([name]), seen.setdefault(name.replace("-", "_"), name)
            try:
                self.name.read(name, where)
            except InvalidInput as error:
                errors += error.errors
            if other != name:
                errors.append(FieldError(where, "role_twice", {"role": name, "other": other}))
        return errors


AFTER = Words(read_name, ("success", "failure", "any"), most=100)
SECRETS = Words(check_secret_name, SECRET_WORDS, most=MOST_OF_A_TASK)
ENV = Map(
    name=_text(check_env_name, _RESERVED + ENV_NAME.pattern, MAX_ENV_NAME),
    value=_text(read_env_value, r"[^\u0000]*", MAX_ENV_VALUE_BYTES, ["string", "integer", "null"]),
    most=200,
    most_bytes=MAX_ENV_BYTES,
    values_first=True,
)
LABELS = Map(
    name=_text(read_label_name, _LABEL_NAME.pattern),
    value=_text(read_label_value, f"({_NAME})?", MAX_LABEL_VALUE, ["string", "integer", "null"]),
    most=32,
    stops=True,
)
DATA = Map(
    name=_text(read_data_target, rf"{_BELOW}(?!\.?(/\.?)*$)[^{_UNSEEN}]*"),
    value=_text(read_data_source, rf"({_FOLDER}{_BELOW}(?!(.*/)?\.\.:ro$)[^:{_UNSEEN}]*(:ro)?|{DATASET})"),
    most=32,
)
ENVIRONMENT_NAME = _text(read_environment, ENVIRONMENT)
OUTPUTS = Map(name=DATA.name, value=_text(read_output, OUTPUT), most=8)
ROLE_NAME = _text(read_role_name, _ROLE_NAME.pattern)
