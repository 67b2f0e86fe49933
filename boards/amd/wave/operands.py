"""Operands as typed arrays: how an instruction's fields are read and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa import floats
from boards.amd.isa.decode import LITERAL, VGPR, Instruction, Operand
from boards.amd.wave.state import SGPRS, Waves, unpack_bits
from boards.machine.arrays import Array

Reader = Callable[[Waves], Array]
Writer = Callable[[Waves, Array, "Array | None"], None]

DTYPES: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "p": np.uint32,
}  # fmt: skip
BITS = {name: np.dtype(kind).itemsize * 8 for name, kind in DTYPES.items()}
_INLINE = range(128, 209)
_FLOATS = {
    240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0,
    248: 0.15915494309189532,
}  # fmt: skip
_SHARED_BASE, _PRIVATE_BASE, _VCCZ, _EXECZ, _SCC = 235, 237, 251, 252, 253
_LOW32 = np.uint64(0xFFFFFFFF)


class UnsupportedOperand(Exception):
    """An operand the executor has no meaning for; becomes a WaveFault."""


def constant(code: int, kind: str, literal: int | None) -> int | None:
    """The bits of an inline constant or literal read as `kind`, or None for a register."""
    bits = BITS[kind]
    if code == LITERAL:
        value = literal or 0
        if kind == "f64":
            return value << 32
        return value - (1 << 32) & (1 << 64) - 1 if kind == "i64" and value >> 31 else value
    if code in _INLINE:
        value = code - 128 if code <= 192 else 192 - code
        answer: int = value & (1 << bits) - 1
        return answer
    if code in _FLOATS:
        return _float_constant(_FLOATS[code], kind)
    return None


def _float_constant(value: float, kind: str) -> int:
    """An inline float: of the operand's width, f32 for integers, f16 for packed halves."""
    form = {"f16": np.float16, "f64": np.float64, "i16": np.float16, "u16": np.float16}.get(
        kind, np.float64 if kind in ("i64", "u64") else np.float16 if kind == "p" else np.float32
    )
    raw: Any = np.array(value, form)
    return int(raw.view(f"u{raw.itemsize}"))


def reader(inst: Instruction, o: Operand, kind: str) -> Reader:
    """A function that fetches `o` as an array (n, lanes) or one that broadcasts to it."""
    if kind == "m":
        return _mask_reader(o)
    bits = inst.literal or 0 if o.field == "k" else constant(o.code, kind, inst.literal)
    if bits is not None:
        width = BITS[kind]
        raw = np.array([[bits & (1 << width) - 1]], dtype=f"u{width // 8}")
        value = raw.view(DTYPES[kind])
        return lambda w: value
    if o.code >= VGPR:
        return _vector_reader(o.code - VGPR, kind)
    return _scalar_reader(o.code, kind)


def _mask_reader(o: Operand) -> Reader:
    if o.code >= SGPRS:
        on = o.code == _INLINE.start + 65  # the inline constant -1
        return lambda w: np.full((1, w.lanes), on, np.bool_)
    return lambda w: unpack_bits(w.scalar_mask(o.code))


def _vector_reader(register: int, kind: str) -> Reader:
    dtype = DTYPES[kind]
    if BITS[kind] == 32:
        if dtype is np.uint32:
            return lambda w: w.vgpr[register][w.sel]
        return lambda w: w.vgpr[register][w.sel].view(dtype)
    if BITS[kind] == 16:
        return lambda w: w.vgpr[register][w.sel].astype(np.uint16).view(dtype)
    return lambda w: pair(w.vgpr[register][w.sel], w.vgpr[register + 1][w.sel]).view(dtype)


def pair(low: Array, high: Array) -> Array:
    """Two arrays of dwords as one of 64-bit values."""
    both = np.empty((*low.shape, 2), np.uint32)
    both[..., 0] = low
    both[..., 1] = high
    return both.view(np.uint64)[..., 0]


def _scalar_reader(code: int, kind: str) -> Reader:
    dtype = DTYPES[kind]
    if BITS[kind] == 64:
        return lambda w: scalar64(w, code)[:, None].view(dtype)
    if BITS[kind] == 16:
        return lambda w: scalar32(w, code).astype(np.uint16).view(dtype)[:, None]
    return lambda w: scalar32(w, code).view(dtype)[:, None]


