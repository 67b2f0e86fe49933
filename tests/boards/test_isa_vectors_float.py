"""Float vector instructions on >= 20,000 operands against exact integers rounded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.boards import isa_exact as exact
from tests.boards.isa_vectors import (
    PLAIN_MODE,
    known,
    random_bits,
    random_floats,
    vector,
)

_FORMS = {"f16": (exact.F16, np.float16), "f32": (exact.F32, np.float32),
          "f64": (exact.F64, np.float64)}  # fmt: skip
_ROUND_LOW = {"f16": 2, "f32": 0, "f64": 2}
_DENORM_LOW = {"f16": 6, "f32": 4, "f64": 6}
_MODES = {"nearest": 0, "up": 1, "down": 2, "zero": 3}
_Function = Callable[..., exact.Number]
_ARITHMETIC: dict[str, tuple[int, _Function]] = {
    "add": (2, exact.add),
    "sub": (2, lambda a, b, mode=0: exact.add(a, exact.negate(b), mode)),
    "subrev": (2, lambda a, b, mode=0: exact.add(b, exact.negate(a), mode)),
    "mul": (2, lambda a, b, mode=0: exact.multiply(a, b)),
    "fma": (3, exact.fused),
    "fmac": (3, exact.fused),
}
_KINDS = tuple(_FORMS)


def _cases(names: Iterable[str], kinds: Iterable[str] = _KINDS) -> Any:
    """Each operation of each type that some family has."""
    wanted = [(name, kind) for name, kind in product(names, kinds) if known([spelled(name, kind)])]
    return pytest.mark.parametrize(("name", "kind"), wanted)


def spelled(name: str, kind: str) -> tuple[str, str]:
    """What the families call an operation."""
    return f"v_{name}_{kind}", f"v_{name}_num_{kind}"


def same_floats(found: Any, expected: Any) -> None:
    """Equal bit for bit, except that any NaN is as good as another."""
    found_bits, bits = (np.asarray(v).view(f"u{v.itemsize}") for v in (found, expected))
    alike = (found_bits == bits) | (np.isnan(found) & np.isnan(expected))
    if not alike.all():
        at = int(np.argmin(alike))
        raise AssertionError(
            f"{int((~alike).sum())} of {len(alike)} differ; number {at}: {found[at]!r} "
            f"({int(found_bits[at]):#x}), not {expected[at]!r} ({int(bits[at]):#x})"
        )


def _sources(count: int, kind: str) -> list[Any]:
    return [random_floats(seed + 10 * count, _FORMS[kind][1]) for seed in range(count)]


def _nearly_cancelling(a: Any, b: Any, c: Any, form: exact.Format) -> Any:
    """c with every fourth element near -a * b, a few last places off."""
    pairs = zip(exact.numbers(a[::4], form), exact.numbers(b[::4], form), strict=True)
    near = [exact.encode(exact.negate(exact.multiply(x, y)), form) for x, y in pairs]
    c = c.copy()
    raw = c.view(f"u{c.itemsize}")
    raw[::4] = np.array(near, raw.dtype) ^ (raw[::4] & raw.dtype.type(3))
    return c


@pytest.mark.parametrize("mode", _MODES)
@_cases(_ARITHMETIC)
def test_arithmetic_is_exact_and_rounded_once(name: str, kind: str, mode: str) -> None:
    count, function = _ARITHMETIC[name]
    form, dtype = _FORMS[kind]
    sources = _sources(count, kind)
    if count == 3:
        sources[2] = _nearly_cancelling(*sources, form)
    rounding = _MODES[mode]
    bits = rounding << _ROUND_LOW[kind]
    slow = kind == "f64" and rounding != exact.NEAREST  # the executor turns to rationals
    only = ("gfx1100",) if slow and name != "fmac" else ()
    found = vector(spelled(name, kind), sources, dtype, mode=PLAIN_MODE | bits, only=only)
    values = [exact.numbers(s, form) for s in sources]
    expected = exact.rounded(lambda *v: function(*v, rounding), values, form, rounding)
    same_floats(found, expected.view(dtype))


@pytest.mark.parametrize("flush", ["inputs", "results", "both"])
@_cases(["add", "mul", "fma"])
def test_denormals_follow_the_mode(name: str, kind: str, flush: str) -> None:
    count, function = _ARITHMETIC[name]
    form, dtype = _FORMS[kind]
    sources = [_small(s, form) for s in _sources(count, kind)]
    off = {"inputs": 1, "results": 2, "both": 3}[flush] << _DENORM_LOW[kind]
    found = vector(spelled(name, kind), sources, dtype, mode=PLAIN_MODE & ~off)
    values = [exact.numbers(s, form, flush=flush != "results") for s in sources]
    expected = exact.rounded(function, values, form, flush=flush != "inputs").view(dtype)
    same_floats(found, expected)


def _small(values: Any, form: exact.Format) -> Any:
    """The same values, half of them with exponents near the bottom of the range."""
    values = values.copy()
    raw = values.view(f"u{values.itemsize}")
    keep = raw.dtype.type((1 << form.fraction) - 1 | 1 << (form.bits - 1))
    low = (raw[::2] >> raw.dtype.type(form.fraction) & raw.dtype.type(3)) << raw.dtype.type(
        form.fraction
    )
    raw[::2] = raw[::2] & keep | low
    return values


def _order(values: Any) -> Any:
    """Integers in the order of the floats, -0 below +0."""
    raw = values.view(f"i{values.itemsize}").astype(np.int64)
    low = np.int64(-(1 << (8 * values.itemsize - 1)))
    return np.where(raw < 0, low - raw - 1, raw)


def _pick(values: list[Any], *, largest: bool) -> Any:
    """The least or greatest number; NaNs are left out while there is a number."""
    answer = values[0]
    for value in values[1:]:
        less = _order(value) < _order(answer)
        take = np.where(np.isnan(answer), True, ~np.isnan(value) & (less != largest))
        answer = np.where(take, value, answer)
    return answer


def _quiet(values: list[Any]) -> list[Any]:
    """Signalling NaNs made quiet: what becomes of them is another rule."""
    return [np.where(np.isnan(v), v.dtype.type(np.nan), v) for v in values]


def _minmax() -> dict[str, tuple[int, Callable[..., Any]]]:
    def low(*v: Any) -> Any:
        return _pick(list(v), largest=False)

    def high(*v: Any) -> Any:
        return _pick(list(v), largest=True)

    def middle(a: Any, b: Any, c: Any) -> Any:
        order = np.sort(np.stack([_order(v) for v in (a, b, c)]), axis=0)[1]
        answer = np.select([order == _order(v) for v in (a, b, c)], [a, b, c])
        missing = np.isnan(a) | np.isnan(b) | np.isnan(c)
        return np.where(missing, low(a, b, c), answer)

    return {
        "min": (2, low), "max": (2, high), "min3": (3, low), "max3": (3, high),
        "med3": (3, middle), "minmax": (3, lambda a, b, c: high(low(a, b), c)),
        "maxmin": (3, lambda a, b, c: low(high(a, b), c)),
    }  # fmt: skip


_MINMAX = _minmax()


@_cases(_MINMAX)
def test_least_and_greatest(name: str, kind: str) -> None:
    count, function = _MINMAX[name]
    dtype = _FORMS[kind][1]
    sources = _quiet(_sources(count, kind))
    sources[1][::5] = sources[0][::5]
    sources[1][1::5] = -sources[0][1::5]
    found = vector(spelled(name, kind), sources, dtype)
    same_floats(found, function(*sources).astype(dtype))


_TRUE_WHEN: dict[str, Callable[[Any, Any], bool]] = {
    "f": lambda a, b: False, "lt": lambda a, b: a < b, "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "lg": lambda a, b: a != b,
    "ge": lambda a, b: a >= b, "o": lambda a, b: True,
}  # fmt: skip
"""Of two numbers; all are false when one is a NaN."""
_OPPOSITE = {"t": "f", "nlt": "lt", "neq": "eq", "nle": "le", "ngt": "gt", "nlg": "lg",
             "nge": "ge", "u": "o"}  # fmt: skip


def _holds(condition: str, a: int, b: int, ordered: bool) -> bool:
    plain = _OPPOSITE.get(condition, condition)
    return (ordered and _TRUE_WHEN[plain](a, b)) != (condition in _OPPOSITE)


def _rank(word: int, form: exact.Format) -> int:
    """An integer in the order of the floats, both zeros alike."""
    size = word & (1 << form.bits - 1) - 1
    return -size if word >> (form.bits - 1) else size


@_cases(["cmp_lt"])
def test_compares_in_every_condition(name: str, kind: str) -> None:
    a, b = _sources(2, kind)
    b[::3] = a[::3]
    b[1::6] = -a[1::6]
    ranks = [_rank(word, _FORMS[kind][0]) for word in exact.words(a)]
    others = [_rank(word, _FORMS[kind][0]) for word in exact.words(b)]
    ordered = (~(np.isnan(a) | np.isnan(b))).tolist()
    for condition in (*_TRUE_WHEN, *_OPPOSITE):
        compare = spelled(name.replace("lt", condition), kind)
        if compare:
            rows = zip(ranks, others, ordered, strict=True)
            expected = [_holds(condition, x, y, o) for x, y, o in rows]
            np.testing.assert_array_equal(vector(compare, [a, b], "m"), expected, compare)


@_cases(["cmp_class"])
def test_classes(name: str, kind: str) -> None:
    form, dtype = _FORMS[kind]
    a = random_floats(5, dtype)
    mask = random_bits(6) & np.uint32(0x3FF)

    def number(word: int) -> int:
        value = exact.number(word, form)
        if value.special == "nan":
            return word >> (form.fraction - 1) & 1
        if value.special:
            rank = 0
        elif value.size >> form.fraction:
            rank = 1
        else:
            rank = 2 if value.size else 3
        return 2 + rank if value.sign else 9 - rank

    expected = [m >> number(w) & 1 for m, w in zip(mask.tolist(), exact.words(a), strict=True)]
    found = vector(spelled(name, kind), [a, mask], "m")
    np.testing.assert_array_equal(found, np.array(expected, bool))


def _clamped(value: exact.Number) -> exact.Number:
    """What the clamp modifier leaves: 0..1, and 0 for NaN where DX10_CLAMP is on."""
    if value.special == "nan" or value.sign:
        return exact.Number(0, 0, 0)
    one = value.special or (value.size and value.size.bit_length() + value.power > 0)
    return exact.Number(0, 1, 0) if one else value


@_cases(["fma"])
def test_clamp(name: str, kind: str) -> None:
    form, dtype = _FORMS[kind]
    sources = _sources(3, kind)
    found = vector(spelled(name, kind), sources, dtype, clamp=1)
    values = [exact.numbers(s, form) for s in sources]
    raw = exact.rounded(exact.fused, values, form).tolist()
    expected = [exact.encode(_clamped(exact.number(word, form)), form) for word in raw]
    same_floats(found, np.array(expected, f"u{form.bits // 8}").view(dtype))


_OMOD = {1: 1, 2: 2, 3: -1}
_IEEE = 1 << 9


@pytest.mark.parametrize("omod", _OMOD)
@_cases(["mul"], ["f16", "f32"])
def test_output_modifiers_need_denormals_off(name: str, kind: str, omod: int) -> None:
    # src: RDNA2 ISA 6.2.2 and later: ignored where output denormals or IEEE are on; -0 becomes +0.
    form, dtype = _FORMS[kind]
    sources = _sources(2, kind)
    values = [exact.numbers(s, form) for s in sources]
    plain = exact.rounded(exact.multiply, values, form).view(dtype)
    instruction = spelled(name, kind)
    same_floats(vector(instruction, sources, dtype, omod=omod), plain)
    off = PLAIN_MODE & ~(3 << _DENORM_LOW[kind])
    values = [exact.numbers(s, form, flush=True) for s in sources]
    rounded = exact.rounded(exact.multiply, values, form, flush=True).tolist()
    same_floats(
        vector(instruction, sources, dtype, mode=off | _IEEE, omod=omod),
        np.array(rounded, f"u{form.bits // 8}").view(dtype),
    )
    scaled = [exact.scale(exact.number(word, form), _OMOD[omod]) for word in rounded]
    words = [exact.encode(v, form, flush=True) for v in scaled]
    words = [0 if word << 1 == 1 << form.bits else word for word in words]
    found = vector(instruction, sources, dtype, mode=off, omod=omod)
    same_floats(found, np.array(words, f"u{form.bits // 8}").view(dtype))


@_cases(["fma"], ["f32"])
def test_signs_of_sources(name: str, kind: str) -> None:
    a, b, c = _sources(3, kind)
    for neg, absolute in ((1, 0), (2, 4), (7, 7), (5, 3)):
        signed = []
        for i, source in enumerate((a, b, c)):
            raw = source.view(np.uint32)
            raw = raw & np.uint32(0x7FFFFFFF) if absolute >> i & 1 else raw
            signed.append(exact.numbers(raw ^ np.uint32((neg >> i & 1) << 31), exact.F32))
        expected = exact.rounded(exact.fused, signed, exact.F32).view(np.float32)
        found = vector(spelled(name, kind), [a, b, c], np.float32, neg=neg, abs=absolute)
        same_floats(found, expected)
