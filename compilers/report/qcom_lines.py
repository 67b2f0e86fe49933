"""The report of kernels for Adreno GPUs: instructions, free slots and bytes for each operation.

Counted in the machine code by the compiler's own decoder; nothing is timed. A step is a turn of the
hot loop of one lane. Operations are sums and products of floats: a mad is two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from compilers import toolchains
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.objects.listing import disassemble
from compilers.plan.schedule import Step, plan
from compilers.plan.signature import rebuild, signature
from compilers.qcom.isa.encode import decode
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.targets import CHIPS, QcomTarget
from drivers.base.contracts import Binary
from queues.qcom.kernel_code import AdrenoCode

_OPERATIONS: Final = {"mad.f32": 2, "mad.f16": 2, "add.f": 1, "mul.f": 1}
_GLOBAL: Final = frozenset({"ldg", "ldg.a", "stg", "stg.a"})
_SHARED: Final = frozenset({"ldl", "stl"})
_PRIVATE: Final = frozenset({"ldp", "stp"})
_TEXEL: Final = "isam"
_TYPE_BYTES: Final = {0: 2, 1: 4, 2: 2, 3: 4, 4: 2, 5: 4, 6: 1, 7: 1}
"""# src: Mesa 25.0.7, ir3-common.xml, #type"""


@dataclass(frozen=True, slots=True)
class QcomStep:
    """A turn of a kernel's hot loop, or all of it where it has none; of one lane."""

    looped: bool
    instructions: int
    """All but nops."""
    nops: int
    slots: int
    """Issue slots: instructions with their repetitions, and the free ones."""
    waits: int
    """Instructions with (ss) or (sy)."""
    operations: int
    global_bytes: int
    """Loaded and stored, as texels too."""
    shared_bytes: int
    private_bytes: int
    """Moved because registers are too few."""

    def each(self, number: int) -> str:
        """A number for each operation."""
        return f"{number / self.operations:.2f}" if self.operations else "no"


def count(binary: Binary) -> QcomStep:
    """Count a compiled kernel. Raises: MalformedInput."""
    lines, generation = disassemble(binary), AdrenoCode.of(binary).generation
    hot = [line for line in lines if line.hot]
    code = [decode(int.from_bytes(line.code, "little"), generation) for line in hot or lines]
    nops = [insn for insn in code if insn.op == "nop"]
    return QcomStep(
        looped=bool(hot),
        instructions=len(code) - len(nops),
        nops=len(nops),
        slots=sum(1 + insn.repeat + insn.nop for insn in code),
        waits=sum(bool(insn.flags & {"ss", "sy"}) for insn in code),
        operations=sum(_OPERATIONS.get(insn.op, 0) * (insn.repeat + 1) for insn in code),
        global_bytes=_moved(code, _GLOBAL) + _texels(code),
        shared_bytes=_moved(code, _SHARED),
        private_bytes=_moved(code, _PRIVATE),
    )


def _moved(code: Sequence[Insn], ops: frozenset[str]) -> int:
    return sum(
        insn.fields["size"] * _TYPE_BYTES[insn.fields["type"]] for insn in code if insn.op in ops
    )


def _texels(code: Sequence[Insn]) -> int:
    return sum(
        insn.fields["mask"].bit_count() * _TYPE_BYTES[insn.fields["type"]]
        for insn in code
        if insn.op == _TEXEL
    )


def target_of(arch: str) -> Target:
    """The compiler's parameters of a chip."""
    return Target.gpu_of(arch, CHIPS[arch].units)


def steps(root: Node, arch: str) -> tuple[Step, ...]:
    """The plan of an expression for a chip."""
    key, _ = signature([root])
    return plan(rebuild(key).roots, target_of(arch)).steps


def lines_of(root: Node, arch: str) -> Iterator[str]:
    """The report of an expression for one chip."""
    for step in steps(root, arch):
        kernel = step.kernel
        binary = toolchains.build(kernel, "IR3", arch, frozenset()).in_blocks_of(kernel.block)
        yield from described(binary, CHIPS[arch], kernel.name, kernel.grid)


def described(binary: Binary, target: QcomTarget, name: str, grid: int) -> Iterator[str]:
    """The lines of one kernel."""
    code, found, needs = AdrenoCode.of(binary), count(binary), binary.resources
    place = "a turn of the loop" if found.looped else "in all"
    waves = target.waves(
        code.full_registers, needs.block, needs.shared_bytes, code.branch_stack, code.wave_lanes
    )
    yield (
        f"{name}: {grid} workgroups of {needs.block} lanes, {code.full_registers} vec4 of "
        f"registers, {needs.shared_bytes} bytes of local memory, {code.private_bytes} of private"
    )
    yield (
        f"  {waves} waves of {code.wave_lanes} lanes in flight; {place}: {found.instructions} "
        f"instructions, {found.slots - found.instructions} of {found.slots} slots free, "
        f"{found.waits} waits"
    )
    yield (
        f"  {found.operations} sums and products of a lane; for each {found.each(found.slots)} "
        f"slots, {found.each(found.instructions)} instructions, {found.each(found.global_bytes)} "
        f"bytes of memory, {found.each(found.shared_bytes)} of local memory"
    )
