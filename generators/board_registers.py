"""The board's register files, from the kernel's register headers: fields as their shifts say.

A reading of its own: lines are taken word by word, a field begins at its `__SHIFT` and is as wide
as its mask has bits, where `driver_registers` asks masks alone. A line is
`name segment 0xoffset field=low:high ...` (see boards/amd/pci/register_table.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from generators.command import run
from generators.source import AMD, Generator, Source, Unreadable, head
from generators.wanted import wanted
from unbound import terminal

NAME = "board_registers"
FOLDER = "boards/amd/pci/registers"
_HEADERS = (
    "gc/gc_9_4_3", "gc/gc_11_0_0", "gc/gc_11_0_3", "gc/gc_12_0_0",
    "hdp/hdp_4_4_2", "hdp/hdp_6_0_0", "hdp/hdp_7_0_0",
    "mmhub/mmhub_1_8_0", "mmhub/mmhub_3_0_0", "mmhub/mmhub_3_0_2", "mmhub/mmhub_4_1_0",
    "mp/mp_13_0_2", "mp/mp_13_0_6", "mp/mp_14_0_2",
    "nbif/nbif_6_3_1", "nbio/nbio_4_3_0", "nbio/nbio_7_9_0",
    "oss/osssys_4_4_2", "oss/osssys_6_0_0", "oss/osssys_7_0_0", "sdma/sdma_4_4_2",
    "smuio/smuio_13_0_6",
)  # fmt: skip
OUTPUTS = {f"{FOLDER}/{headers.partition('/')[2]}.txt": headers for headers in _HEADERS}
_LISTS = {"nbif": "nbio", "oss": "osssys"}
"""Lists of wanted registers that are not called as their headers' folder."""
_WORD_BITS = 32
_MACRO_WORDS = 3
"""#define NAME VALUE"""
_REPEATED = re.compile(r"VM_(?:CONTEXT|INVALIDATE_ENG)(?!0_|17_)\d+_")
"""VM contexts and invalidation engines but the first and the driver's: fields are the first's."""


def _defines(text: str) -> dict[str, str]:
    """Every macro of a header that is one word long."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == _MACRO_WORDS and words[0] == "#define":
            found[words[1]] = words[2].rstrip("UL")
    return found


def _fields(macros: dict[str, str], keep: Callable[[str], bool]) -> dict[str, list[str]]:
    """The wanted registers' fields as `name=low:high`, without those that are a whole word."""
    found: dict[str, list[str]] = {}
    for name, value in macros.items():
        if not name.endswith("__SHIFT"):
            continue
        whole = name.removesuffix("__SHIFT")
        register, _, field = whole.partition("__")
        if not keep(register) or _REPEATED.search(register):
            continue
        mask = int(macros.get(f"{whole}_MASK", "0"), 0)
        if not mask:
            continue  # SQ_CONFIG__DISABLE_SGPR_RD_KILL of gc_11_0_0 and others: no mask is there
        low, width = int(value, 0), mask.bit_count()
        if mask >> low != (1 << width) - 1:
            raise Unreadable(f"{whole}: shift {value} does not fit mask {mask:#x}")
        if width < _WORD_BITS:
            high = low + width - 1
            found.setdefault(register, []).append(
                f"{field}={low}" if width == 1 else f"{field}={low}:{high}"
            )
    return found


def make(source: Source, output: str) -> str:
    """The text of one register file."""
    headers = OUTPUTS[output]
    folder, _, name = headers.partition("/")
    path = f"{AMD}/include/asic_reg/{headers}"
    offsets = _defines(source.read(f"{path}_offset.h"))
    keep = wanted(f"board_{_LISTS.get(folder, folder)}")
    fields = _fields(_defines(source.read(f"{path}_sh_mask.h")), keep)
    rows = []
    for macro, number in offsets.items():
        register = macro.removeprefix("reg").removeprefix("mm")
        if segment := offsets.get(f"{macro}_BASE_IDX"):
            rows.append((int(segment), int(number, 0), register))
    lines = [
        f"{name}: name, segment, dword offset in it, fields as name=low[:high]; those of repeated",
        "VM contexts and invalidation engines are with the first of them",
    ]
    text = head(NAME, output, source) + "".join(f"# {line}\n" for line in lines)
    for segment_of, offset, register in sorted(filter(lambda row: keep(row[2]), rows)):
        text += " ".join([register, str(segment_of), f"{offset:#x}", *fields.get(register, [])])
        text += "\n"
    return text


GENERATOR = Generator(NAME, OUTPUTS, make)

if __name__ == "__main__":
    terminal.run(lambda _: run(GENERATOR))
