"""What NVIDIA's compilers pass to NVIDIA's driver with a kernel: `Resources.vendor` of its Binary.

The image of the Binary holds the instructions at `code_offset` (128-byte aligned) and the constant
banks that the cubin brings along, each 256-byte aligned. `Binary.entry` equals `code_offset`.
The driver copies the image to the GPU, fills its `fixups`, and writes bank 0 for each launch:
`bank0_bytes` long, the arguments at `param_offset` + `Arg.offset`.

Sizes are what the cubin says (`.nv.info`, section sizes); the driver rounds them as hardware asks.
Source: the attributes of a cubin, as cuobjdump prints them.
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass, fields
from enum import IntEnum
from typing import Final, Self

from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput

_HEAD: Final = struct.Struct("<18I")
_BANK: Final = struct.Struct("<3I")
_PATCH: Final = struct.Struct("<3I")
MAX_PATCHES: Final = 1 << 14
INSTRUCTION_BYTES: Final = 16
MAX_BANKS: Final = 8
"""Constant banks of a QMD. # src: clc7c0qmd.h CONSTANT_BUFFER_VALID(i), i = 0 ... 7"""
CODE_ALIGN: Final = 128
BANK_ALIGN: Final = 256
MAX_BANK_BYTES: Final = 1 << 16
"""Of one constant bank. # src: CUDA C++ Programming Guide, "Constant memory size", 64 KB"""
MAX_REGISTERS: Final = 255
MAX_BARRIERS: Final = 16


@dataclass(frozen=True, slots=True)
class ConstantBank:
    """A constant bank other than bank 0, whose bytes are in the image."""

    number: int
    """1 ... 7."""
    offset: int
    """Of its bytes in the image, 256-byte aligned."""
    nbytes: int


class Field(IntEnum):
    """Which bits of an instruction a patch fills, and with what of an address.

    # src: nvdisasm 13.5's text of single bits of MOV 32@lo() and 32@hi(), and of CALL.ABS on sm_86,
    sm_90a and sm_120
    """

    LOW = 0
    HIGH = 1
    TARGET = 2
    """Until sm_89."""
    SPLIT_TARGET = 3
    """From sm_90 on."""


_PARTS: Final = {
    Field.LOW: ((32, 32, 0),),
    Field.HIGH: ((32, 32, 32),),
    Field.TARGET: ((34, 47, 2),),
    Field.SPLIT_TARGET: ((16, 8, 2), (34, 47, 10)),
}
"""First bit, bits, and how far the address is shifted right."""


