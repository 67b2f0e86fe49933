"""Every loop of the product has a bound that its reader can see.

A `while` is accepted when
  - its test compares with something named a deadline (`... < deadline_s`), or
  - it drains a work list: the test starts with the list's name, the body takes an element out
    first, or as its only statement, and where it also puts some in, it looks whether they were
    seen before, or
  - it is one of at most five in ALLOWED, with the reason.
A `for` must not run over an endless iterator: itertools.count, cycle, repeat(x), iter(f, end).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("drivers", "queues", "compilers", "tensor")
MOST_ALLOWED = 5
ALLOWED = {
    ("drivers/cpu/ring.py", "_serve"): "the engine thread; the ring's close ends it",
    ("drivers/cpu/ring.py", "_finish"): "a parked list waits on its signals, or until the close",
    ("drivers/cpu/ring.py", "_drained"): "a kernel at work, which a signal handler can stop",
}
SUSPICIOUS = re.compile(r"\bwhile\b|\b(?:count|cycle|repeat|iter)\s*\(")
"""What a file with such a loop has in its text; the others are not parsed."""
TAKES = {"pop", "popleft"}
PUTS = {"append", "extend", "appendleft", "add", "push"}


def names(node: ast.AST) -> set[str]:
    """Identifiers used anywhere below a node."""
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def has_deadline(loop: ast.While) -> bool:
    compared = [part for part in ast.walk(loop.test) if isinstance(part, ast.Compare)]
    return any("deadline" in name for part in compared for name in names(part))


def calls_on(node: ast.AST, variable: str, methods: set[str]) -> bool:
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in methods
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id == variable
        for part in ast.walk(node)
    )


def drains_a_list(loop: ast.While) -> bool:
    test = loop.test.values[0] if isinstance(loop.test, ast.BoolOp) else loop.test
    if isinstance(loop.test, ast.BoolOp) and not isinstance(loop.test.op, ast.And):
        return False
    if not isinstance(test, ast.Name) or not isinstance(loop.body[0], ast.Assign | ast.Expr):
        return False
    if not calls_on(loop.body[0], test.id, TAKES):
        return False
    body = ast.Module(loop.body, [])
    looks = any(
        isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.In | ast.NotIn)
        for part in ast.walk(body)
    )
    return looks or not calls_on(body, test.id, PUTS)


def is_endless(iterator: ast.expr) -> bool:
    if not isinstance(iterator, ast.Call):
        return False
    function = iterator.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    arguments = len(iterator.args) + len(iterator.keywords)
    if name == "enumerate" and iterator.args:
        return is_endless(iterator.args[0])
    return (
        name in {"count", "cycle"}
        or (name == "repeat" and arguments == 1)
        or (name == "iter" and arguments == 2)
    )


def unbounded(source: str, path: str) -> list[tuple[str, str, int]]:
    """(path, function, line) of every loop without a visible bound."""
    if not SUSPICIOUS.search(source):
        return []
    nodes = list(ast.walk(ast.parse(source, path)))
    owner: dict[ast.AST, str] = {}
    found = []
    for node in nodes:
        if isinstance(node, ast.While):
            bad = not has_deadline(node) and not drains_a_list(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            bad = is_endless(node.iter)
        else:
            continue
        if bad and not owner:
            for function in nodes:  # inner functions come later and so win
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    owner.update(dict.fromkeys(ast.walk(function), function.name))
        if bad:
            line = getattr(node, "lineno", 0) or node.target.lineno  # a comprehension has none
            found.append((path, owner.get(node, "<module>"), line))
    return found


def test_every_loop_is_bounded_or_listed() -> None:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    check(len(files) > 40, f"only {len(files)} files were found")
    used, bad = set(), []
    for path in files:
        shown = path.relative_to(ROOT).as_posix()
        for place in unbounded(path.read_text(), shown):
            if place[:2] in ALLOWED:
                used.add(place[:2])
            else:
                bad.append(f"{place[0]}:{place[2]} in {place[1]}")
    check(not bad, "loops without a visible bound: " + ", ".join(bad))
    check(used == set(ALLOWED), f"no longer needed: {set(ALLOWED) - used}")
    check(len(ALLOWED) <= MOST_ALLOWED and all(ALLOWED.values()))


@pytest.mark.parametrize(
    "source",
    [
        "while True: work()",
        "while clock() < limit: work()",
        "while not done(deadline_s): work()",
        "while stack: work(stack)",
        "while stack:\n work()\n stack.pop()",
        "while stack or more:\n stack.pop()",
        "while stack:\n x = stack.pop()\n stack.append(x)",
        "while stack:\n if x: stack.pop()",
        "while queue:\n x = other.pop()",
        "for i in itertools.count(): work()",
        "for i in repeat(1): work()",
        "for line in iter(read, b''): work()",
        "for i, x in enumerate(cycle(y)): work()",
        "z = [x for x in count()]",
    ],
)
def test_the_rule_sees_unbounded_loops(source: str) -> None:
    check(unbounded(f"def f():\n {source.replace(chr(10), chr(10) + ' ')}\n", "x.py"), source)


@pytest.mark.parametrize(
    "source",
    [
        "while clock() < deadline_s: work()",
        "while (left_s := self.deadline_s - clock()) > 0: work()",
        "while stack:\n x = stack.pop()",
        "while lines and not lines[-1]:\n lines.pop()",
        "while stack:\n x = stack.pop()\n if x not in seen: stack.extend(x.src)",
        "for i in range(10): work()",
        "for i, x in enumerate(items): work()",
        "for x in repeat(1, 5): work()",
        "z = [x for x in items]",
    ],
)
def test_the_rule_accepts_bounded_loops(source: str) -> None:
    check(not unbounded(source, "x.py"), source)
