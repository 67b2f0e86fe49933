"""What a cold boot leaves in VRAM for a warm one: which firmware runs, how many units there are.

No page table reaches the boot's part of VRAM; a reset makes the record unreadable.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, Final

from drivers.amd.firmware.assemble import FirmwareSet
from drivers.amd.pci.layout import RECORD

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu

_DIGEST_BYTES: Final = 32
_FORM: Final = Struct(f"<{_DIGEST_BYTES}sI")


@dataclass(frozen=True, slots=True)
class Record:
    """Of one boot."""

    firmware: bytes
    """`digest_of` what was loaded."""
    simds: int
    """SIMDs that are not fused off."""


def digest_of(firmware: FirmwareSet) -> bytes:
    """Differs between two sets of firmware of which one byte differs."""
    every = sha256()
    smu = () if firmware.smu is None else (firmware.smu,)
    for part in (*firmware.bootloader.values(), *smu, *firmware.parts):
        every.update(f"{part.kind!r} {len(part.data)};".encode())
        every.update(part.data)
    return every.digest()


def write(gpu: BareGpu, record: Record) -> None:
    """Leave a record, with a digest of its own."""
    body = _FORM.pack(record.firmware, record.simds)
    gpu.vram.write(RECORD.offset, body + sha256(body).digest())


def read(gpu: BareGpu) -> Record | None:
    """The record that an earlier boot left; None when there is none, or a damaged one."""
    data = gpu.vram.read(RECORD.offset, _FORM.size + _DIGEST_BYTES)
    body, digest = data[: _FORM.size], data[_FORM.size :]
    return Record(*_FORM.unpack(body)) if sha256(body).digest() == digest else None
