"""The expansion ROM: its base address register, and what a virtual machine reads behind it."""

from __future__ import annotations

import errno
import hashlib
import struct

import pytest

from boards.amd.pci import vbios
from boards.machine.pci.config_space import ConfigSpace, Identity
from tests.boards.bare_function import Bare
from tests.boards.vfu_toy import served
from tests.support import check

BASE, ROM_REGION = 0x30, 6
"""src: linux/pci_regs.h PCI_ROM_ADDRESS; linux/vfio.h VFIO_PCI_ROM_REGION_INDEX"""


def sized(config: ConfigSpace) -> int:
    """What a machine reads after it wrote ones to every bit of the address (bits 31 to 11)."""
    config.write(BASE, struct.pack("<I", 0xFFFF_F800))
    return struct.unpack("<I", config.read(BASE, 4))[0]


@pytest.mark.parametrize("name", ["gfx1100", "gfx1101", "gfx1201", "gfx942"])
def test_it_is_sized_by_writing_ones(name: str) -> None:
    config = Bare(name).gpu.config
    check(config.read(BASE, 4) == bytes(4), "off, at no address")
    mask = sized(config)
    check((~mask & 0xFFFF_FFFF) + 1 == len(vbios.build(name)), f"{mask:#x}")
    config.write(BASE, struct.pack("<I", 0xFE00_0001))
    check(config.read(BASE, 4) == struct.pack("<I", 0xFE00_0001), "address and enable bit stay")


def test_reserved_bits_and_functions_without_a_rom() -> None:
    config = Bare("gfx1100").gpu.config
    config.write(BASE, struct.pack("<I", 0x0000_07FE))
    check(config.read(BASE, 4) == bytes(4), "bits 10 to 1 are reserved")
    who = Identity(0x1002, 1, 1, class_code=0x040300, revision=0, many_functions=True, resets=False)
    check(sized(ConfigSpace(who, {0: 28}, 28)) == 0, "no ROM, no bits")
    check(sized(ConfigSpace(who, {0: 28}, 28, 512)) == 0xFFFF_F800, "2 KiB is the least")


def test_a_client_reads_the_vbios() -> None:
    """src: PCI Firmware Specification 3.0 5.1: 55 AA, length in 512 bytes, sum 0, "PCIR"."""
    with served(Bare("gfx1102").gpu) as bench:
        info = bench.client.ask(5, struct.pack("<IIIIQQ", 32, 0, ROM_REGION, 0, 0, 0)).payload
        _, flags, index, _, nbytes, _ = struct.unpack("<IIIIQQ", info)
        check((flags, index) == (1, ROM_REGION), "it can be read")
        image = bench.client.read(ROM_REGION, 0, nbytes).payload[16:]
        check(image[:2] == b"\x55\xaa" and image[2] * 512 == nbytes == len(image), "its length")
        check(image[3] == 0xCB, "what a machine's firmware calls returns (x86: RETF)")
        check(sum(image) & 0xFF == 0, "its sum")
        at = int.from_bytes(image[0x18:0x1A], "little")
        ids = struct.unpack_from("<4sHH", image, at)
        check(ids == (b"PCIR", 0x1002, 0x7480), f"{ids}")
        check(bench.client.read(ROM_REGION, nbytes - 1, 2).error == errno.EINVAL, "past the end")
        check(bench.client.write(ROM_REGION, 0, b"\0").error == errno.EINVAL, "it is no RAM")
        again = bench.client.read(ROM_REGION, 0, nbytes).payload[16:]
        check(hashlib.sha256(again).digest() == hashlib.sha256(image).digest(), "unchanged")
