"""The bridge's requests and registers as numbers.

Source: github.com/tinygrad/asm2464pd-firmware at c5e2090, handmade/src/main.c (requests),
handmade/src/usb.h (endpoints), handmade/src/pcie_pio.h (streams); PCI Express Base
Specification 4.0, 2.2.1 (formats and types) and 2.2.9 (completions).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

BULK_OUT: Final = 0x02
BULK_IN: Final = 0x81

VENDOR_OUT: Final = 0x40
VENDOR_IN: Final = 0xC0
"""bmRequestType of a vendor's request to the device. src: USB 2.0, 9.3"""


class Request(IntEnum):
    """bRequest."""

    READ_XDATA = 0xE4
    WRITE_XDATA = 0xE5
    TLP = 0xF0
    SRAM = 0xF2
    POWER = 0xF3


XDATA_READ_BYTES: Final = 64
"""The longest answer over USB 2; over USB 3 it would be 512."""
LTSSM: Final = 0xB450
"""State of the PCI Express link."""
LINK_UP: Final = 0x78


class Tlp(IntEnum):
    """Format and type of a packet."""

    READ = 0x20
    WRITE = 0x60
    CONFIG_READ0 = 0x04
    CONFIG_READ1 = 0x05
    CONFIG_WRITE0 = 0x44
    CONFIG_WRITE1 = 0x45


class Mode(IntEnum):
    """Low bits of wIndex in a TLP request."""

    SINGLE = 0
    STREAM_OUT = 1
    STREAM_IN = 2


ALL_BYTES: Final = 0xF
"""Byte enables of a whole dword."""
TLP_ANSWER_BYTES: Final = 8

SECTOR_BYTES: Final = 512
SLOT_BYTES: Final = 16 << 10
SRAM_BYTES: Final = 512 << 10
SRAM_TO_HOST: Final = 1 << 15
"""wValue of an SRAM request: the transfer goes to the host."""
SRAM_BUS: Final = 0x20_0000
"""Where the card reaches the SRAM on its bus. src: README.md of the firmware, "PCIe view" """
QUEUE_BUS: Final = 0x82_0000
QUEUE_XDATA: Final = 0xA000
"""A page that the card and the microcontroller reach, each at its address. src: README.md of the
firmware; tinygrad 0.14.0, runtime/ops_amd.py: its upper half counts copies there, too"""
TRIGGER_BUS: Final = 0x82_2000
"""Where a write of the card starts an armed transfer to the host. src: main.c, request 0xF2"""
