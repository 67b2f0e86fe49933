"""Scalar instructions bound to functions: registers, SCC, EXEC, MODE, and where to go next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from boards.amd.isa.decode import LITERAL, Instruction, Operand
from boards.amd.isa.scalar_ops import SCALAR, ScalarOp
from boards.amd.wave.operands import BITS, DTYPES, constant, scalar32, scalar64
from boards.amd.wave.state import EXEC, VCC, Waves
from boards.amd.wave.types import WaveFault
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
_MODE_REGISTER = 1
_MINUS_ONE, _MASK16 = 193, 0xFFFF
"""The inline constant -1 as an operand, and as a 16-bit immediate."""
_SHADER_CYCLES, _CYCLES_MASK = 29, 0xFFFFF
_FLAT_SCRATCH = (20, 21)
_REALTIME_MESSAGE = 131
_IGNORED = frozenset({
    "s_nop", "s_clause", "s_delay_alu", "s_set_inst_prefetch_distance", "s_setprio", "s_sendmsg",
    "s_sleep", "s_waitcnt_depctr", "s_icache_inv", "s_ttracedata",
    "s_ttracedata_imm", "s_incperflevel", "s_decperflevel", "s_code_end", "s_wakeup",
    "s_gl1_inv", "s_dcache_inv", "buffer_gl0_inv", "buffer_gl1_inv", "s_wait_event", "s_sleep_var",
    "s_prefetch_inst", "s_prefetch_inst_pc_rel", "s_prefetch_data", "s_buffer_prefetch_data",
    "s_prefetch_data_pc_rel", "s_version", "buffer_inv", "buffer_wbl2", "s_dcache_wb",
    "s_dcache_inv_vol", "s_dcache_wb_vol", "v_clrexcp",
})  # fmt: skip
"""Instructions without an effect that a program of this executor can see."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Waves where `taken` holds go to `target`, the others on. `taken` None: all."""

    target: Any
    taken: Array | None = None


END, BARRIER, BARRIER_SIGNAL, BARRIER_WAIT = Jump(-1), Jump(-2), Jump(-3), Jump(-4)


def bind_scalar(inst: Instruction) -> Run | None:
    """A function for a scalar instruction (memory and wait counts excepted), or None."""
    name = inst.meaning
    op = SCALAR.get(name)
    if op is not None:
        return _plain(inst, op)
    if name in _IGNORED:
        return lambda w: None
    if name in _CONTROL:
        return _CONTROL[name](inst)
    if name.startswith(("s_branch", "s_cbranch")):
        return _branch(inst)
    if "saveexec" in name or "wrexec" in name:
        return _save_exec(inst)
    return None


def scalar_reader(inst: Instruction, o: Operand, kind: str) -> Run:
    """A function that fetches a scalar operand as an array (n,)."""
    if o.field == "i":
        value = inst.fields["i"]
        extended = value - (1 << 16) if value >> 15 and kind != "u16" else value
        literal = np.array([extended & 0xFFFFFFFF], np.uint32).view(DTYPES[kind])
        return lambda w: np.broadcast_to(literal, (w.n,))
    bits = inst.literal or 0 if o.field == "k" else constant(o.code, kind, inst.literal)
    if bits is not None:
        wide = o.code == LITERAL and kind in ("u64", "i64")
        bits = bits & 0xFFFFFFFF if wide and kind == "u64" else bits
        raw = np.array([bits & (1 << BITS[kind]) - 1], f"u{BITS[kind] // 8}")
        value_array = raw.view(DTYPES[kind])
        return lambda w: np.broadcast_to(value_array, (w.n,))
    dtype = DTYPES[kind]
    if BITS[kind] == 64:
        return lambda w: scalar64(w, o.code).view(dtype)
    if BITS[kind] == 16:
        return lambda w: scalar32(w, o.code).astype(np.uint16).view(dtype)
    return lambda w: scalar32(w, o.code).view(dtype)


