"""A spec back to YAML, as a person would write it: what is usual is left out, a long command is a block.

`parse_spec(load_jobfile(dump_yaml(spec).encode())) == spec`. What is written reads the same by YAML 1.1, so that a file
that passes through another tool means the same.
"""

import json
import re
import unicodedata

from jobs.jobfile.spec import DEFAULT_RETRY_WHEN, JobSpec, RoleSpec, to_json

INDENT = "  "
KEY_ORDER = (
    "kind",
    "name",
    "team",
    "pool",
    "image",
    "code",
    "run",
    "gpu",
    "cpu",
    "memory",
    "nodes",
    "roles",
    "env",
    "workdir",
    "ports",
    "tensorboard",
    "data",
    "checkpoint",
)

# Text that needs no quotes in any YAML: begins with a letter or "./", holds no mark of the syntax, is no special word.
_PLAIN = re.compile(r"(?:[A-Za-z]|\./)(?:[A-Za-z0-9 _./=+$@,()<>|&;*\"'-]|:(?=[^\s])|#(?<=[^\s]#))*(?<! )")
_SPECIAL = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_SIZE = re.compile(r"[0-9]+(?:\.[0-9]+)?[A-Za-z]+|[0-9]+/[0-9]+|0|[1-9][0-9]*|([0-9]+[dhms])+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def dump_yaml(spec: JobSpec) -> str:
    """The job file of `spec`, without the keys that say what is usual."""
    told = to_json(spec)
    usual = to_json(JobSpec(run="", name=""))
    kept = {key: value for key, value in told.items() if value != usual.get(key) or key in ("name", "run")}
    if spec.roles:
        usual = to_json(JobSpec(name="", roles=(RoleSpec(name="any", run=""),)))["roles"]["any"]
        for name, role in told["roles"].items():
            kept["roles"][name] = {key: value for key, value in role.items() if value != usual.get(key) or key == "run"}
    if "retry" in kept and spec.retry_when == DEFAULT_RETRY_WHEN:
        kept["retry"] = spec.retry_times
    return "".join(_entry(key, value, "") for key, value in kept.items())


def dump_file(data: dict) -> str:
    """The job file with these keys in the usual order, right or wrong as they are: what a form holds while it is filled
    in. `load_jobfile(dump_file(data).encode()) == data`, but for keys with nothing behind them."""
    order = {key: place for place, key in enumerate(KEY_ORDER)}
    keys = sorted((key for key in data if data[key] is not None), key=lambda key: order.get(key, len(order)))
    return "".join(_entry(key, data[key], "") for key in keys)


def _entry(key: str, value: object, indent: str) -> str:
    if isinstance(value, dict):
        inner = "".join(_entry(name, item, indent + INDENT) for name, item in value.items())
        return f"{indent}{_scalar(key)}:\n{inner}" if value else f"{indent}{_scalar(key)}: {{}}\n"
    if isinstance(value, list):
        return f"{indent}{_scalar(key)}: [{', '.join(_scalar(item) for item in value)}]\n"
    if isinstance(value, str) and _fits_block(value):
        lines = "".join(f"{indent}{INDENT}{line}\n" if line else "\n" for line in value.split("\n"))
        return f"{indent}{_scalar(key)}: |-\n{lines}"
    # Quantities are canonical text already, and read well bare; anything else may need quotes.
    bare = (
        isinstance(value, str)
        and key in ("gpu", "cpu", "memory", "time", "max_time", "grace")
        and _SIZE.fullmatch(value)
    )
    return f"{indent}{_scalar(key)}: {value if bare else _scalar(value)}\n"


def _fits_block(text: str) -> bool:
    """Whether a literal block keeps every character: lines that print, none that a block would strip or fold."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and all(_prints(line) for line in lines)
        and bool(lines[0].strip())
        and not lines[0].startswith((" ", "\t"))
        and bool(lines[-1].strip())
        and all(line.strip() or not line for line in lines)
    )


def _scalar(value: object) -> str:
    if value is None or isinstance(value, bool | list | dict):
        return json.dumps(value)  # flow style: nothing that a right file needs
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _SPECIAL:
        return value
    return '"' + "".join(_quoted(character) for character in value) + '"'


def _quoted(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if _prints(character):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _prints(text: str) -> bool:
    return all(c == "\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in text)
