"""Global, flat, scratch and scalar memory instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction
from boards.amd.wave.atomics import apply_atomic, known
from boards.amd.wave.lds import lds_load, lds_store
from boards.amd.wave.operands import UnsupportedOperand, pair
from boards.amd.wave.state import Waves
from boards.amd.wave.types import MemoryFault, WaveFault
from boards.machine.arrays import Addresses, Array, Words

Run = Callable[[Waves], Any]
_LOAD = re.compile(r"load_(d16_)?(hi_)?([iub])(\d+)$")
_SHORT_LOAD = re.compile(r"s_load_([iu])(\d+)$")
_STORE = re.compile(r"store_(d16_hi_)?b(\d+)$")
_FLAT, _SCRATCH, _GLOBAL = 0, 1, 2
_APERTURE_SHIFT = np.uint64(32)


def bind_memory(inst: Instruction) -> Run | None:
    """A function for a FLAT, GLOBAL, SCRATCH or SMEM instruction, or None."""
    if inst.encoding == "SMEM":
        return _scalar_load(inst) if inst.meaning.startswith("s_load") else None
    load = _LOAD.match(inst.meaning)
    if load:
        return _load(inst, load)
    store = _STORE.match(inst.meaning)
    if store:
        return _store(inst, store)
    if inst.meaning.startswith("atomic_"):
        return _atomic(inst)
    return None


def _scalar_load(inst: Instruction) -> Run:
    f = inst.fields
    target, base = inst.operands[0], inst.operands[1].code
    step = np.uint64(inst.offset & (1 << 64) - 1)
    based = f["soffset"] not in inst.family.off
    match = _SHORT_LOAD.match(inst.meaning)
    kind, bits = (match[1], int(match[2])) if match else ("b", 32 * target.dwords)
    nbytes = bits // 8
    dropped = np.uint64(min(nbytes, 4) - 1)

    def run(w: Waves) -> None:
        va = w.scalar64(base) + step
        if based:
            va = va + w.scalar(f["soffset"]).astype(np.uint64)
        if w.observer is not None:
            w.observer.misaligned(w, inst, va & dropped)
        words = guarded(w, inst, w.memory.load, va & ~dropped, nbytes, None)
        for i, word in enumerate(narrow(words, kind, bits)):
            w.put_scalar(target.code + i, word)

    return run


def guarded(
    w: Waves, inst: Instruction, access: Callable[..., Any], va: Addresses, *rest: Any
) -> Any:
    """Call a memory function; a MemoryFault becomes a WaveFault that names wave and lane."""
    *arguments, lanes = rest
    try:
        return access(va, *arguments)
    except MemoryFault as fault:
        position = fault.index if lanes is None else int(lanes[fault.index])
        row, lane = (position, 0) if lanes is None else divmod(position, w.lanes)
        raise WaveFault(
            fault.kind,
            pc=inst.pc,
            text=inst.name,
            wave=w.first_wave + int(w.waves[row]),
            lane=lane,
            va=fault.va,
            access=fault.access,
        ) from fault


def require_aligned(w: Waves, inst: Instruction, va: Addresses, nbytes: int, lanes: Array) -> None:
    """Atomics lie on their own size; loads and stores lie anywhere.

    # src: LLVM AMDGPUUsage and GCNSubtarget.cpp: the HSA ABI has SH_MEM_CONFIG.ALIGNMENT_MODE
    # UNALIGNED, which Linux sets (gfx_v11_0_constants_init()) and atomics are not subject to.
    """

    def refuse(addresses: Addresses) -> None:
        bad = addresses & np.uint64(nbytes - 1)
        if bad.any():
            at = int(np.argmax(bad != 0))
            raise MemoryFault("misaligned", "write", int(addresses[at]), at)

    guarded(w, inst, refuse, va, lanes)


class Lanes:
    """The active lanes of the selection: flat positions, or None when all are on."""

    def __init__(self, w: Waves) -> None:
        mask = w.mask
        self.positions = None if mask is None else np.flatnonzero(mask)

    def pick(self, values: Array) -> Array:
        flat = values.reshape(-1)
        return flat if self.positions is None else flat[self.positions]

    def spread(self, w: Waves, values: Array, dtype: Any = np.uint32) -> Array:
        if self.positions is None:
            return values.reshape(w.n, w.lanes)
        full = np.zeros(w.n * w.lanes, dtype)
        full[self.positions] = values
        return full.reshape(w.n, w.lanes)

    def index(self, w: Waves) -> Array:
        return np.arange(w.n * w.lanes) if self.positions is None else self.positions


def addresses(inst: Instruction) -> Callable[[Waves], Addresses]:
    """Global or flat addresses (n, lanes) of an instruction."""
    f = inst.fields
    segment = f["segment"]
    raw = inst.offset
    offset = np.uint64(raw & (1 << 64) - 1)
    register = f["a"]
    if segment == _SCRATCH:
        return _scratch_addresses(inst, raw)
    if segment == _GLOBAL and f["saddr"] not in inst.family.off:
        base = f["saddr"]

        def based(w: Waves) -> Addresses:
            start = (w.scalar64(base) + offset)[:, None]
            answer: Addresses = np.add(w.vgpr[register][w.sel], start, dtype=np.uint64)
            return answer

        return based

    def plain(w: Waves) -> Addresses:
        va = pair(w.vgpr[register][w.sel], w.vgpr[register + 1][w.sel])
        return va + offset if raw else va

    return plain


def _scratch_addresses(inst: Instruction, offset: int) -> Callable[[Waves], Addresses]:
    """Byte offsets into a lane's scratch; `swizzle` turns them into addresses."""
    f = inst.fields

    def run(w: Waves) -> Addresses:
        base = np.full((w.n, w.lanes), np.uint32(offset & 0xFFFFFFFF), np.uint32)
        if inst.scratch_vector:
            base += w.vgpr[f["a"]][w.sel]
        if f["saddr"] not in inst.family.off:
            base += w.scalar(f["saddr"])[:, None]
        return base.astype(np.uint64)

    return run


