"""Registers of AMD's IP blocks by name, as data: one text file for each version of a block.

A line is `NAME SEGMENT OFFSET field:bit field:low-high ...`: the offset in dwords, hexadecimal,
counts from that segment's base, which a chip's discovery table gives; `=NAME` stands for the fields
of an earlier register. `role OLD NEW` at the top lets names that begin with OLD be asked for as
NEW, so that generations are asked alike. Fields whose names repeat the number of their doorbell
entry are without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from drivers.amd.pci.hwid import HwId
from drivers.base.errors import NotFound, Unsupported

Version = tuple[int, int, int]
WORD_BITS = 32
WORD_MASK = (1 << WORD_BITS) - 1

FILES: Mapping[HwId, Mapping[Version, str]] = {
    HwId.GC: {
        (9, 4, 3): "gc_9_4_3", (9, 4, 4): "gc_9_4_3", (11, 0, 0): "gc_11_0_0",
        (11, 0, 2): "gc_11_0_0", (11, 0, 3): "gc_11_0_3",
        (12, 0, 0): "gc_12_0_0", (12, 0, 1): "gc_12_0_0",
    },
    HwId.MMHUB: {
        (1, 8, 0): "mmhub_1_8_0", (3, 0, 0): "mmhub_3_0_0", (3, 0, 2): "mmhub_3_0_2",
        (4, 1, 0): "mmhub_4_1_0",
    },
    HwId.NBIF: {
        (4, 3, 0): "nbio_4_3_0", (4, 3, 1): "nbio_4_3_0", (7, 9, 0): "nbio_7_9_0",
        (6, 3, 1): "nbif_6_3_1",
    },
    HwId.MP0: {
        (13, 0, 0): "mp0_13_0_2", (13, 0, 6): "mp0_13_0_2", (13, 0, 7): "mp0_13_0_2",
        (13, 0, 10): "mp0_13_0_2", (13, 0, 14): "mp0_13_0_2",
        (14, 0, 2): "mp0_14_0_2", (14, 0, 3): "mp0_14_0_2",
    },
    HwId.MP1: {
        (13, 0, 0): "mp1_13_0_0", (13, 0, 6): "mp1_13_0_0", (13, 0, 7): "mp1_13_0_0",
        (13, 0, 10): "mp1_13_0_0", (13, 0, 14): "mp1_13_0_0",
        (14, 0, 2): "mp1_13_0_0", (14, 0, 3): "mp1_13_0_0",
    },
    HwId.OSSSYS: {
        (4, 4, 2): "osssys_4_4_2", (6, 0, 0): "osssys_6_0_0", (6, 0, 1): "osssys_6_0_0",
        (6, 0, 2): "osssys_6_0_0", (7, 0, 0): "osssys_7_0_0",
    },
    HwId.HDP: {
        (4, 4, 2): "hdp_4_4_2", (6, 0, 0): "hdp_6_0_0", (6, 0, 1): "hdp_6_0_0",
        (6, 1, 0): "hdp_6_0_0", (6, 1, 1): "hdp_6_0_0", (7, 0, 0): "hdp_7_0_0",
    },
    HwId.SDMA0: {(4, 4, 2): "sdma_4_4_2", (4, 4, 5): "sdma_4_4_2"},
}  # fmt: skip
"""Which file describes which version of which block. src: Linux 6.12: the headers that the source
files for these versions include (amdgpu_discovery.c says which source file is for which version).
SDMA since gfx11 is in the graphics core's file, as `SDMA0_*` and `SDMA1_*`."""


@dataclass(frozen=True, slots=True)
class Register:
    """One register: where it is, and its fields as (lowest bit, highest bit)."""

    name: str
    segment: int
    offset_dw: int
    fields: Mapping[str, tuple[int, int]]

    def mask(self, field: str) -> int:
        """The bits of a field, in place. Raises: NotFound, with the names that there are."""
        bits = self.fields.get(field)
        if bits is None:
            known = ", ".join(self.fields) or "none"
            raise NotFound(f"{self.name} has no field {field!r}", hint=f"It has {known}")
        low, high = bits
        return (1 << high + 1) - (1 << low)

    def encode(self, base: int = 0, /, **values: int) -> int:
        """`base` with some fields changed. Raises: ValueError for what does not fit a field."""
        for field, value in values.items():
            mask = self.mask(field)
            shifted = value << self.fields[field][0]
            if value < 0 or shifted & ~mask:
                raise ValueError(f"{self.name}.{field} = {value:#x} does not fit its bits")
            base = base & ~mask | shifted
        return base

    def decode(self, value: int) -> dict[str, int]:
        """Every field of a value."""
        return {
            field: value >> low & (1 << high - low + 1) - 1
            for field, (low, high) in self.fields.items()
        }


class RegisterFile:
    """The registers of one version of one block."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.registers: dict[str, Register] = {}
        self.roles: list[tuple[str, str]] = []
        for line in text.splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "role":
                self.roles.append((words[1], words[2] if len(words) > 2 else ""))
            else:
                self._add(words)
        self._by_role = {
            new + name.removeprefix(old): register
            for old, new in self.roles
            for name, register in self.registers.items()
            if name.startswith(old)
        }

    def _add(self, words: list[str]) -> None:
        fields: dict[str, tuple[int, int]] = {}
        for word in words[3:]:
            if word.startswith("="):
                fields = dict(self.registers[word[1:]].fields)
                continue
            field, _, bits = word.partition(":")
            low, _, high = bits.partition("-")
            fields[field] = (int(low), int(high or low))
        self.registers[words[0]] = Register(words[0], int(words[1]), int(words[2], 16), fields)

    def __contains__(self, name: str) -> bool:
        return name in self.registers or name in self._by_role

    def get(self, name: str) -> Register:
        """A register by its vendor's name or its role. Raises: NotFound."""
        register = self.registers.get(name) or self._by_role.get(name)
        if register is None:
            raise NotFound(
                f"{self.name} has no register {name!r}",
                hint="Names are the vendor's, without reg or mm in front",
            )
        return register


@cache
def load(hw: HwId, version: Version) -> RegisterFile:
    """The registers of a block. Raises: Unsupported for a version that nothing is known about."""
    name = FILES.get(hw, {}).get(version)
    if name is None:
        shown = ".".join(map(str, version))
        raise Unsupported(
            f"the registers of {hw.name} {shown} are not known",
            hint="The chip is newer than this driver: leave it to its kernel driver",
        )
    text = files("drivers.amd.pci").joinpath("registers", f"{name}.txt").read_text("ascii")
    return RegisterFile(name, text)
