"""alias.tex of generation 7: sources of the next texture instruction that are not registers.

What stands before it names registers, and what is read in their stead: an immediate, a constant,
another register. The registers themselves need no value, and may be any, also the result's.
src: Mesa 25.0.7, src/freedreno/isa/ir3-cat7.xml, alias; ir3_create_alias_tex_regs.c
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction, Operand
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.operands import Uses, register, register_sink, source
from boards.qcom.wave.state import Waves, slots_of

Run = Callable[[Waves], None]
MOST = 16
"""Entries of the table."""
_SCOPE_TEX = 0


def is_entry(inst: Instruction) -> bool:
    """Whether an instruction makes an entry for the next texture instruction."""
    return inst.op == "alias" and inst.fields["SCOPE"] == _SCOPE_TEX


def check(inst: Instruction) -> None:
    """Raises: NotModelled for an entry of another table, which compute does not have."""
    if not is_entry(inst):
        raise NotModelled("an alias of another scope")


def aliased(entries: Sequence[Instruction], run: Run, uses: Uses) -> Run:
    """The texture instruction with its table. Raises: NotModelled."""
    pairs = [(_destination(one), one.srcs[0]) for one in entries]
    slots = {slot for to, _ in pairs for slot in slots_of(to.number, half=to.half)}
    written = {slot for use in uses.writes for slot in use.slots}
    places = [set(slots_of(to.number, half=to.half)) for to, _ in pairs]
    if any(0 < len(place & written) < len(place) for place in places):
        raise NotModelled("an aliased register of which a half is written, too")
    uses.reads[:] = [use for use in uses.reads if not slots & set(use.slots)]
    reads = [source(operand, "u", uses) for _, operand in pairs]
    old = [register(to.number, "u", half=to.half) for to, _ in pairs]
    sinks = [register_sink(to.number, half=to.half) for to, _ in pairs]

    def with_table(w: Waves) -> None:
        kept: list[Array] = [np.array(read(w)) for read in old]
        values = [np.array(read(w)) for read in reads]
        for write, value in zip(sinks, values, strict=True):
            write(w, value)
        run(w)
        for write, value, place in zip(sinks, kept, places, strict=True):
            if not place & written:
                write(w, value)

    return with_table


def _destination(entry: Instruction) -> Operand:
    if entry.dst is None:
        raise NotModelled("an alias without a register")
    return entry.dst
