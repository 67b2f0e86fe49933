"""What only gfx12 has: WMMA of its layout, eight-bit and scalar floats, split barriers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.gfx12 import GFX12
from boards.amd.isa.text import disassemble
from boards.amd.wave.execute import bind, execute
from boards.amd.wave.state import EXEC, Waves
from boards.amd.wave.types import LENIENT, Dispatch, Report, Strict, WaveFault
from tests.boards import isa_gfx12 as kernels
from tests.boards import isa_programs as programs
from tests.boards.wave_harness import FlatMemory, Loaded, compile_object, launch
from tests.support import check

_CPU, _WAVE64 = "gfx1201", "-wavefrontsize32,+wavefrontsize64"
_CODE_VA, _NOP, _END = 0x10000, 0xBF800000, 0xBFB00000
_SIGNAL, _WAIT, _LOADCNT_DSCNT = 0xBE804EC1, 0xBF94FFFF, 0xBFC8


def _clean(report: Report) -> None:
    check(not report.violations, "\n".join(map(str, report.violations)))


def _row(lane: int, element: int) -> int:
    """The row (of C) or the column of A that a lane holds as one of its elements."""
    return 8 * (lane // 16 % 2) + 4 * (lane // 32) + element


def _held(matrix: np.ndarray, lanes: int) -> np.ndarray:
    """A 16x16 accumulator as lanes hold it: (lanes, 256 / lanes)."""
    count = 256 // lanes
    return np.array([[matrix[_row(n, i), n % 16] for i in range(count)] for n in range(lanes)])


def _factor(matrix: np.ndarray, lanes: int) -> np.ndarray:
    """A (or B transposed), rows of 16, as lanes hold it: (lanes, 256 / lanes)."""
    count = 256 // lanes
    return np.array([[matrix[n % 16, _row(n, i)] for i in range(count)] for n in range(lanes)])


def _float8(code: int, exponent_bits: int, mantissa_bits: int, bias: int) -> float:
    """OCP's definition of an eight-bit float without its special codes."""
    sign = -1 if code >> 7 else 1
    exponent = code >> mantissa_bits & (1 << exponent_bits) - 1
    fraction = Fraction(code & (1 << mantissa_bits) - 1, 1 << mantissa_bits)
    value = fraction * Fraction(2) ** (1 - bias)
    if exponent:
        value = (1 + fraction) * Fraction(2) ** (exponent - bias)
    return float(sign * value)


_FP8 = np.array([_float8(code, 4, 3, 7) for code in range(256)])
_FP8[[0x7F, 0xFF]] = np.nan
_BF8 = np.array([_float8(code, 5, 2, 15) for code in range(256)])
_BF8[[0x7C, 0xFC]] = np.inf, -np.inf
_BF8[[0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF]] = np.nan