def _piece(offsets: Array, nbytes: int) -> int:
    """Scratch bytes that lie side by side: a dword, or single bytes of unaligned elements."""
    size = min(nbytes, 4)
    return 1 if (offsets & np.uint64(size - 1)).any() else size


def swizzle(w: Waves, inst: Instruction, offsets: Array, lanes: Lanes, first: int) -> Addresses:
    """Where byte `first` of each active lane's scratch element lies in memory."""
    # src: RDNA3 ISA 12.3: scratch is interleaved by dword over the lanes of a wave.
    index = lanes.index(w)
    where = lanes.pick(offsets) + np.uint64(first)
    limit = np.uint64(w.scratch_wave_bytes // w.lanes)
    bad = np.flatnonzero(where >= limit)
    if len(bad):
        at = int(index[bad[0]])
        raise WaveFault(
            "out of range", pc=inst.pc, text=inst.name, lane=at % w.lanes,
            wave=w.first_wave + int(w.waves[at // w.lanes]), va=int(where[bad[0]]),
            access="scratch", detail=f"a lane has {int(limit)} bytes",
        )  # fmt: skip
    wave = w.waves[index // w.lanes].astype(np.uint64)
    lane = (index % w.lanes).astype(np.uint64)
    if inst.family.own_scratch:
        start = _flat_scratch(w, inst.family.flat_scratch)[index // w.lanes]
    else:
        start = np.uint64(w.scratch_va) + wave * np.uint64(w.scratch_wave_bytes)
    unit = np.uint64(4)
    answer: Addresses = start + where // unit * np.uint64(4 * w.lanes) + lane * unit + where % unit
    return answer


def _flat_scratch(w: Waves, register: int) -> Addresses:
    """Where the scratch of each selected wave begins, as its kernel said."""
    if register < 0:
        answer: Addresses = w.flat_scratch[w.sel]
        return answer
    low, high = (w.scalar(register + i).astype(np.uint64) for i in range(2))
    return low | high << np.uint64(32)


def read_elements(w: Waves, inst: Instruction, va: Array, lanes: Lanes, nbytes: int) -> Words:
    """Elements of the active lanes from whatever segment they are in: (dwords, active)."""
    segment = inst.fields["segment"]
    if segment == _SCRATCH:
        return _scratch_load(w, inst, va, lanes, nbytes)
    where = lanes.pick(va)
    if segment == _FLAT:
        high = where >> _APERTURE_SHIFT
        shared = high == np.uint64(w.shared_base >> 32)
        private = high == np.uint64(w.private_base >> 32)
        w.reached_lds = np.zeros(w.n, np.bool_)
        w.reached_lds[lanes.index(w)[shared] // w.lanes] = True
        if shared.any() or private.any():
            return _flat_load(w, inst, where, lanes, nbytes, shared, private)
    words: Words = guarded(w, inst, w.memory.load, where, nbytes, lanes.index(w))
    return words


def _scratch_load(w: Waves, inst: Instruction, va: Array, lanes: Lanes, nbytes: int) -> Words:
    index = lanes.index(w)
    piece = _piece(lanes.pick(va), nbytes)
    rows = np.zeros((max(1, nbytes // 4), len(index)), np.uint32)
    for first in range(0, nbytes, piece):
        where = swizzle(w, inst, va, lanes, first)
        part = guarded(w, inst, w.memory.load, where, piece, index)
        rows[first // 4] |= part[0] << np.uint32(8 * (first % 4))
    return rows


class _Subset(Lanes):
    """Some of the active lanes."""

    def __init__(self, positions: Array) -> None:
        self.positions = positions


def _flat_load(
    w: Waves, inst: Instruction, where: Array, lanes: Lanes, nbytes: int,
    shared: Array, private: Array,
) -> Words:  # fmt: skip
    result = np.zeros((max(1, nbytes // 4), len(where)), np.uint32)
    index = lanes.index(w)
    plain = ~(shared | private)
    low = where & np.uint64(0xFFFFFFFF)
    if plain.any():
        result[:, plain] = guarded(w, inst, w.memory.load, where[plain], nbytes, index[plain])
    if shared.any():
        result[:, shared] = lds_load(w, inst, low[shared], index[shared], nbytes)
    if private.any():
        offsets = np.zeros(w.n * w.lanes, np.uint64)
        offsets[index[private]] = low[private]
        subset = _Subset(index[private])
        result[:, private] = _scratch_load(w, inst, offsets, subset, nbytes)
    return result


def write_elements(
    w: Waves, inst: Instruction, va: Array, lanes: Lanes, data: Words, nbytes: int
) -> None:
    """Store the columns of `data` (dwords, active)."""
    segment = inst.fields["segment"]
    if segment == _SCRATCH:
        _scratch_store(w, inst, va, lanes, data, nbytes)
        return
    where, index = lanes.pick(va), lanes.index(w)
    if segment == _FLAT:
        high = where >> _APERTURE_SHIFT
        low = where & np.uint64(0xFFFFFFFF)
        shared = high == np.uint64(w.shared_base >> 32)
        private = high == np.uint64(w.private_base >> 32)
        if shared.any():
            lds_store(w, inst, low[shared], index[shared], data[:, shared], nbytes)
        if private.any():
            offsets = np.zeros(w.n * w.lanes, np.uint64)
            offsets[index[private]] = low[private]
            part = data[:, private]
            _scratch_store(w, inst, offsets, _Subset(index[private]), part, nbytes)
        plain = ~(shared | private)
        if not plain.any():
            return
        where, index, data = where[plain], index[plain], data[:, plain]
    guarded(w, inst, w.memory.store, where, data, nbytes, index)


def _scratch_store(
    w: Waves, inst: Instruction, va: Array, lanes: Lanes, data: Words, nbytes: int
) -> None:
    piece = _piece(lanes.pick(va), nbytes)
    for first in range(0, nbytes, piece):
        where = swizzle(w, inst, va, lanes, first)
        part = data[first // 4] >> np.uint32(8 * (first % 4))
        guarded(w, inst, w.memory.store, where, part[None], piece, lanes.index(w))


def narrow(values: Words, kind: str, bits: int) -> Words:
    """Sign or zero extension of a loaded element."""
    if bits >= 32 or kind != "i":
        return values
    shift = np.int32(32 - bits)
    return ((values.view(np.int32) << shift) >> shift).view(np.uint32)


def merge_half(old: Array, value: Array, *, high: bool) -> Array:
    """A loaded 16-bit value in one half of a register, the other half kept."""
    low = value & np.uint32(0xFFFF)
    if high:
        return (old & np.uint32(0xFFFF)) | low << np.uint32(16)
    return (old & np.uint32(0xFFFF0000)) | low


def _load(inst: Instruction, match: re.Match[str]) -> Run:
    half, high, kind, bits = match[1], match[2], match[3], int(match[4])
    register = inst.operands[0].code - VGPR
    where = addresses(inst)
    nbytes = bits // 8

    def run(w: Waves) -> None:
        lanes = Lanes(w)
        w.reached_lds = None
        if lanes.positions is not None and not len(lanes.positions):
            return
        words = read_elements(w, inst, where(w), lanes, nbytes)
        for i in range(len(words)):
            value = lanes.spread(w, narrow(words[i], kind, bits))
            if half:
                value = merge_half(w.vgpr[register][w.sel], value, high=bool(high))
            w.put(register + i, value, w.mask)

    return run


def _store(inst: Instruction, match: re.Match[str]) -> Run:
    bits = int(match[2])
    data = inst.operand("x")
    if data is None:
        return lambda w: None
    register, dwords = data.code - VGPR, data.dwords
    where = addresses(inst)
    shift = np.uint32(16 if match[1] else 0)

    def run(w: Waves) -> None:
        lanes = Lanes(w)
        if lanes.positions is not None and not len(lanes.positions):
            return
        rows = [lanes.pick(w.vgpr[register + i][w.sel]) >> shift for i in range(dwords)]
        write_elements(w, inst, where(w), lanes, np.stack(rows), bits // 8)

    return run


def _atomic(inst: Instruction) -> Run:
    data = inst.operand("x")
    if data is None or inst.fields["segment"] == _SCRATCH:
        raise UnsupportedOperand(inst.meaning)
    name = inst.meaning.removeprefix("atomic_")
    if not known(name):
        raise UnsupportedOperand(inst.name)
    width = 8 if name.endswith("64") else 4
    register, target = data.code - VGPR, inst.fields["d"]
    where, returns = addresses(inst), bool(inst.fields["glc"])

    def run(w: Waves) -> None:
        lanes = Lanes(w)
        if lanes.positions is not None and not len(lanes.positions):
            return
        rows = [lanes.pick(w.vgpr[register + i][w.sel]) for i in range(data.dwords)]
        va = where(w)
        flat = lanes.pick(va)
        require_aligned(w, inst, flat, width, lanes.index(w))

        def load(index: Array) -> Words:
            return read_elements(w, inst, va, _Subset(lanes.index(w)[index]), width)

        def store(index: Array, values: Words) -> None:
            subset = _Subset(lanes.index(w)[index])
            write_elements(w, inst, va, subset, values, width)

        old = apply_atomic(name, flat, np.stack(rows), load, store, returns=returns)
        w.reached_lds = None
        if returns:
            for i in range(len(old)):
                w.put(target + i, lanes.spread(w, old[i]), w.mask)

    return run
