"""Instructions to 64-bit words and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from compilers.qcom.isa.bits import refused
from compilers.qcom.isa.forms import Form
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.slots import Draft, Flag, HasFields, Slot
from compilers.qcom.isa.tables import all_forms, form


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the parts of one form go."""

    form: Form
    fields: frozenset[str]
    flags: Mapping[str, int]
    """Name -> bit."""
    slots: tuple[Slot, ...]
    """All that are not flags."""


@cache
def _places(op: str, generation: int) -> _Places:
    found = form(op, generation)
    fields = {name for slot in found.slots if isinstance(slot, HasFields) for name in slot.names}
    flags = {slot.name: slot.bit for slot in found.slots if isinstance(slot, Flag)}
    slots = tuple(slot for slot in found.slots if not isinstance(slot, Flag))
    return _Places(found, frozenset(fields), flags, slots)


def encode(insn: Insn, generation: int) -> int:
    """The 64 bits. Raises: CompileError for what does not fit or has no place."""
    places = _places(insn.op, generation)
    if not (places.fields.issuperset(insn.fields) and insn.flags <= places.flags.keys()):
        strange = [*(insn.fields.keys() - places.fields), *(insn.flags - places.flags.keys())]
        raise refused(f"{insn.op} has no {', '.join(sorted(strange))}")
    word = places.form.match | places.form.precision.put(insn)
    for flag in insn.flags:
        word |= 1 << places.flags[flag]
    for slot in places.slots:
        word |= slot.put(insn)
    return word


def encode_all(code: Sequence[Insn], generation: int) -> bytes:
    """Instructions as they lie in memory; branches have their distances. Raises: CompileError."""
    words = [encode(insn, generation) for insn in code]
    return b"".join(word.to_bytes(8, "little") for word in words)


@cache
def _by_category(generation: int) -> dict[int, list[Form]]:
    """Forms of each category, those with more fixed bits first."""
    sorted_forms = sorted(all_forms(generation), key=lambda one: -one.mask.bit_count())
    return {
        category: [one for one in sorted_forms if one.match >> 61 == category]
        for category in range(8)
    }


def decode(word: int, generation: int) -> Insn:
    """The instruction of 64 bits. Raises: CompileError."""
    for found in _by_category(generation)[word >> 61]:
        if word & found.mask == found.match:
            return _read(word, found)
    raise refused(f"no instruction of generation {generation}: {word:#018x}")


def _read(word: int, found: Form) -> Insn:
    src_half, dst_half = found.precision.halves(word)
    draft = Draft(word, src_half, dst_half)
    for slot in found.slots:
        slot.get(draft)
    return assembled(found, draft)


def assembled(found: Form, draft: Draft) -> Insn:
    """The instruction of a draft whose parts are all there."""
    sources = [draft.operands[f"src{i}"] for i in range(6) if f"src{i}" in draft.operands]
    targets = [draft.operands[f"dst{i}"] for i in range(1, 4) if f"dst{i}" in draft.operands]
    return Insn(
        op=found.op, dst=draft.operands.get("dst"), srcs=tuple(sources),
        more_dsts=tuple(targets), fields=draft.fields, flags=draft.flags, repeat=draft.repeat,
        nop=draft.nop,
    )  # fmt: skip
