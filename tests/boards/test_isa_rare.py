"""Instructions that compilers seldom emit, against Python integers and published constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from boards.amd.isa.decode import VGPR, Family, Instruction, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.rare_ops import two_over_pi
from boards.amd.wave.execute import bind
from boards.amd.wave.state import EXEC, Waves
from boards.amd.wave.strict import Observer
from boards.amd.wave.types import Report, Strict
from tests.support import check

_LANES, _M32, _M64 = 32, (1 << 32) - 1, (1 << 64) - 1
_CPUS = ("gfx1030", "gfx1100")


def _find(family: Family, name: str, **fields: int) -> Instruction:
    """The decoded instruction of a meaning, from field values."""
    for layout in family.layouts:
        for opcode, entry in layout.entries.items():
            if family.meanings.get(entry.name, entry.name) == name and layout.name != "VOP3":
                word = layout.value | opcode << layout.opcode[0]
                for field, value in fields.items():
                    word |= value << layout.fields[field][0]
                return decode(family, [word & _M32, word >> 32, 0, 0], 0)
    raise KeyError(name)


def _waves(family: Family, count: int = 1) -> Waves:
    w = Waves(count, _LANES, 64, 256, count, family.null)
    w.sgpr[EXEC] = np.uint32(_M32)
    w.set_mode(np.full(count, 0xF0, np.uint32))
    w.select(np.arange(count))
    return w


def _run(w: Waves, inst: Instruction) -> None:
    run = bind(inst)
    if run is None:
        raise AssertionError(f"{inst.name} has no meaning")
    run(w)


def _numbers(bits: int) -> Iterator[int]:
    rng = np.random.default_rng(bits)
    yield from (0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1)
    yield from (int(v) for v in rng.integers(0, 1 << bits, 40, np.uint64))


def _any_of_quad(value: int, bits: int, repeat: int) -> int:
    quads = [bool(value >> i & 15) for i in range(0, bits, 4)]
    return sum((((1 << repeat) - 1) << repeat * i) for i, on in enumerate(quads) if on)


def _first_zero(value: int, bits: int) -> int:
    return next((i for i in range(bits) if not value >> i & 1), -1) & _M32


def _signs(value: int) -> int:
    top = value >> 63
    return next((63 - i for i in range(63, -1, -1) if value >> i & 1 != top), -1) & _M32


_SCALARS: list[tuple[str, int, int, Callable[[int], int]]] = [
    ("s_wqm_b32", 32, 32, lambda v: _any_of_quad(v, 32, 4)),
    ("s_wqm_b64", 64, 64, lambda v: _any_of_quad(v, 64, 4)),
    ("s_quadmask_b32", 32, 32, lambda v: _any_of_quad(v, 32, 1)),
    ("s_quadmask_b64", 64, 64, lambda v: _any_of_quad(v, 64, 1)),
    ("s_bitreplicate_b64_b32", 32, 64, lambda v: sum(3 << 2 * i for i in range(32) if v >> i & 1)),
    ("s_cls_i32_i64", 64, 32, _signs),
    ("s_ff0_i32_b32", 32, 32, lambda v: _first_zero(v, 32)),
    ("s_ff0_i32_b64", 64, 32, lambda v: _first_zero(v, 64)),
]


@pytest.mark.parametrize(("name", "bits", "result_bits", "expected"), _SCALARS)
def test_scalar_bit_operations(
    name: str, bits: int, result_bits: int, expected: Callable[[int], int]
) -> None:
    family = FAMILIES["gfx1030"]
    inst = _find(family, name, d=20, a=10)
    for value in _numbers(bits):
        w = _waves(family)
        w.sgpr[10], w.sgpr[11] = value & _M32, value >> 32
        _run(w, inst)
        found = int(w.sgpr[20][0]) | (int(w.sgpr[21][0]) << 32 if result_bits == 64 else 0)
        check(found == expected(value), f"{name} {value:#x}: {found:#x}")


# src: the first 24-bit digits of 2/pi in the table of fdlibm's __ieee754_rem_pio2.
_DIGITS = (
    0xA2F983, 0x6E4E44, 0x1529FC, 0x2757D1, 0xF534DD, 0xC0DB62, 0x95993C, 0x439041, 0xFE5163,
    0xABDEBB, 0xC561B7, 0x246E3A, 0x424DD2, 0xE00649, 0x2EEA09, 0xD1921C, 0xFE1DEB, 0x1CB129,
)  # fmt: skip


def test_the_bits_of_two_over_pi_are_the_published_ones() -> None:
    found = [two_over_pi() >> (1201 - 24 * (i + 1)) & 0xFFFFFF for i in range(len(_DIGITS))]
    check(found == list(_DIGITS), str([hex(v) for v in found]))


def test_trig_preop_gives_consecutive_parts_of_two_over_pi() -> None:
    family = FAMILIES["gfx1030"]
    layout = next(x for x in family.layouts if x.name == "VOP3")
    opcode = next(o for o, e in layout.entries.items() if e.name == "v_trig_preop_f64")
    word = layout.value | opcode << 16 | 4 | (VGPR + 8) << 32 | (VGPR + 10) << 41
    w = _waves(family)
    parts = np.arange(_LANES) % 3
    value = np.float64(1e5).view(np.uint64)
    w.vgpr[8], w.vgpr[9], w.vgpr[10] = int(value) & _M32, int(value) >> 32, parts
    _run(w, decode(family, [word & _M32, word >> 32, 0, 0], 0))
    pairs = np.stack([w.vgpr[4][0], w.vgpr[5][0]], axis=-1)
    found = np.ascontiguousarray(pairs).view(np.float64)[:, 0]
    total = sum(Fraction(float(v)) for v in found[:3])
    digits = sum(Fraction(d, 1 << 24 * (i + 1)) for i, d in enumerate(_DIGITS))
    check(abs(total - digits) < Fraction(1, 1 << 158), f"off by {float(total - digits)}")


@pytest.mark.parametrize("cpu", _CPUS)
def test_registers_are_indexed_through_m0(cpu: str) -> None:
    family = FAMILIES[cpu]
    far = np.array([0, 3, 7], np.uint32)
    for name, fields in (("v_movrels_b32", {"d": 2, "a": VGPR + 10}),
                         ("v_movreld_b32", {"d": 10, "a": VGPR + 2})):  # fmt: skip
        w = _waves(family, 3)
        w.observer = Observer(w, Strict(), report := Report(), family)
        w.observer.define((2, *range(10, 18)), (family.m0,))
        w.sgpr[family.m0] = far
        for register in range(2, 20):
            w.vgpr[register] = 100 * register + np.arange(_LANES)
        _run(w, _find(family, name, **fields))
        for wave, n in enumerate(far.tolist()):
            target, source = (2, 10 + n) if "movrels" in name else (10 + n, 2)
            np.testing.assert_array_equal(w.vgpr[target][wave], 100 * source + np.arange(_LANES))
        check(not report.violations, str(report.violations))


def test_an_undefined_register_behind_m0_is_reported() -> None:
    family = FAMILIES["gfx1030"]
    w = _waves(family)
    w.observer = Observer(w, Strict(), report := Report(), family)
    w.observer.define((10,), ())
    w.sgpr[family.m0] = 5
    _run(w, _find(family, "v_movrels_b32", d=2, a=VGPR + 10))
    check([f.what for f in report.violations] == ["v15"], str(report.violations))


@pytest.mark.parametrize("cpu", _CPUS)
@pytest.mark.parametrize("bits", [32, 64])
def test_scalar_registers_are_indexed_through_m0(cpu: str, bits: int) -> None:
    family = FAMILIES[cpu]
    for name, read, write in ((f"s_movrels_b{bits}", 36, 20), (f"s_movreld_b{bits}", 30, 26)):
        w = _waves(family)
        w.sgpr[family.m0] = 6
        w.sgpr[20:50, 0] = np.arange(20, 50)
        _run(w, _find(family, name, d=20, a=30))
        found = [int(w.sgpr[write + i][0]) for i in range(bits // 32)]
        check(found == [read + i for i in range(bits // 32)], f"{name}: {found}")


def test_operand_order_of_the_older_compare_and_store() -> None:
    family = FAMILIES["gfx1030"]
    w = _waves(family)
    w.lds[:64] = np.arange(64)
    lane = np.arange(_LANES)
    w.vgpr[1], w.vgpr[2], w.vgpr[3] = 4 * lane, np.where(lane % 2, lane, 99), 1000 + lane
    _run(w, _find(family, "ds_cmpst_rtn_b32", a=1, x=2, y=3, d=4))
    np.testing.assert_array_equal(w.lds[:_LANES], np.where(lane % 2, 1000 + lane, lane))
    np.testing.assert_array_equal(w.vgpr[4][0], lane)


def test_masked_or_wrap_and_double_exchange_in_lds() -> None:
    family = FAMILIES["gfx1030"]
    lane = np.arange(_LANES)
    for name, expected in (
        ("ds_mskor_rtn_b32", lambda m, x, y: (m & ~x) | y),
        ("ds_wrap_rtn_b32", lambda m, x, y: np.where(m >= x, m - x, m + y)),
    ):
        w = _waves(family)
        w.lds[:64] = np.arange(64)
        w.vgpr[1], w.vgpr[2], w.vgpr[3] = 4 * lane, 12, 3
        _run(w, _find(family, name, a=1, x=2, y=3, d=4))
        np.testing.assert_array_equal(w.lds[:_LANES], expected(lane, 12, 3))
    w = _waves(family)
    w.lds[:64] = np.arange(64)
    w.vgpr[1], w.vgpr[2], w.vgpr[3] = 4 * lane, 500 + lane, 700 + lane
    _run(w, _find(family, "ds_storexchg_2addr_rtn_b32", a=1, x=2, y=3, d=4, offset1=_LANES))
    np.testing.assert_array_equal(w.lds[:64], [*(500 + lane), *(700 + lane)])
    np.testing.assert_array_equal(w.vgpr[4:6, 0], [lane, 32 + lane])
