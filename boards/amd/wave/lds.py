"""The local data share: DS instructions, range checks, races between waves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.wave.atomics import apply_atomic
from boards.amd.wave.lanes import swizzle_sources
from boards.amd.wave.state import Waves
from boards.amd.wave.types import WaveFault
from boards.machine.arrays import Array, Words

Run = Callable[[Waves], Any]
_LOAD = re.compile(r"ds_load_([iub])(\d+)(_d16)?(_hi)?$")
_STORE = re.compile(r"ds_store_b(\d+)(_d16_hi)?$")
_TWO = re.compile(r"ds_(load|store)_2addr(_stride64)?_b(\d+)$")
_ATOMIC = re.compile(
    r"ds_(add|sub|rsub|inc|dec|min|max|and|or|xor|cmpstore|cmpst|mskor|wrap|storexchg|csub"
    r"|cond_sub|pk_add)(_rtn)?_(bf16|[iubf]\d+)$"
)
_EXCHANGE = re.compile(r"ds_storexchg_2addr(_stride64)?_rtn_b(\d+)$")
_STRIDE = 64


def bind_lds(inst: Instruction) -> Run | None:
    """A function for a DS instruction, or None."""
    name = inst.meaning
    if inst.fields["gds"]:
        return None
    if name in _CROSS_LANE:
        return _CROSS_LANE[name](inst)
    for pattern, bind in (
        (_LOAD, _load), (_STORE, _store), (_TWO, _two), (_ATOMIC, _atomic), (_EXCHANGE, _exchange),
    ):  # fmt: skip
        match = pattern.match(name)
        if match:
            return bind(inst, match)
    return (lambda w: None) if name == "ds_nop" else None


def _spread(w: Waves, index: Array, values: Array) -> Array:
    if len(index) == w.n * w.lanes:
        return values.reshape(w.n, w.lanes)
    full = np.zeros(w.n * w.lanes, np.uint32)
    full[index] = values
    return full.reshape(w.n, w.lanes)


def _register(w: Waves, register: int, index: Array) -> Array:
    row: Array = w.vgpr[register][w.sel].reshape(-1)
    return row if len(index) == len(row) else row[index]


def _places(
    w: Waves, inst: Instruction, where: Array, index: Array, nbytes: int, unit: int = 1
) -> Array:
    """Byte positions in the LDS of all workgroups, multiples of `unit`.

    Raises: WaveFault out of the allocation.
    """
    align = unit - 1
    if int(where.max()) + nbytes > w.lds_bytes or (where & align).any():
        raise _misplaced(w, inst, where, index, nbytes, align)
    bases = w.lds_bases
    answer: Array = where + (bases if len(index) == len(bases) else bases[index])
    return answer


def _misplaced(
    w: Waves, inst: Instruction, where: Array, index: Array, nbytes: int, align: int
) -> WaveFault:
    bad = np.flatnonzero(where + nbytes > w.lds_bytes)
    crooked = np.flatnonzero(where & align)
    at = int(bad[0] if len(bad) else crooked[0])
    position = int(index[at])
    return WaveFault(
        "out of range" if len(bad) else "unaligned",
        pc=inst.pc, text=inst.name, lane=position % w.lanes,
        wave=w.first_wave + int(w.waves[position // w.lanes]),
        va=int(where[at]), access="LDS", detail=f"the workgroup has {w.lds_bytes} bytes",
    )  # fmt: skip


def lds_load(w: Waves, inst: Instruction, where: Array, index: Array, nbytes: int) -> Words:
    """Elements at byte offsets `where` for lanes at flat positions `index`: (dwords, n)."""
    at = _places(w, inst, where.astype(np.int64, copy=False), index, nbytes)
    if _apart(at, nbytes):
        rows = np.zeros((max(1, nbytes // 4), len(at)), np.uint32)
        for i in range(nbytes):
            octet = lds_load(w, inst, where + where.dtype.type(i), index, 1)[0]
            rows[i // 4] |= octet << np.uint32(8 * (i % 4))
        return rows
    w.observe_lds(inst, at, index, nbytes)
    word = at >> 2
    if nbytes >= 4:
        return _dwords([w.lds.take(word + i if i else word) for i in range(nbytes // 4)])
    shift = (at & 3).astype(np.uint32) * np.uint32(8)
    part: Words = w.lds[word] >> shift & np.uint32((1 << 8 * nbytes) - 1)
    return part[None]


def _apart(at: Array, nbytes: int) -> bool:
    """Whether elements are taken apart into bytes: some lie across dwords."""
    # src: LLVM AMDGPU.td, FeatureUnalignedDSAccess: gfx9 and later, memory being in UNALIGNED mode
    return bool((at & min(nbytes, 4) - 1).any())


def _dwords(rows: list[Array]) -> Words:
    return rows[0][None] if len(rows) == 1 else np.stack(rows)


def lds_store(
    w: Waves, inst: Instruction, where: Array, index: Array, data: Words, nbytes: int
) -> None:
    """Store columns of `data`; a later lane wins."""
    at = _places(w, inst, where.astype(np.int64, copy=False), index, nbytes)
    if _apart(at, nbytes):
        for i in range(nbytes):
            octet = data[i // 4][None] >> np.uint32(8 * (i % 4))
            lds_store(w, inst, where + where.dtype.type(i), index, octet, 1)
        return
    w.observe_lds(inst, at, index, nbytes, data)
    if nbytes >= 4:
        for i in range(nbytes // 4):
            w.lds[(at >> 2) + i] = data[i]
        return
    octets = w.lds.view(np.uint8)
    for i in range(nbytes):
        octets[at + i] = (data[0] >> np.uint32(8 * i)).astype(np.uint8)


def _offset(inst: Instruction) -> int:
    return inst.fields["offset0"] | inst.fields["offset1"] << 8


def _addresses(w: Waves, inst: Instruction, index: Array, offset: int) -> Array:
    # src: RDNA3 ISA 12.1: LDS_ADDR = VGPR + offset, as unsigned 32-bit numbers.
    return lds_sum(_register(w, inst.fields["a"], index), offset)


def lds_sum(base: Array, offset: int) -> Array:
    """Addresses of a register and an offset, which wrap as numbers of 32 bits do.

    src: LLVM GCNSubtarget.h, hasUsableDSOffset(): of a negative register, too, from gfx7 on.
    """
    wide = base.astype(np.int64)
    return wide + offset & 0xFFFFFFFF if offset else wide


def _load(inst: Instruction, match: re.Match[str]) -> Run:
    kind, bits, half, high = match[1], int(match[2]), match[3], match[4]
    target, offset = inst.fields["d"], _offset(inst)

    def run(w: Waves) -> None:
        index = w.positions
        if not len(index):
            return
        words = lds_load(w, inst, _addresses(w, inst, index, offset), index, bits // 8)
        for i in range(len(words)):
            value = _spread(w, index, _extended(words[i], kind, bits))
            if half:
                value = _half(w.vgpr[target][w.sel], value, high=bool(high))
            w.put(target + i, value, w.mask)

    return run


def _extended(values: Words, kind: str, bits: int) -> Words:
    if kind != "i" or bits >= 32:
        return values
    shift = np.int32(32 - bits)
    return ((values.view(np.int32) << shift) >> shift).view(np.uint32)


def _half(old: Array, value: Array, *, high: bool) -> Array:
    low = value & np.uint32(0xFFFF)
    if high:
        return (old & np.uint32(0xFFFF)) | low << np.uint32(16)
    return (old & np.uint32(0xFFFF0000)) | low


def _store(inst: Instruction, match: re.Match[str]) -> Run:
    nbytes, offset = int(match[1]) // 8, _offset(inst)
    data = inst.fields["x"]
    shift = np.uint32(16 if match[2] else 0)

    def run(w: Waves) -> None:
        index = w.positions
        if not len(index):
            return
        dwords = max(1, nbytes // 4)
        rows = np.stack([_register(w, data + i, index) >> shift for i in range(dwords)])
        lds_store(w, inst, _addresses(w, inst, index, offset), index, rows, nbytes)

    return run


def _two(inst: Instruction, match: re.Match[str]) -> Run:
    nbytes = int(match[3]) // 8
    unit = nbytes * (_STRIDE if match[2] else 1)
    dwords = nbytes // 4
    f = inst.fields
    parts = ((f["offset0"] * unit, f["x"], 0), (f["offset1"] * unit, f["y"], dwords))

    def load(w: Waves) -> None:
        index = w.positions
        if not len(index):
            return
        found = [
            lds_load(w, inst, _addresses(w, inst, index, offset), index, nbytes)
            for offset, _, _ in parts
        ]
        for words, (_, _, first) in zip(found, parts, strict=True):
            for i in range(dwords):
                w.put(f["d"] + first + i, _spread(w, index, words[i]), w.mask)

    def store(w: Waves) -> None:
        index = w.positions
        if not len(index):
            return
        for offset, data, _ in parts:
            rows = np.stack([_register(w, data + i, index) for i in range(dwords)])
            lds_store(w, inst, _addresses(w, inst, index, offset), index, rows, nbytes)

    return load if match[1] == "load" else store


def _atomic(inst: Instruction, match: re.Match[str]) -> Run:
    action, returns, kind = match[1], bool(match[2]), match[3]
    nbytes = 8 if kind.endswith("64") else 4
    dwords = nbytes // 4
    f, offset = inst.fields, _offset(inst)

    def run(w: Waves) -> None:
        index = w.positions
        if not len(index):
            return
        where = _addresses(w, inst, index, offset)
        at = _places(w, inst, where, index, nbytes, nbytes)
        rows = [_register(w, f["x"] + i, index) for i in range(dwords)]
        if action in ("cmpstore", "cmpst", "mskor", "wrap"):
            rows += [_register(w, f["y"] + i, index) for i in range(dwords)]
        load, store = _access(w, at >> 2, dwords)
        w.mark_lds(at, nbytes)
        old = apply_atomic(f"{action}_{kind}", at, np.stack(rows), load, store, returns=returns)
        if returns:
            for i in range(dwords):
                w.put(f["d"] + i, _spread(w, index, old[i]), w.mask)

    return run


def _exchange(inst: Instruction, match: re.Match[str]) -> Run:
    """Two exchanges, one after the other; the old values side by side."""
    f, nbytes = inst.fields, int(match[2]) // 8
    unit, dwords = nbytes * (_STRIDE if match[1] else 1), nbytes // 4
    parts = ((f["offset0"] * unit, f["x"]), (f["offset1"] * unit, f["y"]))

    def run(w: Waves) -> None:
        index = w.positions
        if not len(index):
            return
        found = []
        for offset, data in parts:
            at = _places(w, inst, _addresses(w, inst, index, offset), index, nbytes, nbytes)
            rows = np.stack([_register(w, data + i, index) for i in range(dwords)])
            load, store = _access(w, at >> 2, dwords)
            w.mark_lds(at, nbytes)
            name = f"storexchg_b{8 * nbytes}"
            found.append(apply_atomic(name, at, rows, load, store, returns=True))
        for i, words in enumerate([*found[0], *found[1]]):
            w.put(f["d"] + i, _spread(w, index, words), w.mask)

    return run


def _access(
    w: Waves, word: Array, dwords: int
) -> tuple[Callable[[Array], Words], Callable[[Array, Words], None]]:
    """Functions that load and store some of the LDS dwords that begin at `word`."""

    def load(members: Array) -> Words:
        return np.stack([w.lds[word[members] + i] for i in range(dwords)])

    def store(members: Array, values: Words) -> None:
        for i in range(dwords):
            w.lds[word[members] + i] = values[i]

    return load, store


def _swizzle(inst: Instruction) -> Run:
    target, source, offset = inst.fields["d"], inst.fields["a"], _offset(inst)

    def run(w: Waves) -> None:
        index = swizzle_sources(offset, w.lanes)
        value = w.vgpr[source][w.sel][:, index]
        usable = w.active[:, index]
        w.put(target, np.where(usable, value, np.uint32(0)), w.mask)

    return run


def _picked(inst: Instruction, w: Waves, addresses: Array) -> Array:
    """The lane that each byte address names, among those of its part of the wave."""
    # src: llvm GCNSubtarget.h, supportsWaveWideBPermute: gfx10 and gfx11 reach 32 lanes.
    part = min(w.lanes, inst.family.permute_lanes)
    within = (addresses >> np.uint32(2) & np.uint32(part - 1)).astype(np.intp)
    answer: Array = within + (np.arange(w.lanes) & -part)
    return answer


def _bpermute(inst: Instruction) -> Run:
    f, offset = inst.fields, np.uint32(_offset(inst))

    def run(w: Waves) -> None:
        index = _picked(inst, w, w.vgpr[f["a"]][w.sel] + offset)
        value = np.take_along_axis(w.vgpr[f["x"]][w.sel], index, axis=1)
        usable = np.take_along_axis(w.active, index, axis=1)
        w.put(f["d"], np.where(usable, value, np.uint32(0)), w.mask)

    return run


def _permute(inst: Instruction) -> Run:
    f, offset = inst.fields, np.uint32(_offset(inst))

    def run(w: Waves) -> None:
        picks = _picked(inst, w, w.vgpr[f["a"]][w.sel] + offset)
        active = w.active
        rows, lanes = np.nonzero(active)
        value = np.zeros((w.n, w.lanes), np.uint32)
        value[rows, picks[rows, lanes]] = w.vgpr[f["x"]][w.sel][rows, lanes]
        w.put(f["d"], value, w.mask)

    return run


_CROSS_LANE: dict[str, Callable[[Instruction], Run]] = {
    "ds_swizzle_b32": _swizzle,
    "ds_bpermute_b32": _bpermute,
    "ds_permute_b32": _permute,
}
