"""YAML output, imported only for `-o yaml`, since the library loads slowly."""

from io import StringIO
from typing import Any

from ruamel.yaml import YAML

WIDEST = 4096
"""Long enough that a value is not folded over lines."""


def dump(answer: Any, *, ascii_only: bool = False) -> str:
    """Return an API answer as YAML, keys in its order, without a final newline."""
    yaml = YAML()
    yaml.width, yaml.allow_unicode = WIDEST, not ascii_only
    yaml.indent(mapping=2, sequence=2, offset=0)
    out = StringIO()
    yaml.dump(answer, out)
    return out.getvalue().removesuffix("\n").removesuffix("\n...")
