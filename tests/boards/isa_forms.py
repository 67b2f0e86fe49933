"""Every short vector instruction in its other forms: what each form means, in numpy.

A short instruction on plain registers is the reference. Another form of it, with a long encoding, a
literal, a part of a register (SDWA), lanes from elsewhere (DPP) or modifiers, has to give what the
short one gives on sources that numpy prepared, put where numpy says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boards.amd.isa.decode import VGPR, Family, UnknownInstruction, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.layout import Encoding
from boards.amd.isa.table import MASK, Entry
from boards.amd.wave.execute import bind
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.state import EXEC, VCC, Waves

CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1201")
SDWA, DPP16, DPP8, LITERAL = 249, 250, 233, 255
_SHORT = ("VOP1", "VOP2", "VOPC")
D, A, B = 2, 10, 20
"""Vector registers of the result and of two sources."""
_WAVES = 2
_MODE, _FLUSHING = 0x1F0, 0
_M32 = 0xFFFFFFFF
_OF_SOURCE = re.compile(r"_(f16|f32|f64|bf16|[iub](?:16|24|32|64|4))(?:_e\d+)?$")
ODD = re.compile(
    r"v_(nop|pipeflush|clrexcp|readfirstlane_b32|swap.*|movrel.*|permlane.*|accvgpr.*"
    r"|screen_partition.*|interp.*|s_.*)$"
)
"""Instructions whose operands are none, or are not of the lane that computes."""


@dataclass(frozen=True)
class Short:
    """A short instruction of a family, and what its operands are."""

    family: Family
    layout: Encoding
    entry: Entry

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def kind(self) -> str:
        """The type of its sources, as its name ends; "" where it does not say."""
        match = _OF_SOURCE.search(self.name)
        return match[1] if match else ""

    @property
    def floats(self) -> bool:
        return self.kind in ("f16", "f32", "f64") and not self.packed

    @property
    def packed(self) -> bool:
        """Whether sources are several numbers, which have no signs and no parts."""
        # src: llvm VOP2Instructions.td, VOP_DOT_ACC and V_PK_FMAC_F16: HasExtSDWA = 0.
        return self.name.startswith(("v_dot", "v_pk_fmac"))

    @property
    def sources(self) -> str:
        return "".join(slot.field for slot in self.entry.slots if slot.field in "ab")

    @property
    def wide(self) -> bool:
        """Whether an operand has 64 bits."""
        return any(slot.dwords > 1 for slot in self.entry.slots if slot.field in "dab")

    @property
    def compares(self) -> bool:
        return self.layout.name == "VOPC"

    def word(self, a: int = VGPR + A, b: int = B) -> int:
        """The first dword, with `a` as source 0."""
        fields = {"d": D, "a": a, "b": b}
        used = {slot.field for slot in self.entry.slots} | ({"d"} if not self.compares else set())
        word = self.layout.value | self.entry.opcode << self.layout.opcode[0]
        for name, (low, _) in self.layout.fields.items():
            word |= fields[name] << low if name in used else 0
        return word


def shorts(chip: str) -> Iterator[Short]:
    """The short instructions of a chip, but for odd ones and those with a literal inside."""
    family = FAMILIES[chip]
    for layout in family.layouts:
        if layout.name in _SHORT:
            for entry in layout.entries.values():
                inside = any(slot.field == "k" for slot in entry.slots)
                if not inside and not ODD.match(entry.name):
                    yield Short(family, layout, entry)


def long_of(short: Short) -> tuple[Encoding, Entry] | None:
    """The long encoding of the same instruction, if there is one."""
    for layout in short.family.layouts:
        if layout.name in ("VOP3", "VOP3SD"):
            for entry in layout.entries.values():
                if entry.name == short.name:
                    return layout, entry
    return None


def long_words(short: Short, **fields: int) -> list[int] | None:
    """The long form on the same registers, with VCC where the short one has it."""
    found = long_of(short)
    if found is None:
        return None
    layout, entry = found
    values = {"d": VCC if short.compares else D, "a": VGPR + A, "b": VGPR + B, "s": VCC, "c": VCC}
    if any(slot.field == "c" and slot.dwords != MASK for slot in entry.slots):
        return None
    used = {slot.field.lower() for slot in entry.slots}
    word = layout.value | entry.opcode << layout.opcode[0]
    for name, value in ({n: v for n, v in values.items() if n in used} | fields).items():
        if name not in layout.fields:
            return None
        word |= value << layout.fields[name][0]
    return [word & _M32, word >> 32]


@dataclass(frozen=True)
class State:
    """Vector registers (registers, waves, lanes) and the scalar ones that matter."""

    vgpr: Any
    vcc: Any
    exec: Any

    def with_source(self, register: int, values: Any) -> State:
        """The state with another source register."""
        vgpr = self.vgpr.copy()
        vgpr[register] = values
        return replace(self, vgpr=vgpr)


def start(short: Short, seed: int) -> State:
    """Random registers: sources of the instruction's type, with its edges among them."""
    rng = np.random.default_rng(seed)
    lanes = short.family.lane_counts[0]
    shape = (_WAVES, lanes)
    vgpr = rng.integers(0, 1 << 32, (32, *shape), np.uint32)
    for first in (A, B):
        if short.kind in ("f32", "f16"):
            form = np.float32 if short.kind == "f32" else np.float16
            numbers = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 10, shape)).astype(form)
            raw = numbers.view(f"u{numbers.itemsize}")
            vgpr[first] = raw if form is np.float32 else vgpr[first] & 0xFFFF0000 | raw
        elif short.kind == "f64":
            raw64 = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 10, shape)).view(
                np.uint64
            )
            vgpr[first], vgpr[first + 1] = raw64 & np.uint64(_M32), raw64 >> np.uint64(32)
        else:
            small = rng.integers(0, 40, shape, np.uint32)
            vgpr[first] = np.where(rng.random(shape) < 0.5, small, vgpr[first])
    masks = rng.integers(0, 1 << 32, (2, 2, _WAVES), np.uint32)
    return State(vgpr, masks[0], np.full((2, _WAVES), _M32, np.uint32))


