"""Which registers an instruction reads and writes, for the strict checks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boards.amd.isa.decode import VCC, VGPR, Instruction, Operand
from boards.amd.isa.vector_ops import OPS
from boards.amd.wave.operands import constant
from boards.amd.wave.state import EXEC, SGPRS

_HIGH = 128
_SDWA_KEEP = 2
_FAR = {
    "v_movrels_b32": "a", "v_movreld_b32": "d", "v_movrelsd_b32": "ad", "v_movrelsd_2_b32": "ad",
    "v_swaprel_b32": "ad", "s_movrels_b32": "a", "s_movrels_b64": "a", "s_movreld_b32": "d",
    "s_movreld_b64": "d",
}  # fmt: skip
"""Operands that are counted from M0: only running the instruction gives the register."""
_ANY_LANE = frozenset({"v_readlane_b32", "v_writelane_b32"})
_WIDE_LAST = frozenset({"v_mad_u64_u32", "v_mad_i64_i32", "v_mov_b64"})
"""The upper half of the last operand may be undefined. Compilers use the first two for a 32-bit
a * b + c too, and the move for two values of which only the first is defined; then the result's
upper half means nothing either, which is not followed."""
_BY_BIT = frozenset(
    f"s_{name}_b64"
    for name in ("mov", "not", "and", "or", "xor", "and_not1", "or_not1", "nand", "nor", "xnor")
)
"""Scalar pairs, bit by bit. Compilers make one of two operations of 32 bits where the upper one
means nothing: the upper half of the result is then as undefined as what it was made of."""
_FIELDS = frozenset({"s_bfe_i64", "s_bfe_u64"})
"""LLVM widens a short number with them and leaves the half that they skip undefined."""
_PAIR, _QUAD = 2, 4
_PAIR_MOVE, _LOW_AND_HIGH = "v_pk_mov_b32", 0b10
_PAIRS = frozenset({_PAIR_MOVE, "v_pk_add_f32", "v_pk_fma_f32", "v_pk_mul_f32"})
"""LLVM makes one of two operations of which only one has a meaning, on gfx90a and later."""
_NO_RESULT = ("s_cmp", "s_bitcmp", "s_setreg", "s_setpc", "s_barrier", "s_sleep", "s_set_gpr")
_ACCUMULATES = ("fmac", "dot2acc", "dot2c_", "dot4c_", "dot8c_", "v_mac_")
_KEEPS = (
    "v_swap_b32", "v_permlane16_swap", "v_permlane32_swap", "v_cvt_sr_", "v_cvt_scalef32_pk_fp",
    "v_cvt_scalef32_pk_bf8",
)  # fmt: skip
"""Instructions that read their destination, too: they change a part of it, or exchange it."""
_STORES = ("store_", "ds_store")
_SHORT_ACCESS = re.compile(
    r"(?:ds_|buffer_)?(?:load_.*d16(?!_format)|(store)_(?:d16_hi_)?b(?:8|16)(?:_d16_hi)?$)"
)
_LOADED = {"DS": "d", "FLAT": "d", "MUBUF": "x"}


@dataclass(frozen=True, slots=True)
class Touch:
    """Register numbers. `any_lane`: the lanes read are not those of EXEC."""

    vector_reads: tuple[int, ...]
    vector_writes: tuple[int, ...]
    scalar_reads: tuple[int, ...]
    scalar_writes: tuple[int, ...]
    vector: frozenset[int]
    scalar: frozenset[int]
    counter: str
    """"vm", "lgkm", "smem" or "flat" when the results arrive later, "store" or "flat store" when
    the family counts stores like loads, else "".
    """
    any_lane: bool
    crooked: str
    """Registers in a row that do not begin where hardware needs it; "" when all do."""
    upper: tuple[int, tuple[int, ...]] | None = None
    """A scalar register that is defined when all of others are, which are not in `scalar_reads`."""
    halves: tuple[tuple[int, frozenset[int]], ...] = ()
    """Vector registers that are each defined where the registers are that it is made of."""
    part: tuple[int, int] = (-1, 0)
    """A vector register of which a memory instruction touches one half alone: 1 lower, 2 upper."""


def touch(inst: Instruction) -> Touch:
    """The registers of an instruction."""
    reads: list[Operand] = []
    writes: list[Operand] = []
    for part in inst.halves or (inst,):
        _operands(part, reads, writes)
    vr, sr = _numbers(inst, reads)
    vw, sw = _numbers(inst, writes)
    sr = tuple(r for r in sr if r < EXEC)
    sw = tuple(r for r in sw if r < EXEC)
    scalar = frozenset(sr + sw)
    upper = None
    if inst.meaning in _BY_BIT and len(sw) == _PAIR:
        above = [o.code + 1 for o in reads if o.dwords == _PAIR and o.code < EXEC]
        upper = sw[1], tuple(r for r in sr if r in above)
        sr = tuple(r for r in sr if r not in above)
    return Touch(
        vr, vw, sr, sw, frozenset(vr + vw), scalar, _counter(inst), inst.meaning in _ANY_LANE,
        _crooked(inst, [*reads, *writes]), upper, _halves(inst), _part(inst, reads, writes),
    )  # fmt: skip


def _part(inst: Instruction, reads: list[Operand], writes: list[Operand]) -> tuple[int, int]:
    """The half of a register that a load writes or a store reads, where halves are apart.

    # src: LLVM SIInsertWaitcnts.cpp, determineVGPR16Dependency: since gfx11 a memory instruction
    # src: waits for loads into its own half, a vector instruction for those into both.
    """
    match = _SHORT_ACCESS.match(inst.meaning)
    if match is None or not inst.family.split_registers:
        return -1, 0
    field = "x" if match[1] else _LOADED[inst.encoding]
    data = next((o for o in (*writes, *reads) if o.field == field), None)
    addresses = {o.vgpr + i for o in reads if o is not data for i in range(o.dwords)}
    if data is None or data.vgpr in addresses:
        return -1, 0
    return data.vgpr, 2 if "hi" in inst.meaning else 1


def _halves(inst: Instruction) -> tuple[tuple[int, frozenset[int]], ...]:
    """Of packed operations on dwords: each target, and the registers that op_sel picks for it."""
    if inst.meaning not in _PAIRS:
        return ()
    f, (target, *sources) = inst.fields, inst.operands
    picks = (f["op_sel"], f["hi_ab"] | f["hi_c"] << 2)
    if inst.meaning == _PAIR_MOVE:  # a dword of source 0 below, one of source 1 above
        made = [[(sources[0], f["op_sel"] & 1)], [(sources[1], f["op_sel"] >> 1 & 1)]]
    else:
        made = [[(o, pick >> i & 1) for i, o in enumerate(sources)] for pick in picks]
    return tuple(
        (
            target.code - VGPR + half,
            frozenset(o.code - VGPR + high for o, high in parts if o.code >= VGPR),
        )
        for half, parts in enumerate(made)
    )


def _crooked(inst: Instruction, operands: list[Operand]) -> str:
    # src: LLVM SIRegisterInfo.td, SGPR tuples: pairs begin with an even one, longer ones at fours.
    for o in operands:
        if o.dwords < _PAIR or o.code == inst.family.null:
            continue
        unit = _PAIR if o.dwords == _PAIR else _QUAD
        if o.code < SGPRS and o.code % unit:
            return f"s{o.code} and {o.dwords - 1} more"
        if o.code >= VGPR and inst.family.aligned_vectors and o.code % _PAIR:
            return f"v{o.code - VGPR} and {o.dwords - 1} more"
    return ""


def _numbers(inst: Instruction, operands: list[Operand]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    vector: list[int] = []
    scalar: list[int] = []
    for o in operands:
        for i in range(o.dwords):
            if o.code >= VGPR:
                vector.append(_plain(inst, o) + i)
            elif o.code < SGPRS and o.code != inst.family.null:
                scalar.append(o.code + i)
    return tuple(vector), tuple(scalar)


def _plain(inst: Instruction, o: Operand) -> int:
    """The register of an operand, with the upper half of a short 16-bit one mapped back."""
    register = o.code - VGPR
    short = inst.encoding in ("VOP1", "VOP2", "VOPC") and inst.family.split_registers
    if short and register >= _HIGH:
        op = OPS.get(inst.meaning)
        kinds = (*op.results, *op.sources) if op else ()
        if any(kind.endswith("16") for kind in kinds) and _is_half(inst, o):
            return register - _HIGH
    return register


def _is_half(inst: Instruction, o: Operand) -> bool:
    op = OPS[inst.meaning]
    targets = 0 if inst.meaning.startswith("v_cmpx") else len(op.results)
    kinds = (*op.results[:targets], *op.sources)
    for operand, kind in zip(inst.operands, kinds, strict=False):
        if operand == o:
            return kind.endswith("16")
    return False


def _operands(inst: Instruction, reads: list[Operand], writes: list[Operand]) -> None:
    if inst.encoding == "FLAT":
        _flat(inst, reads, writes)
        return
    if inst.encoding == "SMEM":
        writes.extend(o for o in inst.operands if o.field == "d")
        reads.extend(o for o in inst.operands if o.field == "b")
        if inst.operands and inst.fields["soffset"] not in inst.family.off:
            reads.append(Operand("q", inst.fields["soffset"], 1))
        return
    if inst.encoding == "DS":
        for o in inst.operands:
            (writes if o.field == "d" else reads).append(o)
        return
    if inst.encoding == "MUBUF":
        _buffer(inst, reads, writes)
        return
    targets = _targets(inst)
    far = _FAR.get(inst.meaning, "")
    for number, o in enumerate(inst.operands):
        if o.field in "kioh" or o.field in far:
            continue
        if inst.meaning in _WIDE_LAST and number == len(inst.operands) - 1:
            o = o._replace(dwords=1)
        if inst.encoding == "VOP3P" and number >= targets and o.dwords == _PAIR:
            if inst.meaning == _PAIR_MOVE and number > targets and _is_move(inst):
                continue
            o = _picked(inst, o, number - targets)
        if number == 1 and _merges(inst):
            continue
        if number == 1 and inst.meaning in _FIELDS:
            o = _field(inst, o)
        (writes if number < targets else reads).append(o)
    _implied(inst, reads)


def _merges(inst: Instruction) -> bool:
    """Whether a mask loses the lanes that are on, to be given new ones: `old & ~exec`.

    LLVM begins such masks undefined: a lane that was never on never reads its bit.
    """
    if inst.meaning not in ("s_and_not1_b32", "s_and_not1_b64"):
        return False
    mask, _, off = inst.operands
    return mask.code < EXEC and off.code == EXEC


def _is_move(inst: Instruction) -> bool:
    """Whether v_pk_mov_b32 moves one pair as it is: gfx90a's v_mov_b64, as in _WIDE_LAST."""
    _, low, high = inst.operands
    return low.code == high.code and inst.fields["op_sel"] & 3 == _LOW_AND_HIGH


