"""The decoder of Adreno's command streams: `python -m queues.decode` prints with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from queues.packet_layout import Packet
from queues.packet_text import Decoder, data, fail
from queues.qcom.chips import Chip, chip_named
from queues.qcom.pm4 import (
    TYPE4,
    WORD_BITS,
    Event,
    Event7,
    Op,
    StateBlock,
    StateSource,
    StateType,
    parse,
)
from queues.qcom.registers import GEN6, names_of

USUAL: Final = "a630"
"""The chip of a dump of which nothing else is said."""
_SHOWN: Final = 24
"""Registers of one packet that are listed."""
_PLACE: Final = "register"
_LOADS: Final = frozenset({Op.LOAD_STATE6.name, Op.LOAD_STATE6_FRAG.name})
_EVENT_MASK: Final = 0xFF


class StreamDecoder:
    """Packets of one chip."""

    def __init__(self, chip: Chip) -> None:
        self._names = names_of(chip.generation)
        self._events: type[Event] | type[Event7] = Event if chip.generation == GEN6 else Event7

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        word = words[at]
        head = parse(word)
        if head is None:
            raise fail(at, f"{word:#010x} begins no packet of type 4 or 7")
        if head.wrong:
            raise fail(at, f"{word:#010x}: wrong parity of {head.wrong}")
        if at + 1 + head.nwords > len(words):
            raise fail(at, f"a packet of {head.nwords} words ends after the dump")
        tail = tuple(words[at + 1 : at + 1 + head.nwords])
        if head.kind == TYPE4:
            name = self._register(head.place)
            return Packet(at, name, {_PLACE: head.place}, tail), 1 + head.nwords
        if head.place not in Op._value2member_map_:
            raise fail(at, f"operation {head.place:#x} is not known")
        return Packet(at, Op(head.place).name, {}, tail), 1 + head.nwords

    def _register(self, number: int) -> str:
        return self._names.get(number, f"register {number:#06x}")

    def lines(self, packet: Packet) -> list[str]:
        first = packet.fields.get(_PLACE)
        if first is None:
            return [f"{packet.at:6d}: {packet.name}{self._note(packet)}", *data(packet)]
        shown = [
            f"        {self._register(first + number)} = {word:#x}"
            for number, word in enumerate(packet.tail[:_SHOWN])
        ]
        more = len(packet.tail) - _SHOWN
        head = f"{packet.at:6d}: write {len(packet.tail)} from {first:#06x} on"
        return [head, *shown, *([f"        and {more} more"] if more > 0 else [])]

    def _note(self, packet: Packet) -> str:
        """What a packet's first word says, where it has names."""
        if not packet.tail:
            return ""
        word, known = packet.tail[0], self._events._value2member_map_
        if packet.name == Op.EVENT_WRITE.name and word & _EVENT_MASK in known:
            return f" {self._events(word & _EVENT_MASK).name}"
        if packet.name in _LOADS:
            return _load_note(packet.tail)
        return ""


def _load_note(tail: Sequence[int]) -> str:
    word = tail[0]
    block = word >> 18 & 15
    name = StateBlock(block).name if block in StateBlock._value2member_map_ else f"block {block}"
    kind, source = StateType(word >> 14 & 3), StateSource(word >> 16 & 3)
    address = f" at {tail[2] << WORD_BITS | tail[1]:#x}" if source and len(tail) > 2 else ""
    units, first = word >> 22, word & 0x3FFF
    return f" {name} {kind.name} {source.name} {units} units from {first}{address}"


def stream_decoder(chip: str = USUAL) -> Decoder:
    """Of a chip's streams. Raises: Unsupported with the known chips."""
    return StreamDecoder(chip_named(chip))
