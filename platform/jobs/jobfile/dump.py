"""Write a spec as YAML that reads back as the same spec, in YAML 1.1 too."""

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
    "environment",
    "code",
    "run",
    "gpu",
    "cpu",
    "memory",
    "shm",
    "rdma",
    "nodes",
    "roles",
    "main",
    "env",
    "secrets",
    "token",
    "workdir",
    "ports",
    "tensorboard",
    "data",
    "outputs",
    "checkpoint",
    "idle",
    "notify",
    "place",
    "array",
    "search",
    "serve",
)

# Text that needs no quotes.
_PLAIN = re.compile(r"(?:[A-Za-z]|\./)(?:[A-Za-z0-9 _./=+$@,()<>|&;*\"'-]|:(?=[^\s])|#(?<=[^\s]#))*(?<! )")
_SPECIAL = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_SIZE = re.compile(r"[0-9]+(?:\.[0-9]+)?[A-Za-z]+|[0-9]+/[0-9]+|0|[1-9][0-9]*|([0-9]+[dhms])+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def dump_yaml(spec: JobSpec) -> str:
    """Write a job file, without keys at their defaults."""
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
    """Write these keys in the usual order, even wrong ones, as a form holds them."""
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
    # Quantities need no quotes.
    bare = (
        isinstance(value, str)
        and key in ("gpu", "cpu", "memory", "shm", "time", "max_time", "wait_max", "grace", "for", "idle", "at_once")
        and _SIZE.fullmatch(value)
    )
    return f"{indent}{_scalar(key)}: {value if bare else _scalar(value)}\n"


def _fits_block(text: str) -> bool:
    """Whether a literal block keeps every character."""
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
        return json.dumps(value)  # only in wrong files
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
