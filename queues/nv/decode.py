"""Decoders of push buffers and QMDs. `python -m queues.decode --nv` and `--qmd` print with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drivers.base.errors import Unsupported
from queues.nv.classes import (
    HOST_METHODS_END,
    WORD_BYTES,
    Method,
    Op,
    Subchannel,
    methods_of,
    parse_header,
)
from queues.nv.generations import CHIPS, Generation, sm_of
from queues.nv.qmd import fields_of, layout_of
from queues.packet_layout import Packet
from queues.packet_text import Decoder, data, fail

_USUAL: Final = "ga102"
"""The chip of a dump of which nothing else is said."""
_SET_OBJECT: Final = 0
_OPS: Final = frozenset(Op)
_SHOWN: Final = 24
"""Methods of one header that are listed."""


class PushDecoder:
    """Methods of a push buffer, of a chip whose classes are where this stack puts them."""

    def __init__(self, generation: Generation) -> None:
        self._host = methods_of(generation.gpfifo)
        self._classes = {
            Subchannel.COMPUTE.value: methods_of(generation.compute),
            Subchannel.COPY.value: methods_of(generation.copy),
        }

    def _method(self, subchannel: int, offset: int) -> Method | None:
        """Which one it is; None for one that the class does not have."""
        if offset < HOST_METHODS_END:
            return self._host.at(offset)
        methods = self._classes.get(subchannel)
        return None if methods is None else methods.at(offset)

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        word = words[at]
        if not word:
            return Packet(at, "NOP", {}), 1
        head = parse_header(word)
        if head.op not in _OPS:
            raise fail(at, f"{word:#010x} is the header of operation {head.op}")
        length = 1 if head.op == Op.IMMD else head.count + 1
        if at + length > len(words):
            raise fail(at, f"a header of {head.count} words ends after the dump")
        method = self._method(head.subchannel, head.offset)
        if method is None:
            raise fail(at, f"subchannel {head.subchannel} has no method {head.offset:#06x}")
        tail = (head.count,) if head.op == Op.IMMD else tuple(words[at + 1 : at + length])
        place = {"subchannel": head.subchannel, "offset": head.offset, "op": head.op}
        return Packet(at, method.name, place, tail), length

    def lines(self, packet: Packet) -> list[str]:
        place = packet.fields
        if not place:
            return [f"{packet.at:6d}: {packet.name}"]
        lines: list[str] = []
        for number, word in enumerate(packet.tail[:_SHOWN]):
            steps = min(number, 1) if place["op"] == Op.ONE_INC else number
            stays = place["op"] in (Op.NON_INC, Op.IMMD)
            offset = place["offset"] + (0 if stays else steps * WORD_BYTES)
            lines.append(
                f"        {_line(self._method(place['subchannel'], offset), offset, word)}"
            )
        more = len(packet.tail) - _SHOWN
        first = f"{packet.at:6d}: subchannel {place['subchannel']} {packet.name}"
        return [first, *lines, *([f"        and {more} more"] if more > 0 else [])]


def _line(method: Method | None, offset: int, word: int) -> str:
    """One data word by the names of its fields."""
    if method is None:
        return f"{offset:#06x} = {word:#x}"
    shown = [
        f"{name}={word >> low & (1 << high - low + 1) - 1:#x}"
        for name, (high, low) in method.fields.items()
        if word >> low & (1 << high - low + 1) - 1
    ]
    index = (offset - method.offset) // method.stride if method.stride else None
    name = method.name if index is None else f"{method.name}({index})"
    unknown = word & ~method.mask
    reserved = [f"reserved={unknown:#x}"] if unknown else []
    return " ".join([f"{name} = {word:#x}", *shown, *reserved])


class QmdDecoder:
    """QMDs, one behind the other."""

    def __init__(self, generation: Generation) -> None:
        self._layout = layout_of(generation.qmd)

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        length = self._layout.nwords
        if at + length > len(words):
            raise fail(at, f"a QMD of {length} words ends after the dump")
        fields = fields_of(self._layout, list(words[at : at + length]))
        major, minor = (int(part) for part in self._layout.version.split("_"))
        found = fields.get("QMD_MAJOR_VERSION", 0)
        lesser = fields.get("QMD_MINOR_VERSION", fields.get("QMD_VERSION", 0))
        if (found, lesser) != (major, minor):
            raise fail(at, f"a QMD of version {found}.{lesser}, not {major}.{minor}")
        return Packet(at, f"QMD {self._layout.version}", fields), length

    def lines(self, packet: Packet) -> list[str]:
        shown = [f"        {name} = {value:#x}" for name, value in packet.fields.items()]
        return [f"{packet.at:6d}: {packet.name}", *shown, *data(packet)]


def _generation(chip: str) -> Generation:
    for name, (version, generation) in CHIPS.items():
        if chip in (name, f"sm_{sm_of(version)}"):
            return generation
    raise Unsupported(f"chip {chip!r} is not known", hint=f"known: {', '.join(CHIPS)}")


def push_decoder(chip: str = _USUAL) -> Decoder:
    """Of a chip's push buffers. Raises: Unsupported with the known chips."""
    return PushDecoder(_generation(chip))


def qmd_decoder(chip: str = _USUAL) -> Decoder:
    """Of a chip's QMDs. Raises: Unsupported with the known chips."""
    return QmdDecoder(_generation(chip))
