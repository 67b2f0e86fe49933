"""What an ir3 instruction reads and writes, counted once: passes ask for it many times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.operand import Kind, Operand
from compilers.qcom.operands import Access, category, reads, units, writes

_LOCAL_LOADS: Final = frozenset({"ldl", "ldlv", "ldlw"})
_SS_RESULTS: Final = frozenset({"shfl", "getfiberid", "resinfo.b"})
_SY_LOADS: Final = frozenset({"ldg", "ldg.a", "ldib.b", "ldp", "ldc", "resbase"})
_BOTH: Final = frozenset({"getspid", "getwid"})
_ALU: Final = (1, 2, 3)
_SIMPLE: Final = (1, 2, 3, 4)
"""Categories whose instructions read each source once, unless they repeat."""
_MANY: Final = frozenset({"gat", "swz", "sct", "movmsk"})
_DIRECT: Final = (Kind.GPR, Kind.CONST, Kind.IMMEDIATE, Kind.FLUT)
_CONSTS: Final = (Kind.CONST, Kind.RELATIVE_CONST)


class Effects(NamedTuple):
    """Of one instruction in one generation. Masks have a bit for each unit."""

    kind: int
    """The category."""
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    read_mask: int
    write_mask: int
    consts: bool
    """Whether it reads the constant file."""
    counts: bool
    """Whether it fills delay slots."""
    ss: bool
    """(ss) waits for its result."""
    sy: bool
    """(sy) waits for its result."""
    is_alu: bool
    """Of categories 1 to 3."""


class Known:
    """Effects of the instructions of one kernel. An instruction that was asked for may get flags
    and free slots, but keeps its operands."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._found: dict[int, Effects] = {}
        self._alive: list[Insn] = []
        """So that no other instruction gets the number of one that was counted."""

    def of(self, insn: Insn) -> Effects:
        """Of an instruction that is no label. Raises: CompileError for an unknown one."""
        found = self._found.get(id(insn))
        if found is None:
            found = self._found[id(insn)] = effects(insn, self.generation)
            self._alive.append(insn)
        return found


@cache
def _access(number: int, half: bool, after: int) -> Access | None:
    found = units(number, half)
    return Access(found, half, after) if found else None


def _operands(some: Sequence[Operand], last: int) -> tuple[Access, ...]:
    """Accesses of registers that are named directly; the third is read `last` cycles later."""
    found = []
    for place, one in enumerate(some):
        if one.kind is Kind.GPR:
            access = _access(one.number, one.half, last if place == 2 else 0)
            if access is not None:
                found.append(access)
    return tuple(found)


def _is_simple(insn: Insn, kind: int) -> bool:
    if kind not in _SIMPLE or insn.repeat or insn.op in _MANY or insn.fields.get("a1"):
        return False
    if insn.more_dsts or (insn.dst is not None and insn.dst.kind is Kind.RELATIVE):
        return False
    return all(one.kind in _DIRECT for one in insn.srcs)


def effects(insn: Insn, generation: int) -> Effects:
    """Count one instruction. Raises: CompileError for an unknown one."""
    kind = category(insn, generation)
    if _is_simple(insn, kind):
        late = kind == 3 and (generation >= 7 or insn.op.startswith("mad"))
        read = _operands(insn.srcs, (2 if generation < 7 else 1) if late else 0)
        written = () if insn.dst is None else _operands((insn.dst,), 0)
    else:
        read, written = tuple(reads(insn, generation)), tuple(writes(insn, generation))
    shared = insn.dst is not None and insn.dst.is_shared
    return Effects(
        kind, read, written, _mask(read), _mask(written),
        consts=any(one.kind in _CONSTS for one in insn.srcs),
        counts=(kind in _ALU and not shared) or insn.op == "nop",
        ss=kind == 4 or shared or _named_ss(insn.op), sy=kind == 5 or _named_sy(insn.op),
        is_alu=kind in _ALU,
    )  # fmt: skip


@cache
def _named_ss(op: str) -> bool:
    local = op.startswith("atomic.") and op.count(".") == 1
    return local or op in _LOCAL_LOADS or op in _SS_RESULTS or op in _BOTH


@cache
def _named_sy(op: str) -> bool:
    return op in _SY_LOADS or op in _BOTH or op.startswith(("atomic.g.", "atomic.b."))


def _mask(accesses: Iterable[Access]) -> int:
    found = 0
    for one in accesses:
        found |= one.mask
    return found
