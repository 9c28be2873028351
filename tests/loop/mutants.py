"""Bugs that are planted in functions of the product: each changes the syntax tree of one, for the length of a test.

A mutant is a function and what changes in it, in terms of the language and of names: neither layout nor comments of the
product count, nor who has imported the function. `ast.unparse` of a place shows what stands there.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.loop.world import Act

Change = tuple[Callable[[ast.AST], Any], dict[str, Any]]
"""(what a node becomes: KEEP for itself, None to take it out; names that the new code uses)"""
KEEP = object()


@dataclass(frozen=True)
class Bug:
    """seed: of the first life that is tried, for what shows in few. often: acts that it needs, rare in other lives."""

    name: str
    function: Callable[..., Any]
    change: Change
    seed: int = 0
    often: tuple[Act, ...] = ()


def plant(patch: pytest.MonkeyPatch, bug: Bug) -> None:
    """Give the function the code of its mutant. Whoever knows the function runs the mutant."""
    function: Any = inspect.unwrap(bug.function)
    assert isinstance(function, FunctionType)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    mutate, helpers = bug.change
    mutator = Mutator(mutate)
    (changed,) = mutator.visit(tree).body
    assert mutator.places, f"{bug.name}: nothing to change in {function.__qualname__}"
    changed.decorator_list = []
    module = compile(ast.fix_missing_locations(ast.Module([changed], [])), function.__code__.co_filename, "exec")
    patch.setattr(function, "__code__", next(each for each in module.co_consts if isinstance(each, CodeType)))
    for name, helper in helpers.items():
        patch.setitem(function.__globals__, name, helper)


# what may change


def without_call(name: str) -> Change:
    """The statement that calls it is skipped."""
    return lambda node: ast.Pass() if isinstance(node, ast.Expr) and _calls(node.value, name) else KEEP, {}


def without_if(name: str) -> Change:
    """The `if` that asks about this name is skipped, with what it guards."""
    return lambda node: ast.Pass() if isinstance(node, ast.If) and _mentions(node.test, name) else KEEP, {}


def without_test(name: str) -> Change:
    """What asks about this name is taken out of an `and` or an `or`."""

    def drop(node: ast.AST) -> Any:
        if isinstance(node, ast.BoolOp):
            left = [value for value in node.values if not _mentions(value, name)]
            if 0 < len(left) < len(node.values):
                return ast.BoolOp(node.op, left) if len(left) > 1 else left[0]
        return KEEP

    return drop, {}


def without_argument(function: str, keyword: str) -> Change:
    def drop(node: ast.AST) -> Any:
        if isinstance(node, ast.Call) and _calls(node, function) and keyword in [each.arg for each in node.keywords]:
            return ast.Call(node.func, node.args, [each for each in node.keywords if each.arg != keyword])
        return KEEP

    return drop, {}


def calling(name: str, instead: Callable[..., Any]) -> Change:
    """Another function is called."""

    def swap(node: ast.AST) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            return ast.Call(ast.Name("_instead", ast.Load()), node.args, node.keywords)
        return KEEP

    return swap, {"_instead": instead}


def replacing(old: str, new: str, **helpers: Any) -> Change:
    """Another expression stands wherever this one did."""
    wanted = ast.dump(ast.parse(old, mode="eval").body)
    return lambda node: ast.parse(new, mode="eval").body if ast.dump(node) == wanted else KEEP, helpers


def returning(value: str) -> Change:
    return lambda node: ast.Return(ast.parse(value, mode="eval").body) if isinstance(node, ast.Return) else KEEP, {}


class Mutator(ast.NodeTransformer):
    """places: how many nodes it changed."""

    def __init__(self, mutate: Callable[[ast.AST], Any]) -> None:
        self.mutate, self.places = mutate, 0

    def visit(self, node: ast.AST) -> Any:
        changed = self.mutate(node)
        if changed is KEEP:
            return self.generic_visit(node)
        self.places += 1
        return changed


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == name


def _mentions(node: ast.AST, name: str) -> bool:
    return any(name in (getattr(each, "id", ""), getattr(each, "attr", "")) for each in ast.walk(node))
