"""No files import each other in a circle, imports for type checkers and late ones included."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("tensor", "compilers", "queues", "drivers", "boards", "benchmarks", "generators")
KNOWN = {
    "tensor": "methods of a tensor are the functions of the facade",
    "drivers.webgpu": "a device and what it is made of name each other for the type checker",
}
"""Folders inside which files may, and why. Between folders they never do."""


def modules() -> dict[str, Path]:
    """Every module of the product and of the boards by its name."""
    found = {}
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement of a file; expressions, most of its nodes, have none inside of them."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, name, [])


def imported(tree: ast.Module, known: Iterable[str]) -> Iterator[str]:
    """The modules that a file names in any import statement, wherever it stands."""
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """What a module imports, and what that imports."""
    found: set[str] = set()
    waiting = [start]
    for name in waiting:
        new = graph.get(name, set()) - found
        found |= new
        waiting += new
    return found


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The largest sets of modules each of which reaches every other."""
    reach = {name: reachable(graph, name) for name in graph}
    return {
        frozenset(other for other in reach[name] if name in reach.get(other, ()))
        for name in graph
        if name in reach[name]
    }


def test_circles_stay_inside_the_folders_that_say_why() -> None:
    known = modules()
    graph = {
        name: set(imported(ast.parse(path.read_text("utf-8")), known)) & set(known) - {name}
        for name, path in known.items()
    }
    check(len(graph) > 500 and sum(map(len, graph.values())) > 2000, "nothing was read")
    for circle in circles(graph):
        folders = {name.rpartition(".")[0] or name for name in circle}
        inside = len(folders) == 1 and folders <= set(KNOWN)
        check(inside, f"these import each other: {sorted(circle)}")


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    check(circles(graph) == {frozenset("bc")}, str(circles(graph)))
