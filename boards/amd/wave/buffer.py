"""Buffer instructions: addresses through a resource of four scalar registers, with its bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from boards.amd.isa.decode import VGPR, Family, Instruction, Operand
from boards.amd.isa.layout import Bits
from boards.amd.wave.atomics import apply_atomic
from boards.amd.wave.memory import Lanes, guarded, merge_half, narrow, require_aligned
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.scalar import scalar_reader
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array, Words

Run = Callable[[Waves], Any]
_LOAD = re.compile(r"buffer_load_(d16_)?(hi_)?([iub])(\d+)$")
_SCALAR_SHORT = re.compile(r"s_buffer_load_([iu])(\d+)$")
_STORE = re.compile(r"buffer_store_(d16_hi_)?b(\d+)$")
_ATOMIC = re.compile(r"buffer_atomic_(\w+?(\d\d))$")
# src: RDNA2 ISA 8.1.8, table "Buffer Resource Descriptor": bits of words 1 and 3.
_BASE_HIGH, _STRIDE, _INDEX_STRIDE, _ADD_LANE = (0, 16), (16, 14), (21, 2), (23, 1)
_SMALLEST_STRIDE, _ELEMENT = 8, 4
# src: RDNA2 ISA 8.1.5, OOB_SELECT.
_STRUCTURED, _INDEXED, _EMPTY, _RAW = range(4)
_DWORD = 4


@dataclass(frozen=True, slots=True)
class Resource:
    """Buffer resources of the selected waves, each field an array (n, 1)."""

    base: Array
    stride: Array
    records: Array
    swizzled: Array
    index_stride: Array
    add_lane: Array
    check: Array


def _bits(word: Array, bits: Bits) -> Array:
    low, width = bits
    answer: Array = word >> np.uint64(low) & np.uint64((1 << width) - 1)
    return answer


def resource(w: Waves, family: Family, register: int, *, indexed: bool = False) -> Resource:
    """The resource in four scalar registers, as an instruction with or without IDXEN sees it.

    Raises: UnsupportedOperand for large elements.
    """
    words = [w.scalar(register + i).astype(np.uint64)[:, None] for i in range(4)]
    elements = _bits(words[1], family.buffer_swizzle)
    if (elements > 1).any():
        raise UnsupportedOperand("a buffer resource with swizzled elements above 4 bytes")
    stride = _bits(words[1], _STRIDE)
    if family.buffer_check is None:
        # src: Mesa si_state.c, si_make_buffer_descriptor, GFX9: NUM_RECORDS counts bytes for vector
        # memory with IDXEN == 0 or STRIDE == 0, else strides.
        counts_rows = (stride != 0) & indexed
        check = np.where(counts_rows, np.uint64(_INDEXED), np.uint64(_RAW))
    else:
        check = _bits(words[3], family.buffer_check)
    return Resource(
        words[0] | _bits(words[1], _BASE_HIGH) << np.uint64(32), stride, words[2], elements != 0,
        np.uint64(_SMALLEST_STRIDE) << _bits(words[3], _INDEX_STRIDE),
        _bits(words[3], _ADD_LANE), check,
    )  # fmt: skip


def scratch_resource(va: int, nbytes: int, lanes: int) -> int:
    """The 128 bits that a gfx10 command processor gives a kernel as private segment buffer."""
    # src: ROCr amd_aql_queue.cpp, FillBufRsrcWord0..3_Gfx10: swizzled, lane added, no bounds,
    # 32_UINT, type 0.
    selects = 4 | 5 << 3 | 6 << 6 | 7 << 9
    word3 = selects | 20 << 12 | 1 << 23 | 1 << 24 | _EMPTY << 28
    high = va >> 32 & 0xFFFF | 1 << 31
    bits = va & 0xFFFFFFFF | high << 32 | (nbytes & 0xFFFFFFFF) << 64 | word3 << 96
    return with_index_stride(bits, lanes)


def with_index_stride(bits: int, lanes: int) -> int:
    """A resource whose INDEX_STRIDE says a wave's size."""
    # src: ROCr, FillBufRsrcWord3_Gfx10 and later: INDEX_STRIDE is "filled in by CP".
    low, width = _INDEX_STRIDE
    code = (lanes // _SMALLEST_STRIDE).bit_length() - 1
    keep = ~((1 << width) - 1 << 96 + low)
    return bits & keep | code << 96 + low


class _Place:
    """Where an instruction's bytes are: one search for each dword."""

    def __init__(self, inst: Instruction) -> None:
        f = inst.fields
        if f.get("tfe"):
            raise UnsupportedOperand(f"{inst.name} with tfe")
        self.inst, self.offset = inst, inst.offset
        vector = f["a"]
        self.index_register = vector if f["idxen"] else -1
        self.offset_register = vector + f["idxen"] if f["offen"] else -1
        self.resource = next(o.code for o in inst.operands if o.field == "r")
        base = next(o for o in inst.operands if o.field == "q")
        self.base = scalar_reader(inst, base, "u32")

    def _offsets(self, w: Waves, first: int) -> Array:
        offset = np.full((w.n, w.lanes), self.offset + first, np.uint64)
        if self.offset_register >= 0:
            offset += w.vgpr[self.offset_register][w.sel]
        return offset

    def _resource(self, w: Waves) -> Resource:
        indexed = self.index_register >= 0
        return resource(w, self.inst.family, self.resource, indexed=indexed)

    def piece(self, w: Waves, nbytes: int) -> int:
        """Bytes that lie side by side: a dword, or single ones where lanes are interleaved and an
        element is not aligned."""
        size = min(nbytes, _DWORD)
        if not self._resource(w).swizzled.any():
            return size
        crooked = self._offsets(w, 0) & np.uint64(size - 1) != 0
        return 1 if (crooked & w.active).any() else size

    def find(self, w: Waves, first: int, nbytes: int) -> tuple[Array, Array]:
        """Addresses and "inside the buffer", (n, lanes), of bytes `first` and on."""
        r = self._resource(w)
        lane = np.arange(w.lanes, dtype=np.uint64)
        index = lane * r.add_lane
        if self.index_register >= 0:
            index = index + w.vgpr[self.index_register][w.sel]
        offset = self._offsets(w, first)
        inside = _inside(r, index, offset, nbytes)
        start = r.base + self.base(w).astype(np.uint64)[:, None]
        # src: RDNA2 ISA 8.1.5, "Linear Buffer Addressing" and "Swizzled Buffer Addressing".
        unit = np.uint64(_ELEMENT)
        rows = index // r.index_stride * r.stride + offset // unit * unit
        swizzled = rows * r.index_stride + index % r.index_stride * unit + offset % unit
        answer: Array = start + np.where(r.swizzled, swizzled, offset + r.stride * index)
        return answer, inside


def _inside(r: Resource, index: Array, offset: Array, nbytes: int) -> Array:
    end = offset + np.uint64(nbytes)
    in_index = index < r.records
    layered = r.swizzled & (r.stride != 0)
    cases = [r.check == _STRUCTURED, r.check == _INDEXED, r.check == _EMPTY]
    return np.select(
        [np.broadcast_to(case, offset.shape) for case in cases],
        [
            in_index & ((end <= r.stride) | (r.stride == 0)),
            np.broadcast_to(in_index, offset.shape),
            np.broadcast_to(r.records != 0, offset.shape),
        ],
        np.where(layered, index * r.stride + end <= r.records, end <= r.records),
    )


def bind_buffer(inst: Instruction) -> Run | None:
    """A function for a buffer load, store or atomic, or None."""
    name = inst.meaning
    for pattern, bind in ((_LOAD, _load), (_STORE, _store), (_ATOMIC, _atomic)):
        match = pattern.match(name)
        if match:
            return bind(inst, match)
    return None


def _read(
    w: Waves, inst: Instruction, found: tuple[Array, Array], index: Array,
    nbytes: int,
) -> Words:  # fmt: skip
    """Elements for lanes at flat positions; 0 outside the buffer."""
    va, inside = (part.reshape(-1)[index] for part in found)
    rows = np.zeros((max(1, nbytes // _DWORD), len(index)), np.uint32)
    if inside.any():
        rows[:, inside] = guarded(w, inst, w.memory.load, va[inside], nbytes, index[inside])
    return rows


def _write(
    w: Waves, inst: Instruction, found: tuple[Array, Array], index: Array,
    data: Words, nbytes: int,
) -> None:  # fmt: skip
    """Store columns of `data` for lanes at flat positions, inside the buffer only."""
    va, inside = (part.reshape(-1)[index] for part in found)
    if inside.any():
        guarded(w, inst, w.memory.store, va[inside], data[:, inside], nbytes, index[inside])


def _data(inst: Instruction) -> Operand:
    return next(o for o in inst.operands if o.field == "x")


def buffer_elements(inst: Instruction, nbytes: int) -> Callable[[Waves, Lanes], Words]:
    """A function that reads an element for each active lane: (dwords, active)."""
    place = _Place(inst)

    def read(w: Waves, lanes: Lanes) -> Words:
        index, piece = lanes.index(w), place.piece(w, nbytes)
        rows = np.zeros((max(1, nbytes // _DWORD), len(index)), np.uint32)
        for first in range(0, nbytes, piece):
            part = _read(w, inst, place.find(w, first, piece), index, piece)[0]
            rows[first // _DWORD] |= part << np.uint32(8 * (first % _DWORD))
        return rows

    return read


def _load(inst: Instruction, match: re.Match[str]) -> Run:
    half, high, kind, bits = match[1], match[2], match[3], int(match[4])
    register = _data(inst).code - VGPR
    elements = buffer_elements(inst, bits // 8)

    def run(w: Waves) -> None:
        lanes = Lanes(w)
        index = lanes.index(w)
        if not len(index):
            return
        for i, words in enumerate(elements(w, lanes)):
            value = lanes.spread(w, narrow(words, kind, bits))
            if half:
                value = merge_half(w.vgpr[register][w.sel], value, high=bool(high))
            w.put(register + i, value, w.mask)

    return run


def _store(inst: Instruction, match: re.Match[str]) -> Run:
    nbytes, shift = int(match[2]) // 8, np.uint32(16 if match[1] else 0)
    register, place = _data(inst).code - VGPR, _Place(inst)

    def run(w: Waves) -> None:
        lanes = Lanes(w)
        index = lanes.index(w)
        if not len(index):
            return
        piece = place.piece(w, nbytes)
        for first in range(0, nbytes, piece):
            data = lanes.pick(w.vgpr[register + first // _DWORD][w.sel]) >> shift
            data = data >> np.uint32(8 * (first % _DWORD))
            _write(w, inst, place.find(w, first, piece), index, data[None], piece)

    return run


def _atomic(inst: Instruction, match: re.Match[str]) -> Run:
    name, width = match[1], int(match[2]) // 8
    data, place = _data(inst), _Place(inst)
    register, returns = data.code - VGPR, bool(inst.fields["glc"])

    def run(w: Waves) -> None:
        lanes = Lanes(w)
        index = lanes.index(w)
        if not len(index):
            return
        found = place.find(w, 0, width)
        va, inside = (part.reshape(-1)[index] for part in found)
        where = index[inside]
        rows = np.stack([lanes.pick(w.vgpr[register + i][w.sel]) for i in range(data.dwords)])
        old = np.zeros((width // _DWORD, len(index)), np.uint32)
        if len(where):
            require_aligned(w, inst, va[inside], width, where)
            old[:, inside] = apply_atomic(
                name, va[inside], rows[:, inside],
                lambda members: _read(w, inst, found, where[members], width),
                lambda members, values: _write(
                    w, inst, found, where[members], values, width
                ),
                returns=returns,
            )[: width // _DWORD]  # fmt: skip
        if returns:
            for i in range(len(old)):
                w.put(register + i, lanes.spread(w, old[i]), w.mask)

    return run


def bind_scalar_buffer(inst: Instruction) -> Run:
    """s_buffer_load: dwords, or one smaller element, at a byte offset; 0 beyond the buffer."""
    f = inst.fields
    target, source = inst.operands[0], inst.operands[1].code
    based = f["soffset"] not in inst.family.off
    match = _SCALAR_SHORT.match(inst.meaning)
    kind, bits = (match[1], int(match[2])) if match else ("b", 32)
    nbytes = np.uint64(bits // 8)

    def run(w: Waves) -> None:
        r = resource(w, inst.family, source)
        offset = np.full(w.n, np.uint64(inst.offset & (1 << 32) - 1), np.uint64)
        if based:
            offset += w.scalar(f["soffset"])
        offset = (offset & np.uint64(0xFFFFFFFF)) & ~(nbytes - np.uint64(1))
        # src: RDNA2 ISA 6.4.2, scalar buffer loads: limit = records * max(stride, 1).
        limit = (r.records * np.maximum(r.stride, np.uint64(1)))[:, 0]
        for i in range(target.dwords):
            at = offset + np.uint64(_DWORD * i)
            value = np.zeros(w.n, np.uint32)
            rows = np.flatnonzero(at + nbytes <= limit)
            if len(rows):
                va = (r.base[:, 0] + at)[rows]
                value[rows] = guarded(w, inst, w.memory.load, va, bits // 8, rows * w.lanes)[0]
            w.put_scalar(target.code + i, narrow(value, kind, bits))

    return run