def put_result(w: Waves, o: Operand, kind: str, value: Array) -> None:
    """Write a scalar result of a type."""
    if BITS[kind] == 64:
        w.put_scalar64(o.code, value.astype(DTYPES[kind], copy=False).view(np.uint64))
    elif BITS[kind] == 16:
        raw = np.ascontiguousarray(value, DTYPES[kind]).view(np.uint16)
        w.put_scalar(o.code, raw.astype(np.uint32))
    else:
        w.put_scalar(o.code, value.astype(DTYPES[kind], copy=False).view(np.uint32))


def _plain(inst: Instruction, op: ScalarOp) -> Run:
    only = op.scc == "only"
    sources = inst.operands if only else inst.operands[1:]
    if inst.meaning.startswith("s_cmpk") and op.sources[0] == "u32":
        reads = [scalar_reader(inst, sources[0], "u32"), _unsigned_immediate(inst)]
    else:
        reads = [scalar_reader(inst, o, k) for o, k in zip(sources, op.sources, strict=True)]
    target = None if only else inst.operands[0]

    def run(w: Waves) -> None:
        values = [read(w) for read in reads]
        if op.reads_scc:
            values.append(w.scc[w.sel])
        result = op.function(*values)
        if op.scc == "given":
            result, scc = result
            w.scc[w.sel] = scc
        elif only:
            w.scc[w.sel] = result
        elif op.scc:
            w.scc[w.sel] = result != 0
        if target is not None:
            put_result(w, target, op.result, np.asarray(result))

    return run


def _unsigned_immediate(inst: Instruction) -> Run:
    value = np.array([inst.fields["i"]], np.uint32)
    return lambda w: value


def _branch(inst: Instruction) -> Run:
    offset = inst.fields["i"]
    offset = offset - (1 << 16) if offset >> 15 else offset
    target = inst.pc + inst.size_bytes + 4 * offset
    kind = inst.meaning.replace("s_cbranch_", "")
    conditions: dict[str, Callable[[Waves], Array]] = {
        "scc0": lambda w: ~w.scc[w.sel],
        "scc1": lambda w: w.scc[w.sel].copy(),
        "vccz": lambda w: (w.scalar_mask(VCC) == 0).all(axis=1),
        "vccnz": lambda w: (w.scalar_mask(VCC) != 0).any(axis=1),
        "execz": lambda w: (w.exec_words() == 0).all(axis=1),
        "execnz": lambda w: (w.exec_words() != 0).any(axis=1),
    }
    if inst.meaning == "s_branch":
        jump = Jump(target)
        return lambda w: jump
    if kind not in conditions:
        return lambda w: None  # the debugger's conditions are never set
    condition = conditions[kind]
    return lambda w: Jump(target, condition(w))


def _save_exec(inst: Instruction) -> Run:
    """EXEC = source OP EXEC; the old (or, for wrexec, the new) EXEC goes to the destination."""
    target, source = inst.operands
    kind = "u32" if inst.meaning.endswith("b32") else "u64"
    read = scalar_reader(inst, source, kind)
    name = inst.meaning[2:].rsplit("_", 2)[0]
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "and": lambda s, e: s & e,
        "or": lambda s, e: s | e,
        "xor": lambda s, e: s ^ e,
        "nand": lambda s, e: ~(s & e),
        "nor": lambda s, e: ~(s | e),
        "xnor": lambda s, e: ~(s ^ e),
        "and_not0": lambda s, e: ~s & e,
        "or_not0": lambda s, e: ~s | e,
        "and_not1": lambda s, e: s & ~e,
        "or_not1": lambda s, e: s | ~e,
    }
    function, writes_new = functions[name], "wrexec" in inst.meaning
    exec_operand = Operand("d", EXEC, 1)

    def run(w: Waves) -> None:
        old = (w.scalar(EXEC) if kind == "u32" else w.scalar64(EXEC)).copy()
        new = function(read(w), old)
        put_result(w, exec_operand, kind, new)
        put_result(w, target, kind, new if writes_new else old)
        w.scc[w.sel] = new != 0

    return run


