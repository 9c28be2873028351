"""Reading of simple parameters without pydantic, whose import takes as long as all else."""

from collections.abc import Callable
from typing import Any


class Reader:
    """Reads texts and lists; leaves the rest to typer's reader."""

    def __init__(self, usual: Callable[[], Any]):
        self.usual = usual

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(kind, type) and isinstance(value, kind):
            return value
        if kind == list[str]:
            return list(value)
        return self.usual().coerce(value, param=param, ctx=ctx)


def read_quickly(param: Any) -> Any:
    if "get_runtime_param" not in vars(param):
        reader = Reader(param.get_runtime_param)
        param.get_runtime_param = lambda: reader
    return param