@dataclass(frozen=True, slots=True)
class CodePatch:
    """The instruction at `offset` of the image gets the address of the image's byte `goal`."""

    offset: int
    field: Field
    goal: int

    def apply(self, image: bytearray, base: int) -> None:
        """Fill it in, for an image at `base`."""
        at = slice(self.offset, self.offset + INSTRUCTION_BYTES)
        word = int.from_bytes(image[at], "little")
        for low, bits, shift in _PARTS[self.field]:
            mask = (1 << bits) - 1
            word = word & ~(mask << low) | (base + self.goal >> shift & mask) << low
        image[at] = word.to_bytes(INSTRUCTION_BYTES, "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class NvCode:
    """One kernel of a cubin."""

    sm: int
    """Compute capability of the code: 86 for sm_86, 90 for sm_90 and sm_90a."""
    code_offset: int
    """Offset of the instructions in the image, 128-byte aligned."""
    code_bytes: int
    registers: int
    """Of one lane, 1 ... 255. # EIATTR_REGCOUNT"""
    barriers: int
    """Named barriers, 0 ... 16. # sh_flags of .text, EIATTR_NUM_BARRIERS"""
    shared_bytes: int
    """Shared memory of a workgroup as the hardware counts it: with the 1 KiB that sm_80 and later
    reserve. `Resources.shared_bytes` is what the kernel itself uses, without it."""
    local_bytes: int
    """Private memory of one lane: spills, arrays and call frames. # EIATTR_MIN_STACK_SIZE"""
    crs_bytes: int
    """Call and return stack of a warp; 0 from sm_70 on unless the cubin names one."""
    param_offset: int
    """Where arguments begin in constant bank 0. # EIATTR_PARAM_CBANK"""
    param_bytes: int
    bank0_bytes: int
    """Size of .nv.constant0.<kernel>: at least param_offset + param_bytes."""
    max_threads: int
    """Lanes of the largest workgroup it was compiled for; 0: not limited."""
    cluster_x: int = 0
    """Workgroups of a cluster (sm_90 and later); 0 in all three: no clusters."""
    cluster_y: int = 0
    cluster_z: int = 0
    dynamic_bytes: int = 0
    """The part of `shared_bytes` that the code does not declare: more than 48 KiB can only be had
    so, and libcuda has to be asked for it."""
    banks: tuple[ConstantBank, ...] = ()
    patches: tuple[CodePatch, ...] = ()
    """Of instructions that hold addresses: of calls, where they return to, of variables."""

    def encode(self) -> bytes:
        """The bytes of `Resources.vendor`. Raises: MalformedInput for what does not fit them."""
        *words, _, _ = astuple(self)
        try:
            parts = [_HEAD.pack(*words, len(self.banks), len(self.patches))]
            parts += (_BANK.pack(*astuple(bank)) for bank in self.banks)
            parts += (_PATCH.pack(*astuple(patch)) for patch in self.patches)
            return b"".join(parts)
        except struct.error as error:
            raise MalformedInput(f"cubin: {error}") from error

    @classmethod
    def of(cls, binary: Binary) -> Self:
        """The record that a compiler wrote for this kernel. Raises: MalformedInput."""
        blob = binary.resources.vendor
        if len(blob) < _HEAD.size:
            raise MalformedInput(f"{binary.name}: no NVIDIA code, {len(blob)} bytes about it")
        *words, count, patched = _HEAD.unpack_from(blob)
        end = _HEAD.size + count * _BANK.size
        if count > MAX_BANKS or len(blob) != end + patched * _PATCH.size:
            raise MalformedInput(
                f"{binary.name}: {len(blob)} bytes for {count} constant banks, {patched} patches"
            )
        names = [field.name for field in fields(cls)][: len(words)]
        banks = tuple(ConstantBank(*words) for words in _BANK.iter_unpack(blob[_HEAD.size : end]))
        patches = tuple(cls._patch(binary, *words) for words in _PATCH.iter_unpack(blob[end:]))
        made = cls(**dict(zip(names, words, strict=True)), banks=banks, patches=patches)
        made.check(binary)
        return made

    @staticmethod
    def _patch(binary: Binary, offset: int, field: int, goal: int) -> CodePatch:
        size = len(binary.image)
        if offset + INSTRUCTION_BYTES > size or goal > size or field not in set(Field):
            raise MalformedInput(f"{binary.name}: a patch of kind {field} at {offset:#x}")
        return CodePatch(offset, Field(field), goal)

    def check(self, binary: Binary) -> None:
        """Raises: MalformedInput for what no kernel of this image can have."""
        for bank in self.banks:
            if not 0 < bank.number < MAX_BANKS:
                raise MalformedInput(f"{binary.name}: constant bank {bank.number} does not exist")
            if bank.offset % BANK_ALIGN or bank.offset + bank.nbytes > len(binary.image):
                raise MalformedInput(f"{binary.name}: constant bank {bank.number} is not in it")
        if self.code_offset % CODE_ALIGN or self.code_offset + self.code_bytes > len(binary.image):
            raise MalformedInput(f"{binary.name}: its code is not in the image")
        if not 0 < self.registers <= MAX_REGISTERS or self.barriers > MAX_BARRIERS:
            raise MalformedInput(
                f"{binary.name}: {self.registers} registers, {self.barriers} barriers"
            )
        if not self.param_offset + self.param_bytes <= self.bank0_bytes <= MAX_BANK_BYTES:
            raise MalformedInput(f"{binary.name}: its arguments are not in constant bank 0")
