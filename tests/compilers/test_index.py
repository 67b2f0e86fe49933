"""Index arithmetic against Python's integers."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compilers import index as ix
from compilers.index import Div, Index, Mod, Var
from compilers.plan.algorithm import reindex
from compilers.render.facts import unit_of
from tests.support import check

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def evaluate(index: Index, env: dict[Var, int]) -> int:
    total = index.const
    for atom, k in index.terms.items():
        if isinstance(atom, Var):
            total += k * env[atom]
        elif isinstance(atom, Div):
            total += k * (evaluate(atom.index, env) // atom.divisor)
        elif isinstance(atom, Mod):
            total += k * (evaluate(atom.index, env) % atom.divisor)
    return total


def points(axes: list[Var]) -> list[dict[Var, int]]:
    ranges = [range(axis.extent) for axis in axes]
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*ranges)]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(-7, 7)), min_size=1, max_size=3),
    st.integers(-20, 20),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_division_and_remainder(parts, const, divisor, second):
    axes = [Var(f"v{n}", extent) for n, (extent, _) in enumerate(parts)]
    index = ix.const(const)
    for axis, (_, k) in zip(axes, parts, strict=True):
        index += ix.var(axis) * k
    quotient, remainder = index // divisor, index % divisor
    twice = quotient // second
    for env in points(axes):
        value = evaluate(index, env)
        check(evaluate(quotient, env) == value // divisor)
        check(evaluate(remainder, env) == value % divisor)
        check(evaluate(twice, env) == value // divisor // second)
        for each in (index, quotient, remainder, twice):
            check(each.low <= evaluate(each, env) <= each.high, f"{each} leaves its bounds")


@given(SHAPES)
def test_unflatten_of_flatten_is_the_identity(shape):
    axes = [Var(f"v{n}", extent) for n, extent in enumerate(shape)]
    idx = tuple(ix.var(axis) for axis in axes)
    check(ix.unflatten(ix.flatten(idx, shape), shape) == idx, "no division may be left")


@given(SHAPES, st.randoms())
def test_reindex_is_numpys_reshape(shape, random):
    factors = list(shape)
    random.shuffle(factors)
    cut = random.randint(0, len(factors))
    target = (prod(factors[:cut]), *factors[cut:])
    axes = [Var(f"v{n}", extent) for n, extent in enumerate(shape)]
    back = reindex(tuple(map(ix.var, axes)), shape, target)
    expected = np.arange(prod(shape)).reshape(shape)
    source = np.arange(prod(shape)).reshape(target)
    for env in points(axes):
        at = tuple(env[axis] for axis in axes)
        check(source[tuple(evaluate(i, env) for i in back)] == expected[at])


def test_matching_axes_pass_a_reshape_unchanged():
    i, j, k = (Var(name, extent) for name, extent in zip("ijk", (4, 6, 5), strict=True))
    idx = (ix.var(i), ix.var(j), ix.var(k))
    check(reindex(idx, (4, 6, 5), (4, 1, 6, 5)) == (idx[0], ix.const(0), idx[1], idx[2]))
    merged = reindex(idx, (4, 6, 5), (24, 5))
    check(merged == (ix.var(i) * 6 + ix.var(j), ix.var(k)))


def test_substitution_simplifies_again():
    v, high, low = Var("v", 12), Var("h", 3), Var("l", 4)
    index = (ix.var(v) + 1) // 4
    check(any(isinstance(atom, Div) for atom in index.terms))
    split = (ix.var(v) // 4).substitute({v: ix.var(high) * 4 + ix.var(low)})
    check(split == ix.var(high), f"{split}")


STEPS = st.lists(
    st.tuples(st.sampled_from(("mul", "add", "div", "mod", "more")), st.integers(1, 12)),
    max_size=6,
)


@given(STEPS)
def test_every_value_is_a_multiple_of_the_unit(steps: list[tuple[str, int]]) -> None:
    variables = (Var("i", 7), Var("j", 5))
    index = ix.var(variables[0]) * 4
    for step, number in steps:
        if step == "mul":
            index = index * number
        elif step == "add":
            index = index + number
        elif step == "more":
            index = index + ix.var(variables[1]) * number
        else:
            index = index // number if step == "div" else index % number
    unit = unit_of(index)
    for i, j in itertools.product(range(7), range(5)):
        value = evaluate(index, dict(zip(variables, (i, j), strict=True)))
        check(value % unit == 0 if unit else value == 0, f"{index}: {value} and {unit}")


def test_units_of_what_a_tile_is_read_by() -> None:
    lane = ix.var(Var("lane", 256))
    at = (lane // 16) * 4096 + (lane % 16) * 8
    found = [unit_of(index) for index in (at, at % 64, at + 4, at + lane, ix.const(0))]
    check(found == [8, 8, 4, 1, 0], f"{found}")
