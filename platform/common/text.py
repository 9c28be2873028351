"""Checks of names, and safe display of people's text.

Names hold no character that hides, reorders or ends a line.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from common.errors import FieldError, InvalidInput

MAX_NAME = 64
MAX_ENV_NAME = 256

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# These pick the GPU, lift its limit, load code into the platform's launcher, or are set by the platform.
RESERVED_ENV_PREFIXES = ("NVIDIA_", "CUDA_DEVICE_", "CUDA_MPS_", "LD_", "TESSERA_")
RESERVED_ENV = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DISABLE_CONTROL", "CUDA_OVERSUBSCRIBE", "CUDA_REDIRECT", "CUDA_TASK_PRIORITY",
    "GPU_CORE_UTILIZATION_POLICY", "ACTIVE_OOM_KILLER", "RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip

# Control, format (bidi, zero-width), surrogate, private, unassigned, separators:
# https://www.unicode.org/reports/tr36/ and CVE-2021-42574 ("Trojan Source").
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def bad_character(text: str) -> str | None:
    """Return the first forbidden character, "U+202E", or None."""
    return next((f"U+{ord(c):04X}" for c in text if unicodedata.category(c) in _UNSEEN), None)


def name_problem(text: str, max_length: int = MAX_NAME) -> tuple[str, dict] | None:
    """Return (code, params) if `text` is no name."""
    if not text:
        return "required", {}
    if len(text) > max_length:
        return "too_long", {"max": max_length, "got": len(text)}
    if bad := bad_character(text):
        return "bad_characters", {"character": bad}
    if text != text.strip():
        return "outer_space", {}
    return None


def check_name(text: str, pointer: str = "/name", max_length: int = MAX_NAME) -> str:
    """Return `text` if it is a name. Raises InvalidInput."""
    if problem := name_problem(text, max_length):
        raise InvalidInput(errors=[FieldError(pointer, *problem)])
    return text


def check_env_name(name: str, pointer: str) -> str:
    """Return `name` if people may set an environment variable of that name. Raises InvalidInput."""
    if not ENV_NAME.fullmatch(name) or len(name) > MAX_ENV_NAME:
        raise InvalidInput(errors=[FieldError(pointer, "bad_env_name", {"got": shorten_text(name)})])
    if name in RESERVED_ENV or name.startswith(RESERVED_ENV_PREFIXES):
        raise InvalidInput(errors=[FieldError(pointer, "reserved_name", {"name": shorten_text(name)})])
    return name


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    near = get_close_matches(shorten_text(word).lower(), list(known), n=1, cutoff=0.6)
    return near[0] if near else None


def shorten_text(text: str, max_length: int = 40) -> str:
    """Cut text to one safe line."""
    cut = text if len(text) <= max_length else text[: max_length - 1] + "…"
    return "".join("\ufffd" if unicodedata.category(c) in _UNSEEN else c for c in cut)


def kind_of(value: object) -> str:
    """Return a key of `common.error_messages.KINDS`."""
    if value is None:
        return "nothing"
    kinds = ((bool, "true_or_false"), (int, "number"), (float, "number"), (str, "text"), (list, "list"), (dict, "map"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "something_else")


def join_some(names: Sequence[str], most: int = 3) -> str:
    """Return the first names with commas, and an ellipsis where there are more."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])
