"""Parameters that are read without pydantic where there is nothing to check: importing it takes as long as all else."""

from collections.abc import Callable
from typing import Any


class Reader:
    """In the place of typer's own (typer.core), which is asked for what has to be read: numbers, paths, choices."""

    def __init__(self, usual: Callable[[], Any]):
        self.usual = usual

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(kind, type) and isinstance(value, kind):  # a text, or a default
            return value
        if kind == list[str]:
            return list(value)
        return self.usual().coerce(value, param=param, ctx=ctx)


def read_quickly(param: Any) -> Any:
    """The parameter itself, which from now on asks our reader."""
    if "get_runtime_param" not in vars(param):
        reader = Reader(param.get_runtime_param)
        param.get_runtime_param = lambda: reader
    return param