def _move_k(inst: Instruction) -> Run:
    target = inst.operands[0]
    read = scalar_reader(inst, inst.operands[1], "i32")
    if inst.meaning == "s_cmovk_i32":
        return lambda w: put_result(
            w, target, "i32", np.where(w.scc[w.sel], read(w), w.scalar(target.code).view(np.int32))
        )
    return lambda w: put_result(w, target, "i32", read(w))


def _add_k(inst: Instruction) -> Run:
    target = inst.operands[0]
    read = scalar_reader(inst, inst.operands[1], "i32")
    multiply = inst.meaning == "s_mulk_i32"

    def run(w: Waves) -> None:
        old = w.scalar(target.code).view(np.int32).astype(np.int64)
        wide = old * read(w) if multiply else old + read(w)
        result = wide.astype(np.int32)
        if not multiply:
            w.scc[w.sel] = result != wide
        put_result(w, target, "i32", result)

    return run


def _conditional_move(inst: Instruction) -> Run:
    target, source = inst.operands
    kind = "u32" if inst.meaning.endswith("b32") else "u64"
    read, old = scalar_reader(inst, source, kind), scalar_reader(inst, target, kind)
    return lambda w: put_result(
        w, target, kind, np.asarray(np.where(w.scc[w.sel], read(w), old(w)))
    )


def _set_bit(inst: Instruction) -> Run:
    target, source = inst.operands
    wide = inst.meaning.endswith("b64")
    kind = "u64" if wide else "u32"
    read, old = scalar_reader(inst, source, "u32"), scalar_reader(inst, target, kind)
    on = "bitset1" in inst.meaning

    def run(w: Waves) -> None:
        dtype = DTYPES[kind]
        bit = dtype(1) << (read(w) & np.uint32(63 if wide else 31)).astype(dtype)
        put_result(w, target, kind, old(w) | bit if on else old(w) & ~bit)

    return run


def _get_pc(inst: Instruction) -> Run:
    after = inst.pc + inst.size_bytes
    return lambda w: put_result(w, inst.operands[0], "u64", np.full(w.n, after, np.uint64))


def _set_pc(inst: Instruction) -> Run:
    read = scalar_reader(inst, inst.operands[-1], "u64")
    swap = inst.meaning == "s_swappc_b64"
    save = _get_pc(inst)

    def run(w: Waves) -> Jump:
        target = read(w).copy()
        if swap:
            save(w)
        return Jump(target)

    return run


def _call(inst: Instruction) -> Run:
    offset = inst.fields["i"]
    offset = offset - (1 << 16) if offset >> 15 else offset
    jump = Jump(inst.pc + inst.size_bytes + 4 * offset)
    save = _get_pc(inst)

    def run(w: Waves) -> Jump:
        save(w)
        return jump

    return run


def _mode(inst: Instruction) -> Run:
    shift = np.uint32(0 if inst.meaning == "s_round_mode" else 4)
    value = np.uint32(inst.fields["i"] & 0xF) << shift
    keep = ~(np.uint32(0xF) << shift)
    return lambda w: w.set_mode((w.mode[w.sel] & keep) | value)


def _hardware_register(inst: Instruction) -> Run | None:
    control = inst.fields["i"]
    number, offset, width = control & 0x3F, control >> 6 & 0x1F, (control >> 11) + 1
    mask = (1 << width) - 1
    if inst.meaning == "s_getreg_b32":
        return _get_register(inst, number, offset, mask)
    if number in _FLAT_SCRATCH and inst.family.own_scratch:
        return _set_flat_scratch(inst, number == _FLAT_SCRATCH[1], offset, mask)
    if number != _MODE_REGISTER:
        return None
    if inst.meaning == "s_setreg_imm32_b32":
        literal = np.array([inst.literal or 0], np.uint32)
        return lambda w: _set_mode_bits(w, literal, offset, mask)
    source = inst.operands[1]
    return lambda w: _set_mode_bits(w, w.scalar(source.code), offset, mask)


