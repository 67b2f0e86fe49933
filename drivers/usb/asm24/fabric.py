"""What is behind the bridge: a chain of PCI bridges that ends in one card, and its BARs.

No firmware and no kernel has looked at it: bus numbers, windows and addresses are given out here.
Source: PCI Express Base Specification 4.0, 7.5.1 (headers, sizing), 7.8.6 (Resizable BAR);
PCI-to-PCI Bridge Architecture Specification 1.2, 3.2; include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.base.errors import MalformedInput, NotFound, OutOfMemory, Unsupported
from drivers.usb.asm24.bridge import Bridge

_ID, _COMMAND, _CLASS, _HEADER, _BAR0, _SUBSYSTEM = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x2C
_BUSES, _MEMORY, _PREFETCH, _PREFETCH_BASE_HIGH, _PREFETCH_LIMIT_HIGH = 0x18, 0x20, 0x24, 0x28, 0x2C
_COMMAND_MEMORY, _COMMAND_MASTER = 1 << 1, 1 << 2
_COMMAND_BYTES: Final = 0x3
"""Byte enables of the command register: the status beside it is left alone."""
_NOBODY, _ALL_ONES = 0xFFFF, 0xFFFF_FFFF
_KIND_MASK, _IS_BRIDGE, _IS_CARD = 0x7F, 1, 0
_BARS: Final = 6
_IS_PORTS, _IS_WIDE, _IS_PREFETCH, _FLAGS = 0x1, 0x4, 0x8, 0xF
_EXT_FIRST, _EXT_REBAR, _MOST_CAPS = 0x100, 0x15, 48
_REBAR_SIZES_SHIFT, _REBAR_SIZE_SHIFT, _REBAR_SIZE_MASK = 4, 8, 0x3F
_MIB_LOG2: Final = 20
_WINDOW: Final = 1 << 20
"""Granularity of a bridge's memory windows."""
MEMORY_FIRST: Final = 0x1000_0000
"""BARs of 32 bits: above the bridge's own SRAM and queues, which the card reaches below."""
MEMORY_END: Final = 0x1_0000_0000
PREFETCH_FIRST: Final = 1 << 35
"""Prefetchable BARs of 64 bits."""
_DEEPEST: Final = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """One memory BAR of the card, as it was placed."""

    address: int
    nbytes: int
    wide: bool
    prefetchable: bool


@dataclass(frozen=True, slots=True)
class Card:
    """The card at the end of the chain, function 0."""

    bus: int
    vendor: int
    device: int
    subsystem: int
    """Its vendor in the low half."""
    revision: int
    class_code: int
    """Base class, subclass, interface."""
    bars: dict[int, Bar]


def open_fabric(bridge: Bridge) -> Card:
    """Number the buses, enlarge and place the card's BARs, open the windows to them.

    Raises: NotFound without a card, DeviceTimeout, MalformedInput, OutOfMemory.
    Hardware: config space is written. The card answers at its BARs, and masters nothing yet.
    """
    bus = _number(bridge)
    _enlarge(bridge, bus)
    bars = _place(bridge, bus)
    for number in range(bus):
        _open_windows(bridge, number, bars)
    bridge.write_config(bus, 0, _COMMAND, _COMMAND_MEMORY, _COMMAND_BYTES)
    bridge.expect_config(bus, 0, _ID, _CLASS, _SUBSYSTEM)
    identity, code = bridge.read_config(bus, 0, _ID), bridge.read_config(bus, 0, _CLASS)
    return Card(
        bus, identity & 0xFFFF, identity >> 16, bridge.read_config(bus, 0, _SUBSYSTEM),
        code & 0xFF, code >> 8, bars,
    )  # fmt: skip


def _number(bridge: Bridge) -> int:
    """The card's bus: each bridge on the way gets the next number."""
    for bus in range(_DEEPEST):
        bridge.expect_config(bus, 0, _ID, _HEADER)
        try:
            identity = bridge.read_config(bus, 0, _ID)
        except Unsupported as error:
            raise _no_card(bridge, bus) from error
        if identity & 0xFFFF == _NOBODY:
            raise _no_card(bridge, bus)
        kind = bridge.read_config(bus, 0, _HEADER) >> 16 & _KIND_MASK
        if kind == _IS_CARD:
            return bus
        if kind != _IS_BRIDGE:
            raise MalformedInput(f"{bridge.usb.name}: header type {kind} on bus {bus}")
        # everything behind it for now: the last bus is known when the card is found
        bridge.write_config(bus, 0, _BUSES, bus | bus + 1 << 8 | 0xFF << 16)
    raise MalformedInput(f"{bridge.usb.name}: more than {_DEEPEST} bridges in a row")


def _no_card(bridge: Bridge, bus: int) -> NotFound:
    return NotFound(
        f"{bridge.usb.name}: nothing answers on bus {bus} behind the bridge",
        hint="check that a card is in the enclosure and that its power supply is on",
    )


