"""Packets as lines of text: what the decoders of all formats share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from drivers.base.errors import MalformedInput
from queues.packet_layout import Packet, WordLayout

TAIL_SHOWN: Final = 16


class Decoder(Protocol):
    """One packet format of one chip."""

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        """The packet at word `at`, and its length in words. Raises: MalformedInput."""

    def lines(self, packet: Packet) -> list[str]:
        """The packet as text."""


def fail(at: int, rule: str) -> MalformedInput:
    """The error for a word that is no packet."""
    return MalformedInput(f"word {at}: {rule}", hint="check the format, the chip and the start")


def text(layout: WordLayout | None, packet: Packet) -> str:
    """Its name and the fields that are not 0."""
    shown = [packet.name]
    for name, value in packet.fields.items():
        if value and layout is not None:
            shown.append(f"{name}={layout.describe(name, value)}")
    shown += [f"reserved[{word}]={bits:#x}" for word, bits in packet.reserved]
    return f"{packet.at:6d}: {' '.join(shown)}"


def data(packet: Packet) -> list[str]:
    """The words behind its fields."""
    if not any(packet.tail):
        return []
    more = " ..." if len(packet.tail) > TAIL_SHOWN else ""
    return [f"        {' '.join(f'{word:08x}' for word in packet.tail[:TAIL_SHOWN])}{more}"]