def run(short: Short, words: list[int], state: State, mode: int = _MODE) -> State | None:
    """The state after an instruction; None where no family has it, or it is not executed."""
    family = short.family
    lanes = family.lane_counts[0]
    try:
        inst = decode(family, [*words, 0, 0, 0], 0, lanes)
        function = bind(inst)
    except (UnknownInstruction, UnsupportedOperand):
        return None
    if function is None or inst.name != short.name:
        return None
    w = Waves(_WAVES, lanes, len(state.vgpr), 0, _WAVES, family.null)
    w.vgpr[:] = state.vgpr
    w.sgpr[VCC : VCC + 2], w.sgpr[EXEC : EXEC + 2] = state.vcc, state.exec
    w.set_mode(np.full(_WAVES, mode, np.uint32))
    w.select(np.arange(_WAVES))
    with np.errstate(all="ignore"):
        function(w)
    return State(w.vgpr.copy(), w.sgpr[VCC : VCC + 2].copy(), w.sgpr[EXEC : EXEC + 2].copy())


def differences(short: Short, found: State | None, expected: State | None, form: str) -> list[str]:
    """What a form got wrong, in one line, or nothing."""
    if found is None or expected is None:
        return [] if found is expected else [f"{short.name}, {form}: not executed"]
    used = slice(0, (short.family.lane_counts[0] + 31) // 32)
    pairs = (
        ("registers", found.vgpr, expected.vgpr), ("vcc", found.vcc[used], expected.vcc[used]),
        ("exec", found.exec[used], expected.exec[used]),
    )  # fmt: skip
    return [f"{short.name}, {form}: {what}" for what, x, y in pairs if not np.array_equal(x, y)]
