"""Converts between the job form and the job file, without validation.

Keys that the form cannot show are kept, and so is what it cannot show of a key.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from jobs.jobfile.array_values import AT_ONCE
from jobs.jobfile.patterns import find_pattern, write_pattern

ASKS = ("0", "4GB", "1/4", "1/2", "1", "2")
"""The sizes that the form offers where they are possible; any other is typed."""
BLANK = "run: python train.py\n"
LONGEST_NUMBER = 30
PATTERN = "pattern"
"""The field of what several keys say together: how the work is distributed."""
CHOSEN = {"true": True, "false": False}


def values_of(data: Mapping) -> dict[str, str]:
    """Return {field: text}, flags as "on" or "", choices as "true", "false" or ""."""
    values = {name: control.show(data.get(name)) or control.usual for name, control in CONTROLS.items()}
    return {**values, PATTERN: find_pattern(data)}


def data_of(values: Mapping[str, str], base: Mapping) -> dict:
    """Return `base` with the fields applied that differ from it."""
    shown, data = values_of(base), dict(base)
    for name in (name for name in values if name in CONTROLS):
        value = values[name].replace("\r\n", "\n")
        value, was = (value, shown[name]) if name in LINES else (value.strip(), shown[name].strip())
        if value != was:
            _put(data, name, value)
    return write_pattern(data, values[PATTERN]) if PATTERN in values else data


def write_first_file(text: str, gpu: str) -> str:
    """Return a job file without GPU with this amount added."""
    return text if gpu == "0" else f"{text}gpu: {gpu}\n"


def gpu_of(posted: Mapping[str, str]) -> str:
    choice = posted.get("gpu", "")
    return posted.get("gpu_text", "").strip() if choice == "other" else choice


def _put(data: dict, name: str, value: str) -> None:
    """Set a key; an empty or usual value removes it."""
    control = CONTROLS[name]
    entry = control.read(value)
    if entry in ("", {}, []) or value == control.usual:
        data.pop(name, None)
    elif control.part and isinstance(data.get(name), dict):
        data[name] = {**data[name], control.part: entry}
    else:
        data[name] = entry


# ---- what a field shows ----


def _text(value: object) -> str:
    if value is None or value is False:
        return ""
    return value if isinstance(value, str) else str(value)


def _show_choice(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else _text(value)


def _show_list(said: object) -> str:
    return ", ".join(_text(item) for item in said) if isinstance(said, list) else _text(said)


def _show_names(usual: str, said: object) -> str:
    """Return names with a word each: "prepare, job-12: any". usual: the word left out."""
    if isinstance(said, dict):
        return ", ".join(name if word == usual else f"{name}: {_text(word)}" for name, word in said.items())
    return _show_list(said)


def _show_lines(said: object) -> str:
    if not isinstance(said, dict):
        return _text(said)
    return "\n".join(f"{name}={_text(value)}".replace("\n", "\\n") for name, value in said.items())


def _show_array(said: object) -> str:
    """Return "100", or a variable in each line with its values after a colon."""
    if not isinstance(said, dict):
        return _text(said)
    return "\n".join(f"{name}: {_show_list(values)}" for name, values in said.items())


def _show_part(part: str, said: object) -> str:
    """Return what a map says of one key, or what stands in the map's place."""
    return _show_list(said.get(part) if isinstance(said, dict) else said)


# ---- what the file says for a field's text ----


def _number(value: str) -> int | str:
    plain = value.isascii() and value.isdigit() and len(value) <= LONGEST_NUMBER
    return int(value) if plain else value


def _read_env(value: str) -> dict[str, str]:
    """Return variables, with spaces around a value as they were typed."""
    lines = [line for line in value.split("\n") if line.strip()]
    return {key.strip(): text for key, _, text in (line.partition("=") for line in lines)}


def _read_lines(value: str) -> dict[str, str]:
    return {name: text.strip() for name, text in _read_env(value).items()}


def _read_array(value: str) -> object:
    if ":" not in value:
        return _number(value)
    pairs = (line.partition(":") for line in value.split("\n") if line.strip())
    return {name.strip(): _read_array_values(name.strip(), item.strip()) for name, _, item in pairs}


def _read_array_values(name: str, text: str) -> object:
    if name == AT_ONCE or ".." in text:
        return _number(text)
    return [item.strip() for item in text.strip("[]").split(",")]


def _read_list(value: str) -> object:
    """Return a list, or the text itself if it is a single word."""
    items = [_number(item.strip()) for item in value.split(",") if item.strip()]
    return items if len(items) != 1 or isinstance(items[0], int) else items[0]


# ---- the controls ----


@dataclass(frozen=True)
class Control:
    """How one key of the file stands in the form.

    usual: what it shows where the file says nothing; typing it leaves the key out. part: the key of a map that the
    field shows; the others are kept.
    """

    show: Callable[[object], str] = _text
    read: Callable[[str], object] = str
    usual: str = ""
    part: str = ""


def _control_of_part(part: str, read: Callable[[str], object] = str) -> Control:
    return Control(partial(_show_part, part), read, part=part)


TEXT = Control()
LIST = Control(_show_list, _read_list)
FLAG = Control(lambda said: "on" if said is True else "", lambda value: value == "on" or "")
CHOICE = Control(_show_choice, lambda value: CHOSEN.get(value, value))
"""Yes, no, or neither: the pool says then."""
CONTROLS: dict[str, Control] = {
    "name": TEXT,
    "run": TEXT,
    "gpu": Control(usual="0"),
    "image": TEXT,
    "environment": TEXT,
    "pool": TEXT,
    "team": TEXT,
    "cpu": TEXT,
    "memory": TEXT,
    "time": TEXT,
    "max_time": TEXT,
    "priority": Control(usual="normal"),
    "workdir": TEXT,
    "code": TEXT,
    "start_at": TEXT,
    "wait_max": TEXT,
    "after": Control(partial(_show_names, "success")),
    "secrets": Control(partial(_show_names, "variable")),
    "nodes": Control(read=_number, usual="1"),
    "retry": _control_of_part("times", _number),
    "hold": FLAG,
    "preemptible": CHOICE,
    "env": Control(_show_lines, _read_env),
    "array": Control(_show_array, _read_array),
    "data": Control(_show_lines, _read_lines),
    "ports": LIST,
    "tensorboard": TEXT,
    "checkpoint": _control_of_part("dir"),
    "notify": _control_of_part("when", _read_list),
    "token": LIST,
    "labels": Control(_show_lines, _read_lines),
}
FIELDS = (*CONTROLS, PATTERN)
LINES = frozenset({"env"})
"""Where spaces at the ends matter."""
