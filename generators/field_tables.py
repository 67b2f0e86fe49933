"""Tables that tests compare packets and compute registers with, from the kernel's headers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from generators.command import run
from generators.driver_registers import fields_of, places_of
from generators.source import AMD, Generator, Source, json_head
from generators.wanted import wanted
from unbound import terminal

NAME = "field_tables"
_BASES = {
    "gc_9_4_3": (0x2000, 0xA000), "gc_10_3_0": (0x1260, 0xA000),
    "gc_11_0_0": (0x1260, 0xA000), "gc_12_0_0": (0x1260, 0xA000),
}  # fmt: skip
"""Segments 0 and 1 of the graphics core.

src: include/{aldebaran,sienna_cichlid}_ip_offset.h GC_BASE.

Later chips have them in their discovery tables.
"""
_HEADERS = ("vega10_sdma_pkt_open.h", "navi10_sdma_pkt_open.h", "sdma_v6_0_0_pkt_open.h")
_PACKETS = {
    "NOP": "NOP", "COPY_LINEAR": "COPY_LINEAR", "WRITE_UNTILED": "WRITE", "INDIRECT": "INDIRECT",
    "FENCE": "FENCE", "TRAP": "TRAP", "POLL_REGMEM": "POLL_REGMEM", "ATOMIC": "ATOMIC",
    "CONSTANT_FILL": "CONST_FILL", "TIMESTAMP_GET_GLOBAL": "TIMESTAMP", "GCR_REQ": "GCR_REQ",
}  # fmt: skip
"""Packets of the headers, and what they are called here."""
_OTHER_PACKETS = "SUBWIN_|BC_"
"""What follows a packet's name in the names of others: COPY_LINEAR_SUBWIN is no COPY_LINEAR."""
_LEFT_OUT = frozenset({"op", "data0"})
_SUB_OP_KEPT = "GCR_REQ"
"""The one packet whose sub-operation is a field here; for others it is the packet's name."""
_WORD_MASK = (1 << 32) - 1


def _registers(source: Source, output: str) -> str:
    """Address and fields of every register that a launch may write, for each graphics core."""
    keep, tables = wanted("test_compute"), {}
    for version, bases in _BASES.items():
        path = f"{AMD}/include/asic_reg/gc/{version}"
        places = places_of(source.read(f"{path}_offset.h"))
        fields = fields_of(source.read(f"{path}_sh_mask.h"))
        found = {
            name: {
                "address": offset + bases[segment],
                "fields": {field: [low, high] for field, low, high in fields.get(name, [])},
            }
            for name, (segment, offset) in sorted(places.items(), key=lambda pair: pair[1])
            if keep(name)
        }
        tables[version] = found
    return _text(source, output, tables)


def _sdma(source: Source, output: str) -> str:
    """Word and bits of every field of the packets, for each header."""
    tables = {}
    for header in _HEADERS:
        text = source.read(f"{AMD}/amdgpu/{header}")
        packets = {ours: _packet(text, theirs) for theirs, ours in _PACKETS.items()}
        tables[header] = {name: fields for name, fields in packets.items() if fields}
    return _text(source, output, tables)


def _packet(text: str, name: str) -> dict[str, list[int]]:
    parts: dict[str, dict[str, int]] = {}
    pattern = (
        rf"#define SDMA_PKT_{name}_(?!{_OTHER_PACKETS})[A-Z0-9_]+_([a-z]\w*?)"
        r"_(offset|mask|shift)\s+(\w+)"
    )
    for field, part, number in re.findall(pattern, text):
        if field not in _LEFT_OUT and (field != "sub_op" or name == _SUB_OP_KEPT):
            parts.setdefault(field, {})[part] = int(number, 0)
    return {
        field: [part["offset"], part["mask"] << part["shift"] & _WORD_MASK]
        for field, part in parts.items()
    }


def _cache_controls(source: Source, output: str) -> str:
    """Bit of every cache action of gfx9's ACQUIRE_MEM and RELEASE_MEM."""
    text = source.read(f"{AMD}/amdgpu/soc15d.h")
    acquire = re.findall(
        r"#define\s+PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_(\w+)\(x\) \(\(x\) << (\d+)\)", text
    )
    release = re.findall(r"#define\s+EOP_(\w+)\s+\(1 << (\d+)\)", text)
    tables = {"soc15": {
        name: {label.lower(): int(bit) for label, bit in found}
        for name, found in (("ACQUIRE_MEM", acquire), ("RELEASE_MEM", release))
    }}  # fmt: skip
    return _text(source, output, tables)


def _text(source: Source, output: str, tables: Mapping[str, Mapping[str, object]]) -> str:
    """JSON with one register or packet a line."""
    first = json.dumps(json_head(NAME, output, source), indent=1).removesuffix("\n}")
    parts = [first]
    for table, rows in tables.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        parts.append(f" {json.dumps(table)}: {{\n{lines}\n }}")
    return ",\n".join(parts) + "\n}\n"


def make(source: Source, output: str) -> str:
    """The text of one table."""
    return OUTPUTS[output](source, output)


OUTPUTS = {
    "tests/data/amd_registers.json": _registers, "tests/data/amd_sdma_fields.json": _sdma,
    "tests/data/amd_cache_controls.json": _cache_controls,
}  # fmt: skip
GENERATOR = Generator(NAME, OUTPUTS, make)

if __name__ == "__main__":
    terminal.run(lambda _: run(GENERATOR))
