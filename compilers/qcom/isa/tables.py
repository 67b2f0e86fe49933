"""All forms, by opcode and generation."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from compilers.qcom.isa import alias, alu, flow, memory, memory_bindless, texture
from compilers.qcom.isa.bits import refused
from compilers.qcom.isa.forms import Form


@cache
def _tables() -> dict[tuple[str, int], Form]:
    found: dict[tuple[str, int], Form] = {}
    for module in (flow, alias, alu, texture, memory, memory_bindless):
        for form in module.FORMS:
            for generation in form.generations:
                found[form.op, generation] = form
    return found


def form(op: str, generation: int) -> Form:
    """The form of an opcode. Raises: CompileError."""
    found = _tables().get((op, generation))
    if found is None:
        raise refused(f"no {op} in generation {generation}")
    return found


def all_forms(generation: int) -> Iterable[Form]:
    """Every form of a generation."""
    return [one for (_, of), one in _tables().items() if of == generation]