def _set_flat_scratch(inst: Instruction, high: bool, offset: int, mask: int) -> Run:
    """FLAT_SCR_LO and FLAT_SCR_HI: where the wave's scratch begins."""
    low = np.uint64(offset + (32 if high else 0))
    keep = np.uint64(mask) << low
    read = scalar_reader(inst, inst.operands[1], "u32")

    def run(w: Waves) -> None:
        old = w.flat_scratch[w.sel] & ~keep
        w.flat_scratch[w.sel] = old | (read(w).astype(np.uint64) << low & keep)

    return run


def _get_register(inst: Instruction, number: int, offset: int, mask: int) -> Run | None:
    target = inst.operands[0]
    low, keep = np.uint32(offset), np.uint32(mask)
    if number == _SHADER_CYCLES:
        return lambda w: w.put_scalar(
            target.code, np.full(w.n, w.steps & _CYCLES_MASK, np.uint32) >> low & keep
        )
    if number != _MODE_REGISTER:
        return None
    return lambda w: w.put_scalar(target.code, w.mode[w.sel] >> low & keep)


def _set_mode_bits(w: Waves, value: Array, offset: int, mask: int) -> None:
    low, keep = np.uint32(offset), np.uint32(mask)
    field = (value & keep) << low
    w.set_mode((w.mode[w.sel] & ~(keep << low)) | field)


def _end(inst: Instruction) -> Run:
    return lambda w: END


def _barrier(inst: Instruction) -> Run:
    return lambda w: BARRIER


def _barrier_signal(inst: Instruction) -> Run | None:
    """Only the workgroup's own barrier, number -1, exists on a board."""
    if inst.operands[0].code != _MINUS_ONE:
        return None
    return lambda w: BARRIER_SIGNAL


def _barrier_wait(inst: Instruction) -> Run | None:
    return (lambda w: BARRIER_WAIT) if inst.fields["i"] == _MASK16 else None


def _trap(inst: Instruction) -> Run:
    """No trap handler is installed on a board: the wave stops there."""
    number = inst.fields["i"]

    def run(w: Waves) -> None:
        raise WaveFault(
            "trap", pc=inst.pc, text=f"s_trap {number}", wave=w.first_wave + int(w.waves[0]),
            detail=f"trap {number}",
        )  # fmt: skip

    return run


def _clock(inst: Instruction) -> Run | None:
    """Both clocks of a board count instructions."""
    if inst.name.startswith("s_sendmsg_rtn") and inst.fields["a"] != _REALTIME_MESSAGE:
        return None
    target = inst.operands[0]
    kind = "u64" if target.dwords > 1 else "u32"
    return lambda w: put_result(w, target, kind, np.full(w.n, w.steps, np.uint64))


_CONTROL: dict[str, Callable[[Instruction], Run | None]] = {
    "s_endpgm": _end,
    "s_barrier": _barrier,
    "s_barrier_signal": _barrier_signal,
    "s_barrier_wait": _barrier_wait,
    "s_movk_i32": _move_k,
    "s_cmovk_i32": _move_k,
    "s_addk_i32": _add_k,
    "s_mulk_i32": _add_k,
    "s_cmov_b32": _conditional_move,
    "s_cmov_b64": _conditional_move,
    "s_bitset0_b32": _set_bit,
    "s_bitset1_b32": _set_bit,
    "s_bitset0_b64": _set_bit,
    "s_bitset1_b64": _set_bit,
    "s_getpc_b64": _get_pc,
    "s_setpc_b64": _set_pc,
    "s_swappc_b64": _set_pc,
    "s_call_b64": _call,
    "s_round_mode": _mode,
    "s_denorm_mode": _mode,
    "s_trap": _trap,
    "s_memtime": _clock,
    "s_memrealtime": _clock,
    "s_sendmsg_rtn_b32": _clock,
    "s_sendmsg_rtn_b64": _clock,
    "s_getreg_b32": _hardware_register,
    "s_setreg_b32": _hardware_register,
    "s_setreg_imm32_b32": _hardware_register,
}
