"""What AMD's compilers pass to AMD's driver with a kernel: `Resources.vendor` of its Binary.

The words of the kernel descriptor that launch packets repeat, where the instructions are, how many
registers they take, and the implicit arguments that the driver fills.

Source: LLVM AMDGPUUsage, "Kernel Descriptor", "Code Object V5 Metadata".
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass, fields
from typing import Final, Self

from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput
from queues.amd.kernarg import ARG_KINDS

_HEAD: Final = struct.Struct("<17I")
_IMPLICIT: Final = struct.Struct("<HHIB")
MAX_IMPLICIT: Final = 512


@dataclass(frozen=True, slots=True)
class Implicit:
    """One argument that the driver fills. Offsets and sizes in bytes."""

    number: int
    """Its position among all arguments, the caller's included."""
    nbytes: int
    offset: int
    kind: str
    """One of `amd_kernarg.ARG_KINDS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdCode:
    """One kernel of a code object."""

    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    preload: int
    code_offset: int
    """Offset of the instructions in the image."""
    code_bytes: int
    kernarg_bytes: int
    kernarg_align_bytes: int
    wave_lanes: int
    vgprs: int
    sgprs: int
    agprs: int
    vgpr_spills: int
    sgpr_spills: int
    dynamic_stack: bool
    """Whether its private memory has no known size."""
    implicit: tuple[Implicit, ...] = ()

    def encode(self) -> bytes:
        """The bytes of `Resources.vendor`. Raises: MalformedInput for what does not fit them."""
        *words, _ = astuple(self)
        try:
            parts = [_HEAD.pack(*words, len(self.implicit))]
            for one in self.implicit:
                kind = ARG_KINDS.index(one.kind)
                parts.append(_IMPLICIT.pack(one.number, one.nbytes, one.offset, kind))
        except (struct.error, ValueError) as error:
            raise MalformedInput(f"code object: {error}") from error
        return b"".join(parts)

    @classmethod
    def of(cls, binary: Binary) -> Self:
        """The record that a compiler wrote for this kernel. Raises: MalformedInput."""
        blob = binary.resources.vendor
        if len(blob) < _HEAD.size:
            raise MalformedInput(f"{binary.name}: no AMD code, {len(blob)} bytes about it")
        *words, stack, count = _HEAD.unpack_from(blob)
        if len(blob) != _HEAD.size + count * _IMPLICIT.size or count > MAX_IMPLICIT or stack > 1:
            raise MalformedInput(f"{binary.name}: {len(blob)} bytes for {count} hidden arguments")
        names = [field.name for field in fields(cls)][: len(words)]
        found = [_IMPLICIT.unpack_from(blob, _HEAD.size + i * _IMPLICIT.size) for i in range(count)]
        if any(one[-1] >= len(ARG_KINDS) for one in found):
            raise MalformedInput(f"{binary.name}: an argument of an unknown kind")
        implicit = tuple(
            Implicit(number, nbytes, offset, ARG_KINDS[kind])
            for number, nbytes, offset, kind in found
        )
        return cls(**dict(zip(names, words, strict=True)), dynamic_stack=bool(stack),
                   implicit=implicit)  # fmt: skip
