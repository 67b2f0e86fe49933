"""VOP3 forms of the short vector encodings, which RDNA's tables leave out."""

from __future__ import annotations

from boards.amd.isa.table import MASK, Entries, Entry, Slot

_ONLY_SHORT = frozenset({
    "v_readfirstlane_b32", "v_swap_b32", "v_swaprel_b32", "v_permlane64_b32", "v_pk_fmac_f16",
    "v_dot2acc_f32_f16", "v_fmamk_f32", "v_fmaak_f32", "v_fmamk_f16", "v_fmaak_f16",
    "v_nop", "v_dot2c_f32_f16", "v_dot4c_i32_i8", "v_pipeflush", "v_clrexcp",
})  # fmt: skip
# src: RDNA3 ISA 15.3, VOP3 opcodes: VOPC from 0, VOP2 from 0x100, VOP1 from 0x180; RDNA4 too.
_VOPC, _VOP2, _VOP1 = 0, 0x100, 0x180


def _promoted(entry: Entry, base: int) -> Entry:
    """The VOP3 form of a short instruction: what was VCC becomes a scalar operand."""
    slots: list[Slot] = []
    compare = entry.slots and entry.slots[0].field == "V"
    for number, slot in enumerate(entry.slots):
        if slot.field == "V":
            kind = "D" if compare else "s" if number == 1 else "c"
            slots.append(Slot(kind, MASK))
        else:
            slots.append(slot)
    return Entry(entry.name, base + entry.opcode, tuple(slots))


def vop3(
    only_long: Entries, vopc: Entries, vop2: Entries, vop1: Entries, *, vop1_at: int = _VOP1,
    only_short: frozenset[str] = _ONLY_SHORT,
) -> tuple[dict[int, Entry], dict[int, Entry]]:  # fmt: skip
    """All VOP3 entries: those without and those with a scalar destination (VOP3SD)."""
    entries = dict(only_long)
    for base, short in ((_VOPC, vopc), (_VOP2, vop2), (vop1_at, vop1)):
        for entry in short.values():
            if entry.name not in only_short:
                entries[base + entry.opcode] = _promoted(entry, base)
    carry = {o: e for o, e in entries.items() if any(s.field == "s" for s in e.slots)}
    return {o: e for o, e in entries.items() if o not in carry}, carry