def _enlarge(bridge: Bridge, bus: int) -> None:
    """Give every resizable BAR its largest size."""
    at = _EXT_FIRST
    for _ in range(_MOST_CAPS):
        header = bridge.read_config(bus, 0, at)
        if header in (0, _ALL_ONES):
            return
        if header & 0xFFFF == _EXT_REBAR:
            _enlarge_all(bridge, bus, at)
        at = header >> 20
        if not at:
            return
        if at < _EXT_FIRST or at % 4:
            break
    raise MalformedInput(f"{bridge.usb.name}: the card's list of capabilities has no end")


def _enlarge_all(bridge: Bridge, bus: int, capability: int) -> None:
    bridge.expect_config(bus, 0, capability + 8, capability + 4, capability + 8)
    count = bridge.read_config(bus, 0, capability + 8) >> 5 & 0x7
    for number in range(min(count, _BARS)):
        sizes_at, control_at = capability + 4 + 8 * number, capability + 8 + 8 * number
        if number:
            bridge.expect_config(bus, 0, sizes_at, control_at)
        sizes = bridge.read_config(bus, 0, sizes_at) >> _REBAR_SIZES_SHIFT
        control = bridge.read_config(bus, 0, control_at)
        if sizes:
            largest = sizes.bit_length() - 1
            control &= ~(_REBAR_SIZE_MASK << _REBAR_SIZE_SHIFT)
            bridge.write_config(bus, 0, control_at, control | largest << _REBAR_SIZE_SHIFT)


def _place(bridge: Bridge, bus: int) -> dict[int, Bar]:
    """Addresses for all memory BARs, the largest first so that none leaves a gap."""
    found = _sizes(bridge, bus)
    low, high, bars = MEMORY_FIRST, PREFETCH_FIRST, {}
    for number, (nbytes, flags) in sorted(found.items(), key=lambda item: -item[1][0]):
        wide, prefetchable = bool(flags & _IS_WIDE), bool(flags & _IS_PREFETCH)
        if wide and prefetchable:
            address = -(-high // nbytes) * nbytes
            high = address + nbytes
        else:
            address = -(-low // nbytes) * nbytes
            low = address + nbytes
        if low > MEMORY_END:
            raise OutOfMemory(
                f"{bridge.usb.name}: BAR {number} has {nbytes:#x} bytes below 4 GiB",
                requested=nbytes, used=0, cached=0, limit=MEMORY_END - MEMORY_FIRST,
            )  # fmt: skip
        bridge.write_config(bus, 0, _BAR0 + 4 * number, address & _ALL_ONES)
        if wide:
            bridge.write_config(bus, 0, _BAR0 + 4 * number + 4, address >> 32)
        bars[number] = Bar(address, nbytes, wide, prefetchable)
    return dict(sorted(bars.items()))


def _sizes(bridge: Bridge, bus: int) -> dict[int, tuple[int, int]]:
    """Bytes and flags of each memory BAR: the bits that stay 0 when ones are written."""
    found, upper = {}, False
    every = [_BAR0 + 4 * number for number in range(_BARS)]
    for at in every:
        bridge.write_config(bus, 0, at, _ALL_ONES)
    bridge.expect_config(bus, 0, *every)
    masks = [bridge.read_config(bus, 0, at) for at in every]
    for number, low in enumerate(masks):
        if upper:  # the upper half of the BAR before it
            upper = False
            continue
        wide = bool(low & _IS_WIDE) and not low & _IS_PORTS
        high = _ALL_ONES
        if wide and number + 1 < _BARS:
            high = masks[number + 1]
        if low & ~_FLAGS and not low & _IS_PORTS:
            mask = high << 32 | low & ~_FLAGS
            found[number] = (-mask & (1 << 64) - 1 if wide else -mask & _ALL_ONES, low & _FLAGS)
        upper = wide
    for number, (nbytes, _) in found.items():
        if nbytes & nbytes - 1 or not nbytes:
            raise MalformedInput(f"{bridge.usb.name}: BAR {number} has {nbytes:#x} bytes")
    return found


def _open_windows(bridge: Bridge, bus: int, bars: dict[int, Bar]) -> None:
    """Let a bridge of the chain pass the card's addresses, and the card's own accesses."""
    low = _span([bar for bar in bars.values() if not (bar.wide and bar.prefetchable)])
    high = _span([bar for bar in bars.values() if bar.wide and bar.prefetchable])
    bridge.write_config(bus, 0, _MEMORY, low[0] >> 16 & 0xFFF0 | (low[1] >> 16 & 0xFFF0) << 16)
    bridge.write_config(bus, 0, _PREFETCH, high[0] >> 16 & 0xFFF0 | (high[1] >> 16 & 0xFFF0) << 16)
    bridge.write_config(bus, 0, _PREFETCH_BASE_HIGH, high[0] >> 32)
    bridge.write_config(bus, 0, _PREFETCH_LIMIT_HIGH, high[1] >> 32)
    command = _COMMAND_MEMORY | _COMMAND_MASTER
    bridge.write_config(bus, 0, _COMMAND, command, _COMMAND_BYTES)


def _span(bars: list[Bar]) -> tuple[int, int]:
    """First and last address of a window; base above limit closes it."""
    if not bars:
        return _WINDOW, 0
    first = min(bar.address for bar in bars) & -_WINDOW
    return first, max(bar.address + bar.nbytes for bar in bars) - 1