def _operands(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two 16x16 factors as stored, and their values."""
    rng = np.random.default_rng(len(kind))
    if kind == "f16":
        raw = rng.standard_normal((2, 16, 16)).astype(np.float16)
        return raw[0], raw[1], raw[0].astype(np.float64), raw[1].astype(np.float64)
    if kind == "bf16":
        wide = rng.standard_normal((2, 16, 16)).astype(np.float32).view(np.uint32) & 0xFFFF0000
        values = wide.view(np.float32).astype(np.float64)
        raw = (wide >> 16).astype(np.uint16)
        return raw[0], raw[1], values[0], values[1]
    if kind == "iu8":
        raw = rng.integers(-128, 128, (2, 16, 16)).astype(np.int8)
        return raw[0], raw[1], raw[0].astype(np.float64), raw[1].astype(np.float64)
    tables = [_FP8 if name == "fp8" else _BF8 for name in kind.split("_")]
    codes = rng.integers(0, 0x70, (2, 16, 16)).astype(np.uint8)
    return codes[0], codes[1], tables[0][codes[0]], tables[1][codes[1]]


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("kind", ["f16", "bf16", "fp8_fp8", "fp8_bf8", "bf8_fp8"])
def test_wmma_of_floats(kind: str, lanes: int) -> None:
    a, bt, x, y = _operands(kind)
    c = np.random.default_rng(3).standard_normal((16, 16)).astype(np.float32)
    memory = np.ascontiguousarray(_held(c, lanes))
    arrays = [np.ascontiguousarray(_factor(m, lanes)) for m in (a, bt)]
    features = _WAVE64 if lanes == 64 else ""
    ir = kernels.wmma("f32", kind, lanes)
    _clean(launch(ir, [*arrays, memory], workgroup=(lanes, 1, 1), cpu=_CPU, features=features))
    expected = _held(x @ y.T + c, lanes)
    np.testing.assert_allclose(memory, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("lanes", [32, 64])
def test_wmma_of_bytes(lanes: int) -> None:
    a, bt, x, y = _operands("iu8")
    c = np.random.default_rng(4).integers(-1000, 1000, (16, 16)).astype(np.int32)
    memory = np.ascontiguousarray(_held(c, lanes))
    arrays = [np.ascontiguousarray(_factor(m, lanes)) for m in (a, bt)]
    features = _WAVE64 if lanes == 64 else ""
    ir = kernels.wmma("i32", "iu8", lanes)
    _clean(launch(ir, [*arrays, memory], workgroup=(lanes, 1, 1), cpu=_CPU, features=features))
    np.testing.assert_array_equal(memory, _held((x @ y.T).astype(np.int32) + c, lanes))


@pytest.mark.parametrize("k", [16, 32])
def test_wmma_of_nibbles(k: int) -> None:
    a, bt = np.random.default_rng(k).integers(-8, 8, (2, 16, k))
    c = np.random.default_rng(5).integers(-1000, 1000, (16, 16)).astype(np.int32)
    memory = np.ascontiguousarray(_held(c, 32))

    def packed(matrix: np.ndarray) -> np.ndarray:
        halves = matrix.reshape(16, k // 16, 2, 8)  # a dword holds 8; lanes 16 and up the next 8
        shifts = np.arange(8, dtype=np.uint32) * 4
        words = ((halves.astype(np.uint32) & 15) << shifts).sum(axis=-1, dtype=np.uint32)
        return np.ascontiguousarray(words.transpose(2, 0, 1).reshape(32, k // 16))

    ir = kernels.wmma("i32", "iu4", k=k)
    _clean(launch(ir, [packed(a), packed(bt), memory], cpu=_CPU))
    np.testing.assert_array_equal(memory, _held((a @ bt.T).astype(np.int32) + c, 32))


@pytest.mark.parametrize("lanes", [32, 64])
def test_wmma_with_narrow_results(lanes: int) -> None:
    a, bt, x, y = _operands("f16")
    c = np.random.default_rng(6).standard_normal((16, 16)).astype(np.float16)
    memory = np.ascontiguousarray(_held(c, lanes))
    arrays = [np.ascontiguousarray(_factor(m, lanes)) for m in (a, bt)]
    features = _WAVE64 if lanes == 64 else ""
    ir = kernels.wmma("f16", "f16", lanes)
    _clean(launch(ir, [*arrays, memory], workgroup=(lanes, 1, 1), cpu=_CPU, features=features))
    expected = _held((x @ y.T + c).astype(np.float16), lanes)
    np.testing.assert_array_equal(memory, expected)


def test_eight_bit_floats() -> None:
    codes = np.arange(256, dtype=np.uint8)
    a = np.ascontiguousarray(codes.reshape(2, 32, 4)).view(np.uint32)[..., 0]
    for words in a:
        c = np.zeros((32, 11), np.float32)
        _clean(launch(kernels.EIGHT_BITS, [words.copy(), c], cpu=_CPU))
        octets = words.view(np.uint8).reshape(32, 4)
        np.testing.assert_array_equal(c[:, :4], _FP8[octets])
        np.testing.assert_array_equal(c[:, 4:8], _BF8[octets])
        np.testing.assert_array_equal(c[:, 8:10], _FP8[octets[:, 2:]])
        back = np.ascontiguousarray(c[:, 10]).view(np.uint8).reshape(32, 4)
        np.testing.assert_array_equal(back, octets)


def _word(name: str, **fields: int) -> list[int]:
    layout = next(x for x in GFX12.layouts
                  if x.name == "VOP3" and name in {e.name for e in x.entries.values()})  # fmt: skip
    opcode = next(o for o, e in layout.entries.items() if e.name == name)
    word = layout.value | opcode << layout.opcode[0]
    for field, value in fields.items():
        word |= value << layout.fields[field][0]
    return [word & 0xFFFFFFFF, word >> 32, 0, 0]


def _run(words: list[int], sources: list[np.ndarray], dtype: Any) -> np.ndarray:
    w = Waves(1, 32, 64, 0, 1)
    w.sgpr[EXEC] = 0xFFFFFFFF
    w.set_mode(np.array([0xF0], np.uint32))
    w.select(np.arange(1))
    w.vgpr[0] = 0
    for number, values in enumerate(sources):
        w.vgpr[10 + number] = np.resize(values.view(np.uint32), 32)
    inst = decode(GFX12, words, 0)
    run = bind(inst)
    if run is None:
        raise AssertionError(f"{disassemble(inst)} has no meaning")
    with np.errstate(all="ignore"):
        run(w)
    return w.vgpr[0][0].copy().view(dtype)


@pytest.mark.parametrize(("kind", "table"), [("fp8", _FP8), ("bf8", _BF8)])
def test_rounding_to_eight_bits(kind: str, table: np.ndarray) -> None:
    rng = np.random.default_rng(7)
    finite = np.sort(table[np.isfinite(table)])
    middles = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    values = np.concatenate([rng.choice(middles, 16), (rng.standard_normal(16) * 3)]).astype("f4")
    words = _word(f"v_cvt_pk_{kind}_f32", d=0, a=266, b=266)
    found = _run(words, [values], np.uint32) & 0xFF
    for value, code in zip(values.tolist(), found.tolist(), strict=True):
        error = np.abs(finite - value)
        nearest = finite[error == error.min()]
        check(table[code] in nearest, f"{value} became {table[code]}, not {nearest}")
        check(len(nearest) == 1 or not code & 1, f"{value}: the tie did not go to even")


def test_stochastic_rounding_lies_between_neighbours() -> None:
    values = np.full(32, 1.3, np.float32)  # between 1.25 and 1.375
    seeds = np.linspace(0, 0xFFFFFFFF, 32).astype(np.uint32)
    words = _word("v_cvt_sr_fp8_f32", d=0, a=266, b=267, op_sel=4)  # into byte 1
    found = _run(words, [values, seeds], np.uint32)
    check((found & 0xFFFF00FF == 0).all(), "the other bytes changed")
    floats = _FP8[found >> 8]
    check(set(floats.tolist()) == {1.25, 1.375}, str(floats))
    share = (floats == 1.375).mean()
    check(abs(share - 0.4) < 0.1, f"rounded up {share:.2f} of the time, not 0.4")


@pytest.mark.parametrize("cpu", [_CPU, "gfx1151"])
@pytest.mark.parametrize(("x", "y"), [(1.75, -2.5), (100.0, 3.0), (-7.25, 0.125)])
def test_floats_in_scalar_registers(x: float, y: float, cpu: str) -> None:
    code = Loaded(compile_object(kernels.SCALAR_FLOATS, cpu)).code
    words = np.frombuffer(code, np.uint32)
    multiplies = (words >> 23 == 0b10 << 7 | 0x44) | (words >> 23 == 0b10 << 7 | 0x47)
    check(multiplies.any(), "no s_mul_f32 or s_fmac_f32 in the kernel")
    out = np.zeros(1, np.float32)
    arguments = [int(np.float32(v).view(np.uint32)) for v in (x, y)]
    _clean(launch(kernels.SCALAR_FLOATS, [*arguments, out], cpu=cpu))
    a = (x + y) * y
    b = a * x + y
    n = max(x, min(np.floor(b), y))
    g = b - int(n)
    w = float(np.float16(np.float16(g) + np.float16(3.140625)))
    check(out[0] == np.float32(w if w < x else g), f"{out[0]}, not {w if w < x else g}")


@pytest.mark.parametrize(
    ("name", "function"),
    [("rcp", lambda v: 1 / v), ("sqrt", np.sqrt), ("exp", np.exp2), ("log", np.log2)],
)
def test_transcendental_scalars(name: str, function: Any) -> None:
    w = Waves(3, 32, 8, 0, 3)
    w.set_mode(np.full(3, 0xF0, np.uint32))
    values = np.array([0.5, 3.0, 7.25], np.float32)
    w.sgpr[4] = values.view(np.uint32)
    run = bind(decode(GFX12, _word(f"v_s_{name}_f32", d=6, a=4), 0))
    if run is None:
        raise AssertionError(f"v_s_{name}_f32 has no meaning")
    run(w)
    found = w.sgpr[6].copy().view(np.float32)
    np.testing.assert_allclose(found, function(values.astype(np.float64)), rtol=1e-7)


def test_atomics_on_packed_halves() -> None:
    a = np.random.default_rng(8).integers(-50, 50, (32, 2)).astype(np.float16)
    c, old = np.zeros((8, 2), np.float16), np.full((32, 2), -1, np.float16)
    _clean(launch(kernels.packed_add("<2 x half>"), [a, c, old], cpu=_CPU))
    by_slot = a.reshape(4, 8, 2).astype(np.float32)
    np.testing.assert_array_equal(c, by_slot.sum(axis=0))
    np.testing.assert_array_equal(old.reshape(4, 8, 2)[0], np.zeros((8, 2)))
    np.testing.assert_array_equal(old.reshape(4, 8, 2)[3], by_slot[:3].sum(axis=0))


def test_atomics_in_lds() -> None:
    a = np.random.default_rng(10).integers(-50, 50, (32, 2)).astype(np.float16)
    c = np.zeros(34, np.uint32)
    _clean(launch(kernels.LDS_ATOMICS, [a, c], cpu=_CPU))
    count, before = 70, []
    for lane in range(32):
        before.append(count)
        count -= lane if count >= lane else 0
    np.testing.assert_array_equal(c, [count, c[1], *before])
    np.testing.assert_array_equal(c[1:2].view(np.float16), a.astype(np.float32).sum(axis=0))


def test_atomics_on_packed_bfloats() -> None:
    values = np.random.default_rng(9).integers(-50, 50, (32, 2)).astype(np.float32)
    a = (values.view(np.uint32) >> 16).astype(np.uint16)
    c, old = np.zeros((8, 2), np.uint16), np.zeros((32, 2), np.uint16)
    _clean(launch(kernels.packed_add("<2 x bfloat>"), [a, c, old], cpu=_CPU))
    found = (c.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(found, values.reshape(4, 8, 2).sum(axis=0))


def test_scalar_loads_of_bytes() -> None:
    a = np.frombuffer(b"\x9c\xe0\x34\xf2" + bytes(range(50, 74)), np.uint8).copy()
    out = np.zeros(1, np.uint32)
    _clean(launch(kernels.UNIFORM_BYTES, [a, out], cpu=_CPU))
    i8, i16 = a[:1].view(np.int8)[0], a[2:4].view(np.int16)[0]
    expected = (int(i8) * int(a[1]) + int(i16)) & 0xFFFFFFFF ^ int(a[12:16].view(np.uint32)[0])
    check(out[0] == expected, f"{out[0]:#x}, not {expected:#x}")


def test_waves_know_their_number() -> None:
    out = np.full(96, -1, np.int32)
    _clean(launch(kernels.WAVE_ID, [out], workgroup=(96, 1, 1), cpu=_CPU))
    np.testing.assert_array_equal(out, np.arange(96) // 32)


def test_minimum_and_maximum_keep_nan() -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5], np.float32)
    a, b = np.repeat(special, 4)[:32], np.tile(special, 4)[:32]
    c = np.zeros((32, 2), np.float32)
    _clean(launch(kernels.MINIMA, [a, b, c], cpu=_CPU))
    np.testing.assert_array_equal(c[:, 0], np.minimum(a, b))
    np.testing.assert_array_equal(c[:, 1], np.maximum(a, b))
    zeros = (a == 0) & (b == 0)
    np.testing.assert_array_equal(
        np.signbit(c[zeros, 0]), np.signbit(a[zeros]) | np.signbit(b[zeros])
    )


def _patched(ir: str, match: int, mask: int, word: int = _NOP) -> Loaded:
    """A compiled kernel with every dword that matches replaced, by s_nop or another."""
    loaded = Loaded(compile_object(ir, _CPU))
    words = np.frombuffer(loaded.code, np.uint32).copy()
    hits = words & np.uint32(mask) == np.uint32(match)
    check(hits.any(), "nothing to patch")
    words[hits] = word
    loaded.image[loaded.entry : loaded.entry + len(loaded.code)] = words.tobytes()
    return loaded


def test_wait_counts_of_their_own() -> None:
    a, c = np.ones((2, 256), np.float32), np.zeros(2, np.float32)
    for match, counter in ((0xBFC00000, "loadcnt"), (0xBFC60000, "dscnt"), (0xBFC70000, "kmcnt")):
        loaded = _patched(programs.REDUCE, match, 0xFFFF0000)
        report = launch("", [a, c], (2, 1, 1), (256, 1, 1), loaded=loaded, cpu=_CPU)
        what = {f.what for f in report.violations if f.kind == "wait count"}
        check(any(counter in w for w in what), f"no {counter} in {what}")


_VMCNT_0, _LGKMCNT_0 = 0xBF8903F7, 0xBF89FC07
"""s_waitcnt vmcnt(0), lgkmcnt(0), as LLVM 22 assembles them for gfx1201."""


@pytest.mark.parametrize(
    ("wait", "same", "other"),
    [(0xBFC00000, _VMCNT_0, _LGKMCNT_0), (0xBFC60000, _LGKMCNT_0, _VMCNT_0),
     (0xBFC70000, _LGKMCNT_0, _VMCNT_0)],
    ids=["loadcnt", "dscnt", "kmcnt"],
)  # fmt: skip
def test_the_older_wait_names_the_same_counters(wait: int, same: int, other: int) -> None:
    a, c = np.ones((2, 256), np.float32), np.zeros(2, np.float32)
    kinds = []
    for word in (same, other):
        loaded = _patched(programs.REDUCE, wait, 0xFFFF0000, word)
        report = launch("", [a, c], (2, 1, 1), (256, 1, 1), loaded=loaded, cpu=_CPU)
        kinds.append({f.kind for f in report.violations})
    check(kinds[0] == set() and "wait count" in kinds[1], str(kinds))


def _group(words: list[int], strict: Strict = LENIENT) -> Report:
    """Two waves of one workgroup with 256 bytes of LDS run `words`."""
    memory = FlatMemory()
    memory.place(_CODE_VA, np.array([*words, _END, *[_NOP] * 4], np.uint32))
    dispatch = Dispatch(_CODE_VA, (1, 1, 1), (64, 1, 1), lds_bytes=256, rsrc1=0xF0 << 12 | 7,
                        rsrc2=2 << 1, max_steps=10_000)  # fmt: skip
    return execute(dispatch, memory, strict, GFX12)


_ADDRESS = [0x7E020280, 0x7E040281]  # v_mov_b32 v1, 0; v_mov_b32 v2, 1
_STORE, _LOAD = [0xD8340000, 0x00000201], [0xD8D80000, 0x03000001]  # ds_store_b32, ds_load_b32
_STORED = 0xBFC60000  # s_wait_dscnt 0
_ONLY_WAVE_0 = [0x7C9800A0, 0xBFA30002]  # v_cmp_gt_u32 vcc, 32, v0; s_cbranch_vccz +2


def test_what_lies_between_signal_and_wait_is_not_ordered() -> None:
    before = [*_ADDRESS, *_ONLY_WAVE_0, *_STORE, _STORED, _SIGNAL, _WAIT, *_LOAD]
    _clean(_group(before, Strict()))
    between = [*_ADDRESS, _SIGNAL, *_ONLY_WAVE_0, *_STORE, _WAIT, *_LOAD]
    kinds = {f.kind for f in _group(between, Strict()).violations}
    check("LDS race" in kinds, f"found {kinds}")


def test_a_wait_without_a_signal_never_ends() -> None:
    with pytest.raises(WaveFault, match=r"endless.*barrier it did not signal"):
        _group([_WAIT])
    _clean(_group([_SIGNAL, _WAIT, _SIGNAL, _WAIT]))
