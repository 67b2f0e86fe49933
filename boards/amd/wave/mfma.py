"""MFMA of CDNA: blocks of matrix products spread over the 64 lanes and their registers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction, Operand
from boards.amd.isa.small_floats import BF8, BF8_FNUZ, FP8, FP8_FNUZ, widen
from boards.amd.wave.mfma_scaled import bind_formats
from boards.amd.wave.operands import UnsupportedOperand, constant
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
_NAME = re.compile(r"v_mfma_([fi]\d+)_(\d+)x\d+x(\d+)_(?:(\d+)b_)?(.+)$")
_LANES = 64
_RESULTS: dict[str, Any] = {"f32": np.float32, "i32": np.int32, "f64": np.float64}
_SMALL = {"fp8": FP8_FNUZ, "bf8": BF8_FNUZ, "fp8ocp": FP8, "bf8ocp": BF8}
_CHUNK_ROWS = 4
"""Rows of a column that lie in consecutive registers of one lane (f64: one)."""
_XF32_DROPPED = np.uint32(0x1FFF)


@dataclass(frozen=True, slots=True)
class _Shape:
    """blocks x (m x k times k x m), element types of A and B and of the result."""

    m: int
    k: int
    blocks: int
    kinds: tuple[str, str]
    result: str


def bind_mfma(inst: Instruction) -> Run | None:
    """A function for a matrix instruction or a move between register files, or None."""
    if "accvgpr" in inst.name:
        return _move(inst)
    match = _NAME.match(inst.meaning.replace("_scale_", "_"))
    if match is None:
        return None
    if match[5] == "f8f6f4":
        return _of_formats(inst, int(match[2]), int(match[3]))
    if match[5] == "f64" and inst.fields["blgp"] and inst.name != inst.meaning:
        raise UnsupportedOperand(f"{inst.name} with blgp")  # signs since gfx942 alone
    kinds = match[5].split("_")
    shape = _Shape(
        int(match[2]), int(match[3]), int(match[4] or 1), (kinds[0], kinds[-1]), match[1]
    )
    return _product(inst, shape)


def _of_formats(inst: Instruction, m: int, k: int) -> Run:
    """Factors of 8, 6 or 4 bits, each its own, scaled or not; the result is f32."""
    places = _output_places(_Shape(m, k, 1, ("f32", "f32"), "f32"))
    target = inst.operands[0]

    def accumulate(w: Waves, product: Array) -> None:
        total = product[:, None] + _accumulator(w, inst, places, np.float32)
        _store(w, target, places, total, np.float32)

    return bind_formats(inst, m, k, _registers, accumulate)


def _store(
    w: Waves, target: Operand, places: tuple[Array, Array], total: Array, dtype: Any
) -> None:
    """Round a result (n, blocks, m, m) and put it where its elements belong."""
    packed = np.empty((w.n, _LANES, target.dwords * 4 // np.dtype(dtype).itemsize), dtype)
    packed[:, places[0], places[1]] = total
    words = packed.view(np.uint32)
    for i in range(target.dwords):
        w.put(target.code - VGPR + i, words[:, :, i], None)


def _move(inst: Instruction) -> Run:
    target, source = inst.operands
    register = target.code - VGPR
    bits = constant(source.code, "u32", None)

    def run(w: Waves) -> None:
        if source.code >= VGPR:
            value = w.vgpr[source.code - VGPR][w.sel]
        elif bits is not None:
            value = np.full((w.n, w.lanes), bits, np.uint32)
        else:
            value = np.broadcast_to(w.scalar(source.code)[:, None], (w.n, w.lanes))
        w.put(register, value, w.mask)

    return run


def _registers(w: Waves, o: Operand) -> Array:
    """The dwords of an operand: (n, lanes, dwords)."""
    if o.code < VGPR:
        raise UnsupportedOperand("a matrix operand that is no vector register")
    rows = [w.vgpr[o.code - VGPR + i][w.sel] for i in range(o.dwords)]
    return np.ascontiguousarray(np.stack(rows, axis=-1))


def _elements(raw: Array, kind: str) -> Array:
    """Dwords (..., d) as numbers that f64 (or int64) holds exactly."""
    if kind in ("f32", "f64", "f16"):
        wide = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[kind]
        return raw.view(wide).astype(np.float64)
    if kind == "xf32":  # src: CDNA3 ISA 7.1.1, XF32: f32 with 10 bits of mantissa.
        return (raw & ~_XF32_DROPPED).view(np.float32).astype(np.float64)
    if kind == "bf16":
        halves = raw.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return halves.view(np.float32).astype(np.float64)
    if kind == "i8":
        return raw.view(np.int8).astype(np.int64)
    return widen(raw.view(np.uint8), _SMALL[kind])


def _input(raw: Array, kind: str, shape: _Shape) -> Array:
    """A, or B transposed: (n, blocks, m, k)."""
    # src: CDNA3 ISA 7.1.4: lane = row + m * (block + blocks * (k / elements of a lane)).
    values = _elements(raw, kind)
    per_lane = values.shape[-1]
    groups = shape.k // per_lane
    split = values.reshape(len(values), groups, shape.blocks, shape.m, per_lane)
    return np.asarray(split.transpose(0, 2, 3, 1, 4)).reshape(
        len(values), shape.blocks, shape.m, shape.k
    )


def _output_places(shape: _Shape) -> tuple[Array, Array]:
    """Where element (block, row, column) is: its lane, and its number within the lane."""
    # src: CDNA3 ISA 7.1.4 for 4-byte results; f64: rows one by one, blocks before rows.
    block, row, column = np.indices((shape.blocks, shape.m, shape.m))
    groups = _LANES // shape.m
    if shape.result == "f64":
        each = groups // shape.blocks
        return column + shape.m * (block + shape.blocks * (row % each)), row // each
    chunk = row // _CHUNK_ROWS + shape.m // _CHUNK_ROWS * block
    lane = column + shape.m * (chunk % groups)
    return lane, _CHUNK_ROWS * (chunk // groups) + row % _CHUNK_ROWS


def _accumulator(w: Waves, inst: Instruction, places: tuple[Array, Array], dtype: Any) -> Array:
    """C as (n, blocks, m, m)."""
    o = inst.operands[3]
    lane, number = places
    if o.code >= VGPR:
        return np.asarray(_registers(w, o).view(dtype)[:, lane, number])
    kind = np.dtype(dtype).kind + str(8 * np.dtype(dtype).itemsize)
    bits = constant(o.code, kind, inst.literal)
    if bits is None:
        raise UnsupportedOperand("a scalar accumulator")
    width = np.dtype(dtype).itemsize
    value = np.array([bits & (1 << 8 * width) - 1], f"u{width}").view(dtype)[0]
    return np.full((w.n, *lane.shape), value)


def _pattern(blgp: int) -> Array:
    """The lane of B that each lane takes."""
    # src: AMD matrix instruction calculator, BLGP: halves, a rotation, quarters.
    lane = np.arange(_LANES)
    if blgp == 0:
        return lane
    if blgp < 3:
        return lane % 32 + 32 * (blgp - 1)
    return (lane + 16) % _LANES if blgp == 3 else lane % 16 + 16 * (blgp - 4)


def _signs(inst: Instruction, shape: _Shape) -> tuple[int, int, int]:
    """f64 keeps signs of A, B and C where the others have a lane pattern."""
    bits = inst.fields["blgp"] if shape.result == "f64" else 0
    a, b, c = ((-1 if bits >> i & 1 else 1) for i in range(3))
    return a, b, c


def _product(inst: Instruction, shape: _Shape) -> Run:
    """D = A B + C, rounded once, from f64; silicon's order of additions is its own."""
    target, a, b, _ = inst.operands
    f, dtype = inst.fields, _RESULTS[shape.result]
    places = _output_places(shape)
    size = 1 << f["cbsz"]
    block = np.arange(shape.blocks)
    chosen = block // size * size + f["abid"] if f["cbsz"] else block
    if chosen.max() >= shape.blocks:
        raise UnsupportedOperand(f"{inst.name} with block {int(chosen.max())}")
    lanes = _pattern(0 if shape.result == "f64" else f["blgp"])
    signs = _signs(inst, shape)

    def run(w: Waves) -> None:
        left = _input(_registers(w, a), shape.kinds[0], shape)[:, chosen]
        right = _input(_registers(w, b)[:, lanes], shape.kinds[1], shape)
        total = (signs[0] * signs[1] * left) @ right.transpose(0, 1, 3, 2)
        total = total + signs[2] * _accumulator(w, inst, places, dtype)
        _store(w, target, places, total, dtype)

    return run
