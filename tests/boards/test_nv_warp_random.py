"""200 kernels of random expressions, loops and branches: SASS equals numpy, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.boards.nv_warp_harness import compiled, run
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
LANES, GROUPS, EACH, DEPTH = 96, 8, 25, 4
Values = dict[str, Any]


class Expression:
    """A random expression of 32-bit words: as C, and as numpy computes it."""

    def __init__(self, rng: random.Random, depth: int, names: str) -> None:
        self.operation = rng.choice("+-*&|^<>?ms") if depth else rng.choice("nc")
        self.name, self.number = (
            rng.choice(names),
            rng.choice((rng.getrandbits(32), rng.randrange(9))),
        )
        count = {"?": 4, "n": 0, "c": 0}.get(self.operation, 2)
        self.parts = [Expression(rng, depth - 1, names) for _ in range(count)]

    def text(self) -> str:
        """As C has it."""
        parts = [part.text() for part in self.parts]
        match self.operation:
            case "n":
                return self.name
            case "c":
                return f"{self.number}u"
            case "<":
                return f"({parts[0]} << ({parts[1]} & 31))"
            case ">":
                return f"({parts[0]} >> ({parts[1]} & 31))"
            case "?":
                return f"({parts[0]} < {parts[1]} ? {parts[2]} : {parts[3]})"
            case "m":
                return f"min({parts[0]}, {parts[1]})"
            case "s":
                return f"(unsigned)((int){parts[0]} >> ({parts[1]} & 31))"
        return f"({parts[0]} {self.operation} {parts[1]})"

    def value(self, values: Values) -> Any:
        """As numpy has it."""
        if self.operation == "n":
            return values[self.name]
        if self.operation == "c":
            return np.full(LANES, self.number, np.uint32)
        parts = [part.value(values) for part in self.parts]
        one, two = parts[:2]
        by = two & np.uint32(31)
        match self.operation:
            case "+":
                return one + two
            case "-":
                return one - two
            case "*":
                return one * two
            case "&":
                return one & two
            case "|":
                return one | two
            case "^":
                return one ^ two
            case "<":
                return one << by
            case ">":
                return one >> by
            case "?":
                return np.where(one < two, parts[2], parts[3])
            case "m":
                return np.minimum(one, two)
        return (one.view(np.int32) >> by.view(np.int32)).view(np.uint32)


def kernel_of(rng: random.Random) -> tuple[str, list[Expression]]:
    """x and y change in a loop whose length differs by lane, under a branch."""
    parts = [Expression(rng, DEPTH, "abxy") for _ in range(4)]
    test, first, second, last = (part.text() for part in parts)
    body = f"if ({test} & 1u) x = {first}; else y = {second};"
    source = (
        'extern "C" __global__ void f(unsigned *o, const unsigned *p, const unsigned *q) {'
        " int i = threadIdx.x; unsigned a = p[i], b = q[i], x = a, y = b;"
        f" for (unsigned k = 0; k <= (p[i] & 3u); k++) {{ {body} }} o[i] = {last}; }}"
    )
    return source, parts


def expected_of(parts: list[Expression], a: Any, b: Any) -> Any:
    values = {"a": a, "b": b, "x": a.copy(), "y": b.copy()}
    test, first, second, last = parts
    for turn in range(4):
        runs = turn <= (a & 3)
        odd = test.value(values) & 1 == 1
        one, two = first.value(values), second.value(values)
        values["x"] = np.where(runs & odd, one, values["x"])
        values["y"] = np.where(runs & ~odd, two, values["y"])
    return last.value(values)


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_kernels(group: int) -> None:
    rng = random.Random(group)
    for number in range(EACH):
        source, parts = kernel_of(rng)
        a, b = (np.array([rng.getrandbits(32) for _ in range(LANES)], np.uint32) for _ in range(2))
        out = np.zeros(LANES, np.uint32)
        buffers, found = run(compiled(source), (out, a, b), (1, 1, 1), (LANES, 1, 1))
        check(not found, f"{number}: {found[:3]} {source}")
        np.testing.assert_array_equal(buffers[0], expected_of(parts, a, b), err_msg=source)
