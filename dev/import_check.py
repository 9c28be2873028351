"""Find imports of our own modules and names that are not there, in strings and in modules of any kind, too.

Also attributes of imported modules, and dotted names in strings, as of functions that a test replaces.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ["platform", "scheduler", "portal", "cli", "agent", "deploy", "dev", "bench", "tests"]
TEMPLATE = re.compile(r"[\w/]+\.html")
DOTTED = re.compile(r"[a-z_]+(\.\w+){2,}")
IMPORT_ROOTS = [ROOT, ROOT / "platform"]


def check() -> str:
    """Return a line for each import that would fail, and for each template of a page that is not there."""
    files = [path for name in SOURCES for path in sorted((ROOT / name).rglob("*.py"))]
    broken = [line for path in files for line in _find_broken(path)]
    return "\n".join([*broken, *(line for path in (ROOT / "portal").rglob("*.py") for line in _find_no_template(path))])


def _find_no_template(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value} is no template"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TEMPLATE.fullmatch(node.value)
        if not (ROOT / "templates" / node.value).is_file()
    ]


def _find_broken(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {module}.{name} is not there"
        for line, module, name in _list_names(ast.parse(path.read_text()))
        if _is_ours(module) and not _has(module, name)
    ]


def _list_names(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield (line, module, name) of imports, of attributes of imported modules, and of dotted names in strings."""
    modules = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
        if _is_module([*node.module.split("."), alias.name])
        and not alias.name.endswith("_pb2")  # which makes its names
    }
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0):
                yield from ((node.lineno, module, alias.name) for alias in node.names)
            case ast.Attribute(value=ast.Name(id=name)) if name in modules and not node.attr.startswith("__"):
                yield node.lineno, modules[name], node.attr
            case ast.Constant(value=str(text)) if DOTTED.fullmatch(text):
                parts = text.split(".")
                while len(parts) > 2 and not _is_module(parts[:-1]):
                    parts.pop()  # an attribute of a class, or the name of a Celery task
                yield node.lineno, ".".join(parts[:-1]), parts[-1]


def _is_module(parts: list[str]) -> bool:
    return any((base := root.joinpath(*parts)).with_suffix(".py").is_file() or base.is_dir() for root in IMPORT_ROOTS)


def _is_ours(module: str) -> bool:
    top = module.partition(".")[0]
    return any((root / top).is_dir() or (root / f"{top}.py").is_file() for root in IMPORT_ROOTS)


@cache
def _has(module: str, name: str) -> bool:
    for root in IMPORT_ROOTS:
        base = root.joinpath(*module.split("."))
        if (base / f"{name}.py").is_file() or (base / name).is_dir():
            return True
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file() and (names := _names_of(path)) and (name in names or "__getattr__" in names):
                return True
    return False


@cache
def _names_of(path: Path) -> frozenset[str]:
    """Every name that a module binds anywhere: more than its globals, and good enough to find what was moved."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update((alias.asname or alias.name).partition(".")[0] for alias in aliases)
            case ast.alias(name="*"):
                names.add("__getattr__")
    return frozenset(names)
