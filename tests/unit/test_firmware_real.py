"""The vendor's own files: of this machine, of UNBOUND_FIRMWARE, or of `make references`."""

from __future__ import annotations

import os
import struct
import zlib

import pytest

from drivers.amd.firmware.assemble import assemble
from drivers.amd.firmware.types import PspFw
from drivers.base.errors import DeviceError
from drivers.choice import choose
from drivers.firmware import Image, load, shipped_manifest
from drivers.world.linux import LinuxWorld
from tests import references
from tests.support import check

ARCHS = ("gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201", "gfx942")


def real(arch: str) -> dict[str, Image]:
    try:
        fetched = references.find(references.FIRMWARE)
        folder = choose(os.environ).firmware_dir or (str(fetched) if fetched else None)
        return load(LinuxWorld(), shipped_manifest("amd"), arch, folder=folder)
    except DeviceError as error:
        first = error.message.split(";")[0]
        pytest.skip(f"no firmware: make references: {first}, ...")


@pytest.mark.parametrize("arch", ARCHS)
def test_a_known_gpu_parses_whole(arch: str) -> None:
    images = real(arch)
    found = assemble(images)
    check({PspFw.SYS_DRV, PspFw.SOS, PspFw.KDB} <= set(found.bootloader), f"{found.bootloader}")
    check((PspFw.TOC in found.bootloader) == (arch != "gfx942"), "TOC")
    check((found.smu is None) == (arch == "gfx942"), "SMU")
    check(found.parts[-1].kind.name == "RLC_G", "RLC_G is last")
    starts = dict.fromkeys(found.start.values())
    check(list(starts) == ([] if arch == "gfx942" else [0x7_0000_0000_3000]), f"{starts}")


@pytest.mark.parametrize("arch", ARCHS)
def test_parts_cover_the_file(arch: str) -> None:
    """No part is a sliver: what is sent of a file is at least three quarters of it."""
    images = real(arch)
    found = assemble(images)
    everything = [*found.bootloader.values(), *found.parts, *([found.smu] if found.smu else [])]
    for block, image in images.items():
        if block == "SMU":  # tables that are not sent
            continue
        spans = set()
        for part in everything:
            if part.data.obj is image.data:
                at = image.data.find(bytes(part.data))
                spans.update(range(at, at + len(part.data), 64))
        share = len(spans) * 64 / len(image.data)
        check(share > (0.4 if arch == "gfx942" and block == "PSP" else 0.75), f"{block}: {share}")


@pytest.mark.parametrize("arch", ARCHS)
def test_crc_where_there_is_one(arch: str) -> None:
    """measured: it covers everything behind the common header, in files of these blocks."""
    for block, image in real(arch).items():
        if block in ("PSP", "SDMA", "IMU", "PFP", "ME", "MEC"):
            crc = struct.unpack_from("<I", image.data, 28)[0]
            check(crc == zlib.crc32(image.data[32:]), f"{image.path}")
