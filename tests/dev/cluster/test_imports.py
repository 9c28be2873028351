"""bin/cluster runs by the machine's own Python, before anything is installed."""

import ast
import sys
from pathlib import Path

import pytest

import dev.cluster

FILES = sorted(Path(dev.cluster.__file__).parent.rglob("*.py"))


def find_imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_imports_the_standard_library_and_itself(file):
    others = {name for name in find_imports(file) if name.partition(".")[0] not in sys.stdlib_module_names}
    assert all(name == "dev.cluster" or name.startswith("dev.cluster.") for name in others), others
