"""Count what the code's readers pay for: lines, words of comment, full folders, long chains of imports.

python -m dev.code_metrics [--compare REVISION] [--sample N] [--seed S]

--compare  the same figures for another revision, side by side
--sample   N functions and N modules drawn at random, to test whether a new reader knows from a name what it does
"""

import argparse
import ast
import io
import random
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ["platform", "scheduler", "portal", "cli", "agent", "deploy"]
IMPORT_ROOTS = ["", "platform"]
MOST_FILES = 15
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("code_metrics", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--compare", metavar="REVISION")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    if options.sample:
        print(*draw_sample(ROOT, options.sample, options.seed), sep="\n")
        return
    now = before = measure(ROOT)
    if options.compare:
        with export_revision(options.compare) as root:
            before = measure(root)
    for name, value in now.items():
        change = f"{before[name]:>9,} -> " if options.compare else ""
        share = f"  ({100 * (value - before[name]) / before[name]:+.1f} %)" if options.compare and before[name] else ""
        print(f"{name:42} {change}{value:>9,}{share}")


def measure(root: Path) -> dict[str, int]:
    files = product_files(root)
    sources = {path: path.read_text() for path in files}
    folders = Counter(path.parent for path in files)
    return {
        "files": len(files),
        "lines": sum(len(source.splitlines()) for source in sources.values()),
        "lines of code": sum(count_code_lines(source) for source in sources.values()),
        "words in docstrings and comments": sum(count_words(source) for source in sources.values()),
        f"folders of more than {MOST_FILES} files": sum(1 for count in folders.values() if count > MOST_FILES),
        "longest chain of imports, in modules": longest_chain(root, sources),
    }


@contextmanager
def export_revision(revision: str) -> Iterator[Path]:
    """The tree of another revision, in a directory of its own."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(directory, filter="data")
        yield Path(directory)


def product_files(root: Path) -> list[Path]:
    """Python files of an installation, without generated migrations."""
    found = [path for name in PRODUCT for path in sorted((root / name).rglob("*.py"))]
    return [path for path in found if "migrations" not in path.parts]


def count_words(source: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = sum(len(token.string.lstrip("#").split()) for token in tokens if token.type == tokenize.COMMENT)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    return comments + sum(len((ast.get_docstring(node) or "").split()) for node in nodes)


def count_code_lines(source: str) -> int:
    """Lines that hold code: no blank line, comment or docstring."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def longest_chain(root: Path, sources: dict[Path, str]) -> int:
    """The most modules of a chain in which each imports the next. Imports for type checking alone do not count."""
    modules = {module_name(root, path): path for path in sources}
    imports = {name: imported_modules(sources[path], modules) - {name} for name, path in modules.items()}
    open_names: set[str] = set()

    @cache
    def depth(name: str) -> int:
        if name in open_names:  # a circle of imports
            return 0
        open_names.add(name)
        deepest = 1 + max((depth(other) for other in sorted(imports[name])), default=0)
        open_names.discard(name)
        return deepest

    return max(depth(name) for name in sorted(modules))


def module_name(root: Path, path: Path) -> str:
    parts = list(path.relative_to(root).with_suffix("").parts)
    parts = parts[1:] if parts[0] == "platform" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(source: str, modules: dict[str, Path]) -> set[str]:
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules else node.module)
        pending.extend(ast.iter_child_nodes(node))
    return found & modules.keys()


def draw_sample(root: Path, count: int, seed: int) -> list[str]:
    """`count` functions with signature and first line of docstring, then `count` modules by path alone."""
    functions = []
    files = product_files(root)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("__"):
                first = (ast.get_docstring(node) or "").split("\n")[0]
                functions.append(f"{path.relative_to(root)}: {node.name}({ast.unparse(node.args)})  {first}".rstrip())
    chance = random.Random(seed)  # noqa: S311 (the same draw for the same seed is wanted)
    modules = [str(path.relative_to(root)) for path in files if path.name != "__init__.py"]
    return [*chance.sample(sorted(functions), count), "", *chance.sample(sorted(modules), count)]


if __name__ == "__main__":
    main(sys.argv[1:])
