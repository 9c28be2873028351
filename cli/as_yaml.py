"""An answer of the API as YAML. Loaded only for `-o yaml`: the library is slow to load."""

from io import StringIO
from typing import Any

from ruamel.yaml import YAML

WIDEST = 4096
"""Columns before a text is folded: a reader of lines should find one value on one."""


def dump(answer: Any, *, ascii_only: bool = False) -> str:
    """Keys in the order of the API, every text that looks like something else in quotes, no line end at the end."""
    yaml = YAML()
    yaml.width, yaml.allow_unicode = WIDEST, not ascii_only
    yaml.indent(mapping=2, sequence=2, offset=0)
    out = StringIO()
    yaml.dump(answer, out)
    return out.getvalue().removesuffix("\n").removesuffix("\n...")
