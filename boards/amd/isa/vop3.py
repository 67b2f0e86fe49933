"""The VOP3 forms of short vector instructions: their opcodes and operands."""

from __future__ import annotations

from collections.abc import Mapping

from boards.amd.isa.table import MASK, Entry, Slot

Entries = Mapping[int, Entry]


def promoted(entry: Entry, base: int) -> Entry:
    """The VOP3 form of a short instruction: what was VCC becomes a scalar operand."""
    slots: list[Slot] = []
    compare = bool(entry.slots) and entry.slots[0].field == "V"
    for number, slot in enumerate(entry.slots):
        if slot.field == "V":
            kind = "D" if compare else "s" if number == 1 else "c"
            slots.append(Slot(kind, MASK))
        else:
            slots.append(slot)
    return Entry(entry.name, base + entry.opcode, tuple(slots))


def long_forms(
    own: Entries, short: Mapping[int, Entries], without: frozenset[str]
) -> tuple[dict[int, Entry], dict[int, Entry]]:
    """VOP3 and VOP3SD: VOP3's own entries, and those of `short` (by the opcode they start at).

    `without` has no long form. An instruction with a scalar destination is a VOP3SD one.
    """
    entries = dict(own)
    for base, table in short.items():
        for entry in table.values():
            if entry.name not in without:
                entries[base + entry.opcode] = promoted(entry, base)
    carry = {o: e for o, e in entries.items() if any(s.field == "s" for s in e.slots)}
    return {o: e for o, e in entries.items() if o not in carry}, carry