def scalar32(w: Waves, code: int) -> Array:
    """A scalar source that is not a constant, (n,) of u32."""
    if code < SGPRS:
        return w.scalar(code)
    if code == _SCC:
        return w.scc[w.sel].astype(np.uint32)
    if code in (_VCCZ, _EXECZ):
        words = w.scalar_mask(106 if code == _VCCZ else 126)
        answer: Array = (words == 0).all(axis=1).astype(np.uint32)
        return answer
    raise UnsupportedOperand(f"scalar source {code}")


def scalar64(w: Waves, code: int) -> Array:
    """A scalar pair, (n,) of u64."""
    if code == w.null:
        return np.zeros(w.n, np.uint64)
    if code < SGPRS:
        return w.scalar64(code)
    if code in (_SHARED_BASE, _PRIVATE_BASE):
        base = w.shared_base if code == _SHARED_BASE else w.private_base
        return np.full(w.n, base, np.uint64)
    return scalar32(w, code).astype(np.uint64)


def with_signs(read: Reader, kind: str, neg: bool, absolute: bool) -> Reader:
    """The source modifiers of floating point."""
    if not (neg or absolute):
        return read
    if absolute and neg:
        return lambda w: -np.abs(read(w))
    return (lambda w: np.abs(read(w))) if absolute else (lambda w: -read(w))


def high_half(read: Reader, kind: str) -> Reader:
    """The upper 16 bits of a source read as a dword."""
    dtype = DTYPES[kind]
    return lambda w: (read(w) >> np.uint32(16)).astype(np.uint16).view(dtype)


def flushed(read: Reader, kind: str) -> Reader:
    """A float source under MODE: denormals read as zero where input denormals are off."""
    low = 4 if kind == "f32" else 6

    def apply(w: Waves) -> Array:
        value = read(w)
        if w.plain_mode:
            return value
        off = (w.mode[w.sel] >> np.uint32(low) & np.uint32(1) == 0)[:, None]
        return np.where(off, floats.flush(value), value)

    return apply


def flush_result(w: Waves, value: Array, kind: str) -> Array:
    """A float result under MODE: denormals become zero where output denormals are off."""
    low = 5 if kind == "f32" else 7
    off = (w.mode[w.sel] >> np.uint32(low) & np.uint32(1) == 0)[:, None]
    return np.where(off, floats.flush(value), value)


def settled(w: Waves, value: Array, kind: str, name: str) -> Array:
    """A float result under MODE. Raises: UnsupportedOperand where it rounds in a direction."""
    if w.plain_mode:
        return value
    low = np.uint32(0 if kind == "f32" else 2)
    if (w.mode[w.sel] >> low & np.uint32(3)).any():
        raise UnsupportedOperand(f"{name} in a directed rounding mode")
    return flush_result(w, value, kind)


def raw_bits(value: Array, kind: str) -> Array:
    """Typed results as unsigned integers of their own width."""
    dtype = DTYPES[kind]
    typed = np.ascontiguousarray(value if value.dtype == dtype else value.astype(dtype))
    return typed.view(f"u{BITS[kind] // 8}")


def writer(o: Operand, kind: str, *, high: bool = False) -> Writer:
    """A function that stores typed results into vector register `o`."""
    register = o.code - VGPR
    if BITS[kind] == 64:
        return lambda w, value, mask: put64(w, register, raw_bits(value, kind), mask)
    if BITS[kind] == 16:
        return lambda w, value, mask: put16(w, register, raw_bits(value, kind), mask, high)
    return lambda w, value, mask: w.put(register, raw_bits(value, kind), mask)


def zeroing_writer(o: Operand, kind: str) -> Writer:
    """A function that stores a 16-bit result and clears the other half of the register."""
    register = o.code - VGPR
    return lambda w, value, mask: w.put(register, raw_bits(value, kind).astype(np.uint32), mask)


def put64(w: Waves, register: int, value: Array, mask: Array | None) -> None:
    """Write 64-bit values into a pair of vector registers."""
    w.put(register, (value & _LOW32).astype(np.uint32), mask)
    w.put(register + 1, (value >> np.uint64(32)).astype(np.uint32), mask)


def put16(w: Waves, register: int, value: Array, mask: Array | None, high: bool) -> None:
    """Write half a vector register; the other half keeps its value."""
    # src: RDNA3 ISA 7.1: 16-bit results leave the other 16 bits of the register unchanged.
    old = w.vgpr[register][w.sel]
    wide = value.astype(np.uint32)
    if high:
        merged = (old & np.uint32(0xFFFF)) | wide << np.uint32(16)
    else:
        merged = (old & np.uint32(0xFFFF0000)) | wide
    w.put(register, merged, mask)
