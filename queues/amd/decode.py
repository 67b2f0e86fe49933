"""Decoders of AMD's packets: PM4, SDMA and AQL. `python -m queues.decode` prints with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from queues.amd import aql, pm4_layouts, sdma_layouts
from queues.amd.registers import REGISTERS, Registers
from queues.packet_layout import Field, Packet, WordLayout
from queues.packet_text import Decoder, data, fail, text

_SET_BASES: Final = {
    "SET_SH_REG": pm4_layouts.SH_REG_BASE,
    "SET_UCONFIG_REG": pm4_layouts.UCONFIG_REG_BASE,
}
_AQL_LAYOUTS: Final = {
    layout.name: layout for layout in (*aql.BY_TYPE.values(), *aql.BY_FORMAT.values())
}
_TYPE_SHIFT: Final = 30
_TYPE2, _TYPE3 = 2, 3
_OPCODE_MASK: Final = 0xFF
_USUAL: Final = "gfx1100"
"""The chip of a dump of which nothing else is said."""


class Pm4Decoder:
    """PM4 type-3 packets of a chip family."""

    def __init__(self, flavour: pm4_layouts.Flavour) -> None:
        self.registers: Registers = REGISTERS[flavour.name]
        self.packets = flavour.packets
        self.opcodes = {
            layout.fixed >> pm4_layouts.OPCODE_SHIFT & _OPCODE_MASK: layout
            for layout in flavour.packets.values()
        }

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        header = words[at]
        kind = header >> _TYPE_SHIFT
        if kind == _TYPE2:
            pad = header & (1 << _TYPE_SHIFT) - 1
            return Packet(at, "TYPE2", {}, (), ((0, pad),) if pad else ()), 1
        if kind != _TYPE3:
            raise fail(at, f"{header:#010x} is the header of a type-{kind} packet")
        opcode = header >> pm4_layouts.OPCODE_SHIFT & _OPCODE_MASK
        layout = self.opcodes.get(opcode)
        if layout is None:
            raise fail(at, f"unknown opcode {opcode:#04x} in {header:#010x}")
        count = header >> pm4_layouts.COUNT_SHIFT & pm4_layouts.COUNT_MAX
        short = layout.name == "NOP" and count == pm4_layouts.COUNT_MAX
        length = 1 if short else count + 2
        if at + length > len(words):
            raise fail(at, f"{layout.name} of {length} words ends after the dump")
        if length - len(layout.words) not in layout.tail_words:
            raise fail(at, f"{layout.name} cannot be {length} words long")
        return layout.decode(words, at, length), length

    def lines(self, packet: Packet) -> list[str]:
        first = text(self.packets.get(packet.name), packet)
        base = _SET_BASES.get(packet.name)
        if base is not None:
            start = base + packet.fields["reg_offset"]
            return [first, *(self._set(start + n, raw) for n, raw in enumerate(packet.tail))]
        for name, value in packet.fields.items():
            if "_reg_" in name or name.startswith("reg_"):
                known = self.registers.names.get(value)
                first += f" ({known})" if known else ""
        if "dispatch_initiator" in packet.fields:
            raw = packet.fields["dispatch_initiator"]
            return [first, self._register("COMPUTE_DISPATCH_INITIATOR", raw)]
        return [first, *data(packet)]

    def _set(self, address: int, raw: int) -> str:
        name = self.registers.names.get(address)
        if name is None:
            return f"        register {address:#x} = {raw:#010x}"
        return self._register(name, raw)

    def _register(self, name: str, raw: int) -> str:
        fields = self.registers.decode(name, raw)
        shown = " ".join(f"{field}={value:#x}" for field, value in fields.items() if value)
        return f"        {name} = {raw:#010x}  {shown}".rstrip()


class SdmaDecoder:
    """SDMA packets of an engine version."""

    def __init__(self, engine: sdma_layouts.Engine) -> None:
        self.packets = engine.packets
        self.operations: dict[int, tuple[WordLayout, Field | None]] = {}
        for layout in engine.packets.values():
            counts = [field for field in layout.fields if field.name == "count"]
            pair = (layout, counts[0] if layout.tail else None)
            self.operations[layout.fixed & _OPCODE_MASK] = pair

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        header = words[at]
        layout, count = self.operations.get(header & _OPCODE_MASK, (None, None))
        if layout is None or header & layout.fixed_mask != layout.fixed:
            raise fail(at, f"unknown operation in {header:#010x}")
        length = len(layout.words)
        if at + length <= len(words) and count is not None:
            length += count.get(words, at)
        if at + length > len(words):
            raise fail(at, f"{layout.name} of {length} words ends after the dump")
        return layout.decode(words, at, length), length

    def lines(self, packet: Packet) -> list[str]:
        return [text(self.packets[packet.name], packet), *data(packet)]


class AqlDecoder:
    """AQL packets; the same on every chip."""

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        if at + aql.PACKET_WORDS > len(words):
            raise fail(at, f"a packet of {aql.PACKET_BYTES} bytes ends after the dump")
        header = words[at]
        layout = aql.BY_TYPE.get(header & _OPCODE_MASK)
        if header & _OPCODE_MASK == aql.PacketType.VENDOR_SPECIFIC:
            layout = aql.BY_FORMAT.get(header >> aql.FORMAT_SHIFT)
        if layout is None:
            raise fail(at, f"unknown type or vendor format in {header:#010x}")
        return layout.decode(words, at, aql.PACKET_WORDS), aql.PACKET_WORDS

    def lines(self, packet: Packet) -> list[str]:
        return [text(_AQL_LAYOUTS[packet.name], packet)]


def pm4_decoder(chip: str = _USUAL) -> Decoder:
    """Of a chip's compute queues. Raises: Unsupported with the known chips."""
    return Pm4Decoder(pm4_layouts.flavour_of(chip))


def sdma_decoder(chip: str = _USUAL) -> Decoder:
    """Of a chip's copy engines. Raises: Unsupported with the known chips."""
    pm4_layouts.flavour_of(chip)
    return SdmaDecoder(sdma_layouts.engine_of(chip))


def aql_decoder(chip: str = _USUAL) -> Decoder:
    """The same for every known chip. Raises: Unsupported with the known chips."""
    pm4_layouts.flavour_of(chip)
    return AqlDecoder()
