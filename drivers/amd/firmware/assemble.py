"""A GPU's firmware, parsed and in the order in which its security processor wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from drivers.amd.firmware.blocks import parse_cp, parse_imu, parse_sdma, parse_smu
from drivers.amd.firmware.header import Firmware, Header, Part, read_header
from drivers.amd.firmware.psp import parse_psp
from drivers.amd.firmware.rlc import parse_rlc
from drivers.amd.firmware.types import LOAD_ORDER, GfxFw, PspFw
from drivers.base.errors import FirmwareRejected, Unsupported
from drivers.base.view import View
from drivers.firmware import Image

_PARSERS: dict[str, Callable[[View, Header], Firmware]] = {
    "PSP": parse_psp,
    "SMU": parse_smu,
    "SDMA": parse_sdma,
    "PFP": partial(parse_cp, block="PFP"),
    "ME": partial(parse_cp, block="ME"),
    "MEC": partial(parse_cp, block="MEC"),
    "IMU": parse_imu,
    "RLC": parse_rlc,
}
# src: Linux 6.12, smu_v13_0_6_ppt.c (smu_v13_0_6_init_microcode), amdgpu_psp.c (psp_load_p2s_table)
_P2S_TABLE_ID_X = 0x50325358
_P2S_TABLE_ID_3 = 0x50325303
_P2S_VARIANT_MASK, _P2S_VARIANT_3 = 0xF, 0x5
_P2S_SOS_VERSION = 0x0036003C


@dataclass(frozen=True, slots=True)
class FirmwareSet:
    """What is sent to one GPU. Every `data` is a window on bytes whose digest was checked."""

    bootloader: Mapping[PspFw, Part]
    """For the security processor itself: KDB, SPL, SYS_DRV, ..., SOS; TOC for its ring."""
    smu: Part | None
    """Goes before the trusted memory is set up; None where the SMU boots by itself."""
    parts: tuple[Part, ...]
    """For everything else, in order."""
    start: Mapping[str, int]
    """Where RS64 cores begin: "MEC", and on gfx12 "PFP" and "ME"."""
    versions: Mapping[str, int]
    """ucode_version by block, for messages."""


def parse(block: str, data: bytes, what: str) -> Firmware:
    """One firmware file; `block` is which part of the GPU takes it, as the manifest says.

    Raises: MalformedInput, saying where and which rule; Unsupported for an unknown block.
    """
    parser = _PARSERS.get(block)
    if parser is None:
        raise Unsupported(
            f"{what} is for {block!r}, which is not known", hint=f"Known are {', '.join(_PARSERS)}"
        )
    view = View(data, what)
    return parser(view, read_header(view))


def assemble(images: Mapping[str, Image], device: int = 0) -> FirmwareSet:
    """All files of one GPU; `device` is its PCI device id, which chooses among tables of gfx942.

    Raises: MalformedInput; FirmwareRejected when the files together cannot start a GPU.
    """
    parsed = {block: parse(block, image.data, image.path) for block, image in images.items()}
    psp = parsed.pop("PSP", None)
    boot = {} if psp is None else {part.kind: part for part in psp.parts}
    bootloader = {kind: part for kind, part in boot.items() if isinstance(kind, PspFw)}
    smu = parsed["SMU"].parts if "SMU" in parsed else ()
    rest = [part for block, one in parsed.items() if block != "SMU" for part in one.parts]
    if PspFw.SOS not in bootloader or not rest:
        raise FirmwareRejected(
            f"the firmware for {', '.join(images) or 'nothing'} has no PSP SOS, or nothing else",
            hint="Load all files that `python -m drivers.firmware` lists for the chip",
        )
    if "SMU" in parsed and not smu:
        rest += _p2s_table(parsed["SMU"], bootloader[PspFw.SOS], device)
    return FirmwareSet(
        bootloader=bootloader,
        smu=smu[0] if smu else None,
        parts=tuple(sorted(rest, key=lambda part: LOAD_ORDER[GfxFw(part.kind)])),
        start={block: one.start for block, one in parsed.items() if one.start is not None},
        versions={block: one.header.ucode_version for block, one in parsed.items()},
    )


def _p2s_table(smu: Firmware, sos: Part, device: int) -> list[Part]:
    """The table of gfx942's board for its SMU; an old SOS takes none."""
    wanted = _P2S_TABLE_ID_X
    if device & _P2S_VARIANT_MASK == _P2S_VARIANT_3:
        wanted = _P2S_TABLE_ID_3
    if sos.version < _P2S_SOS_VERSION:
        return []
    return [Part(GfxFw.P2S_TABLE, data) for number, data in smu.tables if number == wanted and data]