def _picked(inst: Instruction, o: Operand, source: int) -> Operand:
    """The dwords of a pair that op_sel and op_sel_hi pick for packed f32: one, when they agree."""
    if inst.meaning == _PAIR_MOVE:
        return o._replace(code=o.code + (inst.fields["op_sel"] >> source & 1), dwords=1)
    if not (inst.meaning.startswith("v_pk_") and inst.meaning.endswith("_f32")):
        return o
    f = inst.fields
    low, high = f["op_sel"] >> source & 1, (f["hi_ab"] | f["hi_c"] << 2) >> source & 1
    return o._replace(code=o.code + low, dwords=1) if low == high else o


def _field(inst: Instruction, o: Operand) -> Operand:
    """The dwords that a bit field of a pair lies in, where offset and width are constants."""
    # src: RDNA3 ISA, S_BFE_I64: offset in 5:0 of source 1, width in 22:16.
    control = constant(inst.operands[2].code, "u32", inst.literal)
    if control is None:
        return o
    first, width = control & 0x3F, control >> 16 & 0x7F
    last = min(first + max(width, 1), 64) - 1
    return o._replace(code=o.code + first // 32, dwords=last // 32 - first // 32 + 1)


def _targets(inst: Instruction) -> int:
    if inst.meaning.startswith(_NO_RESULT) or not inst.operands:
        return 0
    if inst.name in inst.family.waits:
        return 0
    if inst.meaning.startswith("v_cmpx"):
        return int(inst.operands[0].field in "VD")
    if len(inst.operands) > 1 and inst.operands[1].field in "sV" and inst.encoding[0] == "V":
        return 1 if inst.encoding == "VOPC" else 2
    return 1


def _implied(inst: Instruction, reads: list[Operand]) -> None:
    accumulates = any(part in inst.meaning for part in _ACCUMULATES)
    accumulates = accumulates or (inst.sdwa is not None and inst.sdwa.unused == _SDWA_KEEP)
    if accumulates or inst.meaning in ("s_addk_i32", "s_mulk_i32"):
        reads.append(inst.operands[0])
    if inst.meaning.startswith("v_div_fmas") or inst.name == "v_dual_cndmask_b32":
        reads.append(Operand("V", VCC, 1))
    if inst.meaning.startswith(_KEEPS):
        reads.append(inst.operands[0])


def _flat(inst: Instruction, reads: list[Operand], writes: list[Operand]) -> None:
    f = inst.fields
    segment, based = f["segment"], f["saddr"] not in inst.family.off
    for o in inst.operands:
        if o.field == "a":
            if segment == 1:
                reads.extend([Operand("a", o.code, 1)] if inst.scratch_vector else [])
            else:
                reads.append(Operand("a", o.code, 1 if segment == 2 and based else 2))
        elif o.field == "d":
            writes.append(o)
        else:
            reads.append(o)
    if segment and based:
        reads.append(Operand("q", f["saddr"], 2 if segment == 2 else 1))
    data = inst.operand("x")
    if inst.meaning.startswith("atomic") and f["glc"] and data is not None:
        width = data.dwords // 2 if "cmpswap" in inst.meaning else data.dwords
        writes.append(Operand("d", VGPR + f["d"], width))


def _buffer(inst: Instruction, reads: list[Operand], writes: list[Operand]) -> None:
    f = inst.fields
    for o in inst.operands:
        if o.field == "a":
            reads.extend([o._replace(dwords=f["offen"] + f["idxen"])])
        elif o.field == "x" and "_load_" in inst.meaning:
            writes.append(o)
        else:
            reads.append(o)
            if o.field == "x" and _returns(inst):
                writes.append(o._replace(dwords=o.dwords // (2 if "cmpswap" in inst.name else 1)))


def _returns(inst: Instruction) -> bool:
    return "atomic_" in inst.meaning and bool(inst.fields["glc"])


def _counter(inst: Instruction) -> str:
    if inst.encoding == "SMEM":
        return "smem" if inst.operands else ""
    if inst.name.startswith("s_sendmsg_rtn"):
        return "smem"
    if inst.encoding == "DS":
        return "lgkm"
    if inst.encoding not in ("MUBUF", "FLAT") or not inst.operands:
        return ""
    flat = inst.encoding == "FLAT" and inst.fields["segment"] == 0
    if "load_" in inst.meaning or _returns(inst):
        return "flat" if flat else "vm"
    kind = "flat store" if flat else "store"
    return kind if kind in inst.family.counters else ""
