"""`python -m queues.decode DUMP --pm4|--sdma|--aql [--chip gfx1100]`: packets by name and field.

Reads a ring or an indirect buffer as 32-bit little-endian words. Fields that are 0 are not
printed; bits where the vendor has no field are, as `reserved[word]`.
"""

from __future__ import annotations

import argparse
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from drivers.base.errors import DeviceError, MalformedInput, Unsupported
from drivers.base.inputs import read_input
from drivers.machine.output import print_lines
from queues.amd import aql, pm4_layouts, sdma_layouts
from queues.amd.registers import REGISTERS, Registers
from queues.packet_layout import Field, Packet, WordLayout

LIMIT_BYTES: Final = 16 << 20
"""Of a dump: a ring of the driver has 512 KiB."""
TAIL_SHOWN: Final = 16
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


def _fail(at: int, rule: str) -> MalformedInput:
    return MalformedInput(f"word {at}: {rule}", hint="check the format, the chip and the start")


class Decoder(Protocol):
    """One packet format of one chip."""

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        """The packet at word `at`, and its length in words. Raises: MalformedInput."""

    def lines(self, packet: Packet) -> list[str]:
        """The packet as text."""


def _text(layout: WordLayout | None, packet: Packet) -> str:
    shown = [packet.name]
    for name, value in packet.fields.items():
        if value and layout is not None:
            shown.append(f"{name}={layout.describe(name, value)}")
    shown += [f"reserved[{word}]={bits:#x}" for word, bits in packet.reserved]
    return f"{packet.at:6d}: {' '.join(shown)}"


def _data(packet: Packet) -> list[str]:
    if not any(packet.tail):
        return []
    more = " ..." if len(packet.tail) > TAIL_SHOWN else ""
    return [f"        {' '.join(f'{word:08x}' for word in packet.tail[:TAIL_SHOWN])}{more}"]


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
            raise _fail(at, f"{header:#010x} is the header of a type-{kind} packet")
        opcode = header >> pm4_layouts.OPCODE_SHIFT & _OPCODE_MASK
        layout = self.opcodes.get(opcode)
        if layout is None:
            raise _fail(at, f"unknown opcode {opcode:#04x} in {header:#010x}")
        count = header >> pm4_layouts.COUNT_SHIFT & pm4_layouts.COUNT_MAX
        short = layout.name == "NOP" and count == pm4_layouts.COUNT_MAX
        length = 1 if short else count + 2
        if at + length > len(words):
            raise _fail(at, f"{layout.name} of {length} words ends after the dump")
        if length - len(layout.words) not in layout.tail_words:
            raise _fail(at, f"{layout.name} cannot be {length} words long")
        return layout.decode(words, at, length), length

    def lines(self, packet: Packet) -> list[str]:
        first = _text(self.packets.get(packet.name), packet)
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
        return [first, *_data(packet)]

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
            raise _fail(at, f"unknown operation in {header:#010x}")
        length = len(layout.words)
        if at + length <= len(words) and count is not None:
            length += count.get(words, at)
        if at + length > len(words):
            raise _fail(at, f"{layout.name} of {length} words ends after the dump")
        return layout.decode(words, at, length), length

    def lines(self, packet: Packet) -> list[str]:
        return [_text(self.packets[packet.name], packet), *_data(packet)]


class AqlDecoder:
    """AQL packets; the same on every chip."""

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        if at + aql.PACKET_WORDS > len(words):
            raise _fail(at, f"a packet of {aql.PACKET_BYTES} bytes ends after the dump")
        header = words[at]
        layout = aql.BY_TYPE.get(header & _OPCODE_MASK)
        if header & _OPCODE_MASK == aql.PacketType.VENDOR_SPECIFIC:
            layout = aql.BY_FORMAT.get(header >> aql.FORMAT_SHIFT)
        if layout is None:
            raise _fail(at, f"unknown type or vendor format in {header:#010x}")
        return layout.decode(words, at, aql.PACKET_WORDS), aql.PACKET_WORDS

    def lines(self, packet: Packet) -> list[str]:
        return [_text(_AQL_LAYOUTS[packet.name], packet)]


def decoder(kind: str, chip: str) -> Decoder:
    """The decoder of "pm4", "sdma" or "aql" packets. Raises: Unsupported with the known chips."""
    flavour = pm4_layouts.flavour_of(chip)
    if kind == "pm4":
        return Pm4Decoder(flavour)
    if kind == "sdma":
        return SdmaDecoder(sdma_layouts.engine_of(chip))
    if kind == "aql":
        return AqlDecoder()
    raise Unsupported(f"no packet format {kind!r}", hint="known: pm4, sdma, aql")


def decode(form: Decoder, words: Sequence[int], start: int = 0) -> Iterator[Packet]:
    """The packets from word `start` on. Raises: MalformedInput at the first that is none."""
    following = start
    for at in range(start, len(words)):
        if at == following:
            packet, length = form.read(words, at)
            yield packet
            following = at + length


def listing(form: Decoder, words: Sequence[int], start: int = 0) -> Iterator[str]:
    """The packets as lines; of a run of equal one-word packets only the first.

    Raises: MalformedInput.
    """
    following, repeated, repeats = start, -1, 0
    for at in range(start, len(words)):
        if at < following:
            continue
        if words[at] == repeated:
            repeats += 1
            continue
        if repeats:
            yield f"        and {repeats} more"
        packet, length = form.read(words, at)
        yield from form.lines(packet)
        following = at + length
        repeated, repeats = words[at] if length == 1 else -1, 0
    if repeats:
        yield f"        and {repeats} more"


def dump(form: Decoder, words: Sequence[int], start: int = 0, limit: int = 64) -> str:
    """At most `limit` lines from word `start` on, for errors and logs; never raises on bad words.

    A word that begins no packet ends the text with a line of `!!`.
    """
    lines: list[str] = []
    try:
        for line in listing(form, words, start):
            if len(lines) == limit:
                return "\n".join([*lines, "   ..."])
            lines.append(line)
    except MalformedInput as error:
        lines.append(f"   !!: {error.message}")
    return "\n".join(lines)


def words_of(data: bytes) -> Sequence[int]:
    """The 32-bit words of a dump. Raises: MalformedInput."""
    words = array("I")
    if len(data) % words.itemsize:
        raise MalformedInput(f"a dump of {len(data)} bytes is no whole number of words")
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    return words


def main(arguments: Sequence[str]) -> Iterator[str]:
    """The lines that the command prints. Raises: DeviceError where the dump ends badly."""
    parser = argparse.ArgumentParser(prog="python -m queues.decode", description=__doc__)
    parser.add_argument(
        "dump", help=f"file of little-endian 32-bit words, at most {LIMIT_BYTES >> 20} MiB"
    )
    kinds = parser.add_mutually_exclusive_group(required=True)
    for kind in ("pm4", "sdma", "aql"):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind)
    parser.add_argument("--chip", default="gfx1100", help="such as gfx942, gfx1100")
    parser.add_argument("--start", type=int, default=0, help="first word (default: 0)")
    chosen = parser.parse_args(arguments)
    if chosen.start < 0:
        parser.error("--start counts words from 0")
    form = decoder(chosen.kind, chosen.chip)
    yield from listing(form, words_of(read_input(chosen.dump, LIMIT_BYTES)), chosen.start)


def run(arguments: Sequence[str]) -> int:
    """Print the packets; exit status 1 when the dump or its name is wrong."""
    try:
        return print_lines(main(arguments))
    except DeviceError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
