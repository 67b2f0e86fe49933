"""The header that every firmware file begins with, and what the parsers of the blocks share.

Source: Linux 6.12, drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.h, amdgpu_ucode.c
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drivers.amd.firmware.types import GfxFw, PspFw
from drivers.base.errors import MalformedInput
from drivers.base.view import View

COMMON_BYTES = 32
"""src: amdgpu_ucode.h, struct common_firmware_header"""
_COMMON = "IIHHHHIIII"
DWORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Header:
    """The fields that all files have; offsets count from the file's first byte.

    The CRC is not among them: it fits no file of an SMU, nor of an RLC since gfx11; Linux checks
    none.
    In the others it covers everything behind this header.
    measured: all files of firmware_manifests/amd.toml in three releases, 2026-11-21
    """

    nbytes: int
    version: tuple[int, int]
    """Which struct the header is."""
    ip: tuple[int, int]
    """Version of the block that the firmware is for."""
    ucode_version: int
    ucode_nbytes: int
    ucode_off: int


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a file that is loaded by itself; `data` is a window on the file, not a copy."""

    kind: PspFw | GfxFw
    data: memoryview
    version: int = 0


@dataclass(frozen=True, slots=True)
class Firmware:
    """One parsed file."""

    header: Header
    parts: tuple[Part, ...]
    start: int | None = None
    """Where an RS64 core begins to run: an address in its own code segment."""
    tables: tuple[tuple[int, memoryview], ...] = ()
    """Of the SMU's file: tables by their id, of which the driver sends one."""
    aux: tuple[Part, ...] = field(default=())
    """Of the PSP's file: the second set of parts that some boards of gfx942 want."""


def read_header(view: View) -> Header:
    """The common header, its own sizes checked against the file. Raises: MalformedInput."""
    values: tuple[int, ...] = view.unpack(_COMMON, 0, "common_firmware_header")
    size, header, major, minor, ip_major, ip_minor, version, ucode, off, _crc = values
    if size != len(view):
        raise view.fail(f"size_bytes says {size:#x}, and the file has {len(view):#x}")
    if not COMMON_BYTES <= header <= size:
        raise view.fail(f"header_size_bytes {header:#x} is outside the file", DWORD_BYTES)
    view.sub(off, ucode, "the microcode")
    if off < header:
        raise view.fail(f"the microcode at {off:#x} begins inside the header")
    return Header(header, (major, minor), (ip_major, ip_minor), version, ucode, off)


class Fields:
    """The words behind the common header, by name, in the order of the struct.

    Raises: MalformedInput when the header is shorter than the struct its version stands for.
    """

    def __init__(self, view: View, header: Header, names: Sequence[str]) -> None:
        end = COMMON_BYTES + DWORD_BYTES * len(names)
        if header.nbytes < end:
            raise view.fail(f"a header of version {header.version} has {end} bytes and not fewer")
        rows = view.table("I", COMMON_BYTES, len(names), "the header")
        self._view = view
        values: list[int] = [row[0] for row in rows]
        self._values = dict(zip(names, values, strict=True))

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def part(self, kind: PspFw | GfxFw, off: int, nbytes: int, version: int = 0) -> Part:
        """A part that must be there."""
        if nbytes == 0:
            raise self._view.fail(f"{kind.name} is empty")
        return Part(kind, self._view.sub(off, nbytes, kind.name).data, version)

    def named(self, kind: PspFw | GfxFw, prefix: str) -> list[Part]:
        """The part whose size and place are `prefix`_size_bytes and _offset_bytes, if any."""
        off, nbytes = self[f"{prefix}_offset_bytes"], self[f"{prefix}_size_bytes"]
        return [self.part(kind, off, nbytes)] if nbytes else []


def unknown_version(view: View, header: Header, known: Sequence[tuple[int, int]]) -> MalformedInput:
    """The error for a header whose version no struct here is for."""
    shown = ", ".join(f"{major}.{minor}" for major, minor in known)
    major, minor = header.version
    rule = f"version {major}.{minor} of the header is not one of {shown}"
    return view.fail(rule, 2 * DWORD_BYTES)
