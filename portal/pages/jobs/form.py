"""Converts between the job form and the job file, without validation.

Keys that the form cannot show are kept.
"""

from collections.abc import Mapping

from jobs.jobfile.array_values import AT_ONCE

ASKS = ("0", "4GB", "1/4", "1/2", "1", "2")
"""The sizes that the form offers where they are possible; any other is typed."""
BLANK = "run: python train.py\n"

TEXTS = (
    "name",
    "run",
    "gpu",
    "image",
    "pool",
    "team",
    "cpu",
    "memory",
    "time",
    "max_time",
    "priority",
    "workdir",
    "code",
    "start_at",
    "wait_max",
    "after",
    "secrets",
)
NUMBERS = ("nodes", "retry")
FLAGS = ("hold",)
CHOICES = ("preemptible",)
"""Yes, no, or neither: the pool says then."""
FIELDS = (*TEXTS, *NUMBERS, *FLAGS, *CHOICES, "env", "array")

USUAL = {"nodes": "1", "priority": "normal", "gpu": "0"}
"""What a field shows where the file says nothing; typing it leaves the key out."""

CHOSEN = {"true": True, "false": False}
LONGEST_NUMBER = 30


def values_of(data: Mapping) -> dict[str, str]:
    """Return {field: text}, flags as "on" or "", choices as "true", "false" or ""."""
    values = {name: _text(data.get(name)) or USUAL.get(name, "") for name in (*TEXTS, "nodes")}
    retry = data.get("retry")
    values["retry"] = _text(retry.get("times") if isinstance(retry, dict) else retry)
    values |= {name: "on" if data.get(name) is True else "" for name in FLAGS}
    values |= {name: _choice_text(data.get(name)) for name in CHOICES}
    values["env"] = _env_lines(data.get("env"))
    values["array"] = _array_lines(data.get("array"))
    values["after"] = _list_names(data.get("after"), usual="success")
    values["secrets"] = _list_names(data.get("secrets"), usual="variable")
    return values


def data_of(values: Mapping[str, str], base: Mapping) -> dict:
    """Return `base` with the fields applied that differ from it."""
    shown, data = values_of(base), dict(base)
    for name, text in values.items():
        value = text.replace("\r\n", "\n")
        value, was = (value, shown[name]) if name == "env" else (value.strip(), shown[name].strip())
        if value != was:
            _put(data, name, value)
    return data


def write_first_file(text: str, gpu: str) -> str:
    """Return a job file without GPU with this amount added."""
    return text if gpu == "0" else f"{text}gpu: {gpu}\n"


def gpu_of(posted: Mapping[str, str]) -> str:
    choice = posted.get("gpu", "")
    return posted.get("gpu_text", "").strip() if choice == "other" else choice


def _put(data: dict, name: str, value: str) -> None:
    """Set a key; an empty or default value removes it."""
    if name == "env":
        lines = [line for line in value.split("\n") if line.strip()]
        entry: object = {key.strip(): text for key, _, text in (line.partition("=") for line in lines)}
    elif name == "array":
        entry = _read_array(value)
    elif name in FLAGS:
        entry = value == "on"
    elif name in CHOICES:
        entry = CHOSEN.get(value, value)
    elif name in NUMBERS:
        entry = _number(value)
    else:
        entry = value
    if name == "retry" and isinstance(data.get("retry"), dict) and entry != "":
        entry = {**data["retry"], "times": entry}
    if entry in ("", {}) or (name in FLAGS and not entry) or value == USUAL.get(name):
        data.pop(name, None)
    else:
        data[name] = entry


def _array_lines(said: object) -> str:
    """Return an array as the form's field has it: "100", or a variable in each line with its values after a colon."""
    if not isinstance(said, dict):
        return _text(said)
    shown = {
        name: ", ".join(map(_text, item)) if isinstance(item, list) else _text(item) for name, item in said.items()
    }
    return "\n".join(f"{name}: {text}" for name, text in shown.items())


def _read_array(text: str) -> object:
    if ":" not in text:
        return _number(text)
    pairs = (line.partition(":") for line in text.split("\n") if line.strip())
    return {name.strip(): _read_array_values(name.strip(), item.strip()) for name, _, item in pairs}


def _read_array_values(name: str, text: str) -> object:
    if name == AT_ONCE or ".." in text:
        return _number(text)
    return [item.strip() for item in text.strip("[]").split(",")]


def _choice_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else _text(value)


def _number(value: str) -> int | str:
    plain = value.isascii() and value.isdigit() and len(value) <= LONGEST_NUMBER
    return int(value) if plain else value


def _text(value: object) -> str:
    if value is None or value is False:
        return ""
    return value if isinstance(value, str) else str(value)


def _list_names(said: object, usual: str) -> str:
    """Return names with a word each as the form's field has them: "prepare, job-12: any". usual: the word left out."""
    if isinstance(said, dict):
        return ", ".join(name if word == usual else f"{name}: {_text(word)}" for name, word in said.items())
    return ", ".join(_text(name) for name in said) if isinstance(said, list) else _text(said)


def _env_lines(env: object) -> str:
    if not isinstance(env, dict):
        return _text(env)
    return "\n".join(f"{name}={_text(value)}".replace("\n", "\\n") for name, value in env.items())
