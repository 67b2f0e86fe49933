"""The driver's register files, from the kernel's register headers: fields as their masks say.

A reading of its own: `board_registers` makes the board's files in another way, and a test compares
the two. A line is `NAME SEGMENT OFFSET field:low-high ...` (see drivers/bare/registers.py).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from generators.command import run
from generators.source import AMD, Generator, Source, Unreadable, head
from generators.wanted import wanted
from unbound import terminal

NAME = "driver_registers"
FOLDER = "drivers/amd/pci/registers"
_OFFSET = re.compile(r"#define (?:reg|mm)(\w+?)(_BASE_IDX)?\s+(0x[0-9a-fA-F]+|\d+)\s*$", re.M)
_MASK = re.compile(r"#define (\w+?)__(\w+)_MASK\s+(0x[0-9a-fA-F]+)L?\s*$", re.M)
_ENTRY = re.compile(r"_ENTRY_(\d+)")
_WORD = (0, 31)
_FEW = 2
"""Registers with fewer fields spell them out."""
Field = tuple[str, int, int]


class Block(NamedTuple):
    """What one file is made from."""

    headers: str
    """Below include/asic_reg, without _offset.h."""
    names: str
    """List of the wanted registers."""
    roles: tuple[str, ...] = ()
    """`OLD NEW`: names that begin with OLD may be asked for as NEW."""
    note: str = ""


_GC = ("GCVM_ VM_", "GCMC_VM_ MC_VM_")
_MMHUB = ("MMVM_ VM_", "MMMC_VM_ MC_VM_")
_NBIO = ("BIF_BX0_", "BIF_BX_PF0_", "RCC_DEV0_EPF0_")
BLOCKS = {
    "gc_9_4_3": Block("gc/gc_9_4_3", "driver_gc"),
    "gc_11_0_0": Block("gc/gc_11_0_0", "driver_gc", _GC),
    "gc_11_0_3": Block("gc/gc_11_0_3", "driver_gc", _GC),
    "gc_12_0_0": Block(
        "gc/gc_12_0_0", "driver_gc", (*_GC, "GRBM_CC_GC_ CC_GC_", "GRBM_GC_USER_ GC_USER_")
    ),
    "hdp_4_4_2": Block("hdp/hdp_4_4_2", "driver_hdp"),
    "hdp_6_0_0": Block("hdp/hdp_6_0_0", "driver_hdp"),
    "hdp_7_0_0": Block("hdp/hdp_7_0_0", "driver_hdp"),
    "mmhub_1_8_0": Block("mmhub/mmhub_1_8_0", "driver_mmhub"),
    "mmhub_3_0_0": Block("mmhub/mmhub_3_0_0", "driver_mmhub", _MMHUB),
    "mmhub_3_0_2": Block("mmhub/mmhub_3_0_2", "driver_mmhub", _MMHUB),
    "mmhub_4_1_0": Block("mmhub/mmhub_4_1_0", "driver_mmhub", _MMHUB),
    "mp0_13_0_2": Block("mp/mp_13_0_2", "driver_mp0", ("MP0_SMN_",)),
    "mp0_14_0_2": Block("mp/mp_14_0_2", "driver_mp0", ("MPASP_SMN_",)),
    "mp1_13_0_0": Block(
        "mp/mp_13_0_0", "driver_mp1", ("MP1_SMN_",),
        "Also for 14.0.2: its own header spells the same registers as segment 1, offset less 0x200."
    ),
    "nbif_6_3_1": Block("nbif/nbif_6_3_1", "driver_nbio", (*_NBIO, "GDC_S2A0_")),
    "nbio_4_3_0": Block("nbio/nbio_4_3_0", "driver_nbio", _NBIO),
    "nbio_7_9_0": Block("nbio/nbio_7_9_0", "driver_nbio", _NBIO),
    "osssys_4_4_2": Block("oss/osssys_4_4_2", "driver_osssys"),
    "osssys_6_0_0": Block("oss/osssys_6_0_0", "driver_osssys"),
    "osssys_7_0_0": Block("oss/osssys_7_0_0", "driver_osssys"),
    "sdma_4_4_2": Block("sdma/sdma_4_4_2", "driver_sdma"),
}  # fmt: skip
OUTPUTS = {f"{FOLDER}/{name}.txt": block for name, block in BLOCKS.items()}


def places_of(text: str) -> dict[str, tuple[int, int]]:
    """Every register's segment and dword offset."""
    numbers = {(name, bool(base)): int(value, 0) for name, base, value in _OFFSET.findall(text)}
    return {
        name: (numbers[name, True], offset)
        for (name, base), offset in numbers.items()
        if not base and (name, True) in numbers
    }


def fields_of(text: str) -> dict[str, list[Field]]:
    """Every register's fields, in the header's order."""
    found: dict[str, list[Field]] = {}
    for register, name, digits in _MASK.findall(text):
        mask = int(digits, 16)
        low, high = (mask & -mask).bit_length() - 1, mask.bit_length() - 1
        if mask != (1 << high + 1) - (1 << low):
            raise Unreadable(f"{register}__{name}_MASK {digits} is not one run of bits")
        found.setdefault(register, []).append((name, low, high))
    return found


def _own(register: str, field: str) -> str:
    """A field's name without the number of the doorbell entry whose register it is in."""
    entry = _ENTRY.search(register)
    if entry is None:
        return field
    pattern = rf"(?:s2a_doorbell_port|bif_doorbell|doorbell){entry[1]}_(.*?)(?:_entry)?"
    shorter = re.fullmatch(pattern, field)
    return shorter[1] if shorter else field


def _spelled(register: str, fields: list[Field], seen: dict[str, str]) -> str:
    """Fields of one register as text: none for a whole word, `=NAME` for those of another."""
    if [(low, high) for _, low, high in fields] == [_WORD]:
        return ""
    text = "".join(
        f" {_own(register, name.lower())}:{low}" + (f"-{high}" if high > low else "")
        for name, low, high in fields
    )
    other = seen.setdefault(text, register)
    return text if other == register or len(fields) < _FEW else f" ={other}"


def make(source: Source, output: str) -> str:
    """The text of one register file."""
    block = OUTPUTS[output]
    path = f"{AMD}/include/asic_reg/{block.headers}"
    places = places_of(source.read(f"{path}_offset.h"))
    fields = fields_of(source.read(f"{path}_sh_mask.h"))
    keep, seen = wanted(block.names), dict[str, str]()
    lines = [f"# {block.note}"] if block.note else []
    lines += [f"role {role}" for role in block.roles]
    for name in sorted(filter(keep, places), key=places.__getitem__):
        segment, offset = places[name]
        lines.append(f"{name} {segment} {offset:x}{_spelled(name, fields.get(name, []), seen)}")
    return head(NAME, output, source) + "".join(f"{line}\n" for line in lines)


GENERATOR = Generator(NAME, OUTPUTS, make)

if __name__ == "__main__":
    terminal.run(lambda _: run(GENERATOR))
