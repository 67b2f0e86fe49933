"""Loads that go from memory to LDS without a vector register, and loads from LDS that transpose."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.wave.buffer import buffer_elements
from boards.amd.wave.lds import lds_load, lds_store, lds_sum
from boards.amd.wave.memory import Lanes, addresses, narrow, read_elements
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array, Words

Run = Callable[[Waves], Any]
_NAME = re.compile(
    r"(?:buffer_)?load_(?:lds_)?(?:(ubyte|sbyte|ushort|sshort|dwordx?\d*)|([iub])(\d+))$"
)
_WIDTHS = {
    "ubyte": ("u", 8), "sbyte": ("i", 8), "ushort": ("u", 16), "sshort": ("i", 16),
    "dword": ("b", 32), "dwordx3": ("b", 96), "dwordx4": ("b", 128),
}  # fmt: skip
_GLOBAL = 2
_TRANSPOSED = re.compile(r"ds_load_b(\d+)_tr_b(\d+)$")
_BLOCK = 16
"""Lanes that transpose together."""


def bind_to_lds(inst: Instruction) -> Run | None:
    """A function for a load of memory into LDS, or None.

    Raises: UnsupportedOperand for what goes through registers and says LDS.
    """
    to_lds = inst.meaning.startswith("load_lds_") or bool(
        inst.encoding == "MUBUF" and inst.fields.get("lds")
    )
    if not to_lds or not inst.operands:
        return None
    match = _NAME.match(inst.meaning)
    if match is None:
        raise UnsupportedOperand(f"{inst.name} with lds")
    if inst.encoding == "FLAT" and inst.fields["segment"] != _GLOBAL:
        raise UnsupportedOperand(f"{inst.name} of another segment")
    kind, bits = _WIDTHS[match[1]] if match[1] else (match[2], int(match[3]))
    fetch = _fetch(inst, bits // 8)

    def run(w: Waves) -> None:
        lanes = Lanes(w)
        index = lanes.index(w)
        if not len(index):
            return
        words = narrow(fetch(w, lanes), kind, bits)
        nbytes = max(4, bits // 8)
        # src: CDNA3 ISA 9.1.9: LDS_offset in M0, the instruction's offset and the lane's place.
        base = w.scalar(inst.family.m0).astype(np.int64) + inst.offset
        where = base[index // w.lanes] + index % w.lanes * nbytes
        lds_store(w, inst, where, index, np.asarray(words), nbytes)

    return run


def _fetch(inst: Instruction, nbytes: int) -> Callable[[Waves, Lanes], Words]:
    """Elements of the active lanes from memory."""
    if inst.encoding == "MUBUF":
        return buffer_elements(inst, nbytes)
    where = addresses(inst)
    return lambda w, lanes: read_elements(w, inst, where(w), lanes, nbytes)


def bind_transposed(inst: Instruction) -> Run | None:
    """A function for ds_read_b64_tr_b16 and its like, or None.

    Sixteen lanes read a matrix whose rows lie in the registers of consecutive lanes. Each lane gets
    a column of it.
    """
    # src: CDNA4 ISA 11.4: a column-major A or row-major B, 4 consecutive M or N values in a lane.
    match = _TRANSPOSED.match(inst.meaning)
    if match is None:
        return None
    nbytes, bits = int(match[1]) // 8, int(match[2])
    f, dwords = inst.fields, nbytes // 4
    each = 8 * nbytes // bits
    lane, number = np.arange(_BLOCK)[:, None], np.arange(each)[None, :]
    source, part = _BLOCK // each * number + lane // each, lane % each
    offset = f["offset0"] | f["offset1"] << 8

    def run(w: Waves) -> None:
        index = w.positions
        if not len(index):
            return
        base = lds_sum(w.vgpr[f["a"]][w.sel].reshape(-1)[index], offset)
        rows = np.zeros((w.n * w.lanes, dwords), np.uint32)
        rows[index] = lds_load(w, inst, base, index, nbytes).T
        blocks = _unpacked(rows, bits).reshape(-1, _BLOCK, each)
        words = _packed(np.ascontiguousarray(blocks[:, source, part]).reshape(-1, each), bits)
        for i in range(dwords):
            w.put(f["d"] + i, words[:, i].reshape(w.n, w.lanes), w.mask)

    return run


def _unpacked(rows: Words, bits: int) -> Array:
    """Dwords (n, d) as elements of `bits` bits, each its bits in a row."""
    found = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")
    weights = np.uint32(1) << np.arange(bits, dtype=np.uint32)
    answer: Array = (found.reshape(len(rows), -1, bits) * weights).sum(axis=2, dtype=np.uint32)
    return answer


def _packed(elements: Array, bits: int) -> Words:
    """Elements (n, each) as dwords (n, d)."""
    spread = elements[:, :, None] >> np.arange(bits, dtype=np.uint32) & np.uint32(1)
    octets = np.packbits(
        spread.reshape(len(elements), -1).astype(np.uint8), axis=1, bitorder="little"
    )
    answer: Words = np.ascontiguousarray(octets).view(np.uint32)
    return answer
