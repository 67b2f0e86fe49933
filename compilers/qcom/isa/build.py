"""Short ways to write instructions, and distances of branches."""

from __future__ import annotations

from collections.abc import Sequence

from compilers.qcom.isa.bits import refused
from compilers.qcom.isa.instruction import Cond, Insn, Type
from compilers.qcom.isa.operand import P0_X, Operand


def op(name: str, dst: Operand | None, *srcs: Operand, **fields: int) -> Insn:
    """Any instruction without flags: op("add.f", gpr(0), gpr(1), gpr(2))."""
    return Insn(op=name, dst=dst, srcs=srcs, fields=fields)


def mov(kind: Type, dst: Operand, source: Operand) -> Insn:
    """A move of one type."""
    return Insn(op="mov", dst=dst, srcs=(source,), fields={"dst_type": kind, "src_type": kind})


def cov(to: Type, dst: Operand, of: Type, source: Operand) -> Insn:
    """A conversion."""
    return Insn(op="mov", dst=dst, srcs=(source,), fields={"dst_type": to, "src_type": of})


def compare(name: str, cond: Cond, dst: Operand, left: Operand, right: Operand) -> Insn:
    """cmps.f, cmps.s, cmps.u, and cmpv.*."""
    return Insn(op=name, dst=dst, srcs=(left, right), fields={"cond": cond})


def load(
    name: str, kind: Type, dst: Operand, address: Operand, size: int = 1, off: int = 0
) -> Insn:
    """ldg (a 64-bit address in two registers), ldl, ldp: `size` components."""
    fields = {"type": int(kind), "size": size, "off": off}
    return Insn(op=name, dst=dst, srcs=(address,), fields=fields)


def store(
    name: str, kind: Type, address: Operand, data: Operand, size: int = 1, off: int = 0
) -> Insn:
    """stg, stl, stp."""
    fields = {"type": int(kind), "size": size, "off": off}
    return Insn(op=name, srcs=(address, data), fields=fields)


def label(name: str) -> Insn:
    """A place that branches name; no instruction."""
    return Insn(op="label", name=name)


def jump(target: str) -> Insn:
    """Always."""
    return Insn(op="jump", label=target)


def branch(target: str, predicate: Operand, *, inverted: bool = False, name: str = "br") -> Insn:
    """Lanes where the predicate holds (or does not): br, bany, ball."""
    fields = {"inv1": int(inverted), "comp1": predicate.number - P0_X}
    return Insn(op=name, fields=fields, label=target)


def link(code: Sequence[Insn]) -> list[Insn]:
    """The instructions alone, branches with their distances. Raises: CompileError."""
    places: dict[str, int] = {}
    real: list[Insn] = []
    for insn in code:
        if insn.op != "label":
            real.append(insn)
        elif insn.name is None or insn.name in places:
            raise refused(f"label {insn.name} twice")
        else:
            places[insn.name] = len(real)
    for place, insn in enumerate(real):
        if insn.label is not None:
            if insn.label not in places:
                raise refused(f"no label {insn.label}")
            insn.fields["target"] = places[insn.label] - place
    return real
