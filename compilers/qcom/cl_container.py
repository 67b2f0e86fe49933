"""Programs that Qualcomm's OpenCL compiler makes: a file of one kernel, read within bounds.

The format is not published. Every place below is what a driver that runs such programs reads; none
was checked on a program of the compiler here, since none may be carried: tests make up their own.
# src: tinygrad, runtime/ops_qcom.py, QCOMProgram (places and their meaning, generation 6 alone)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from drivers.base.view import View

IMAGE_LIMIT_BYTES: Final = 4 << 20
ARGUMENTS_LIMIT: Final = 256
CONSTANTS_LIMIT: Final = 4096
PRIVATE_LIMIT_BYTES: Final = 1 << 20
SHARED_LIMIT_BYTES: Final = 32 << 10
REGISTERS_LIMIT: Final = 48
BRANCHES_LIMIT: Final = 63
NAME_LIMIT_BYTES: Final = 256
_REGISTERS_AT, _CONSTANTS_AT, _HAS_CONSTANTS_AT = 0x34, 0xAC, 0xB0
_IMAGE_AT, _IMAGE_BYTES_AT, _DESCRIPTION_AT = 0xC0, 0x100, 0x110
_FULL, _HALF = 0x14, 0x18
_ENTRY, _PRIVATE, _SHARED, _SAMPLERS, _BRANCHES, _NAME = 0xC4, 0xC8, 0xD8, 0xDC, 0x108, 0x158
_ARGUMENT_BYTES, _ARGUMENT_OFFSET, _ARGUMENT_KIND = 32, 12, 28
_CONSTANT_BYTES, _CONSTANT_OFFSET, _CONSTANT_WIDE = 40, 16, 24
_SAMPLER_BYTES: Final = 8
_INSTRUCTION_BYTES: Final = 8
_CONST_FILE_BYTES: Final = 512 * 16


class Argument(IntEnum):
    """What a parameter is."""

    BUFFER = 0
    TEXTURE = 1
    IMAGE = 2


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where in the constants its address (or value) goes."""

    offset: int
    kind: Argument


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the code expects in the constants."""

    value: int
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class ClProgram:
    """One kernel: code, and what a launch needs."""

    name: str
    code: bytes
    entry: int
    full_registers: int
    half_registers: int
    branch_stack: int
    private_bytes: int
    shared_bytes: int
    samplers: int
    parameters: tuple[Parameter, ...]
    constants: tuple[Constant, ...]


def read(blob: bytes, name: str) -> ClProgram:
    """The kernel of a program. Raises: MalformedInput."""
    view = View(blob, f"Qualcomm OpenCL program of {name}")
    start = view.u32(_IMAGE_AT, "offset of the code")
    nbytes = view.u32(_IMAGE_BYTES_AT, "size of the code")
    if not 0 < nbytes <= IMAGE_LIMIT_BYTES or nbytes % _INSTRUCTION_BYTES:
        raise view.fail(f"{nbytes} bytes of code", _IMAGE_BYTES_AT)
    code = view.bytes(start, nbytes, "code")
    at = view.u32(_DESCRIPTION_AT, "offset of the description")
    entry = view.u32(at + _ENTRY, "entry")
    if entry % _INSTRUCTION_BYTES or entry >= nbytes:
        raise view.fail(f"entry {entry:#x} of {nbytes:#x} bytes", at + _ENTRY)
    _check_name(view, at + _NAME, name)
    samplers = view.u32(at + _SAMPLERS, "samplers")
    if samplers > 1:
        raise view.fail(f"{samplers} samplers: none or one", at + _SAMPLERS)
    registers = view.u32(_REGISTERS_AT, "offset of the register counts")
    return ClProgram(
        name=name,
        code=code,
        entry=entry,
        full_registers=_limited(view, registers + _FULL, REGISTERS_LIMIT, "full registers"),
        half_registers=_limited(view, registers + _HALF, 2 * REGISTERS_LIMIT, "half registers"),
        branch_stack=-(-_limited(view, at + _BRANCHES, 2 * BRANCHES_LIMIT, "branch stack") // 2),
        private_bytes=_limited(view, at + _PRIVATE, PRIVATE_LIMIT_BYTES, "private memory"),
        shared_bytes=_limited(view, at + _SHARED, SHARED_LIMIT_BYTES, "shared memory"),
        samplers=samplers,
        parameters=_parameters(view, at + _NAME + len(name), samplers),
        constants=_constants(view, start),
    )


def _check_name(view: View, off: int, name: str) -> None:
    """It is filled up to words with zeros: one of whole words has no zero after it."""
    wanted = name.encode()
    wanted += bytes(-len(wanted) % 4)
    if not 0 < len(wanted) <= NAME_LIMIT_BYTES:
        raise view.fail(f"a name of {len(wanted)} bytes", off)
    found = view.bytes(off, len(wanted), "name of the kernel")
    if found != wanted:
        raise view.fail(f"the kernel is {found!r}, not {name!r}", off)


def _limited(view: View, off: int, limit: int, what: str) -> int:
    value = view.u32(off, what)
    if value > limit:
        raise view.fail(f"{value} of {what}, more than {limit}", off)
    return value


def _in_constants(view: View, place: int, nbytes: int, off: int) -> int:
    if place + nbytes > _CONST_FILE_BYTES:
        raise view.fail(f"byte {place:#x} of the constants", off)
    return place


def _parameters(view: View, end_of_name: int, samplers: int) -> tuple[Parameter, ...]:
    """Records of their own length until one of length 0, or the end."""
    off = end_of_name + -end_of_name % 4 + _SAMPLER_BYTES * samplers
    found: list[Parameter] = []
    for _ in range(ARGUMENTS_LIMIT + 1):
        if off + _ARGUMENT_BYTES > len(view):
            break
        length = view.u32(off, "length of a parameter")
        if not length:
            break
        if length < _ARGUMENT_BYTES or length % 4:
            raise view.fail(f"a parameter of {length} bytes", off)
        kind = view.u32(off + _ARGUMENT_KIND, "kind of a parameter")
        if kind > Argument.IMAGE:
            raise view.fail(f"a parameter of kind {kind}", off)
        place = 4 * view.u32(off + _ARGUMENT_OFFSET, "place of a parameter")
        found.append(Parameter(_in_constants(view, place, 8, off), Argument(kind)))
        off += length
    if len(found) > ARGUMENTS_LIMIT:
        raise view.fail(f"more than {ARGUMENTS_LIMIT} parameters", off)
    return tuple(found)


def _constants(view: View, end: int) -> tuple[Constant, ...]:
    """Records from their place to the code."""
    if not view.u32(_HAS_CONSTANTS_AT, "whether there are constants"):
        return ()
    off = view.u32(_CONSTANTS_AT, "offset of the constants")
    count = (end - off) // _CONSTANT_BYTES
    if not 0 <= count <= CONSTANTS_LIMIT:
        raise view.fail(f"{count} constants", _CONSTANTS_AT)
    found = []
    for start in range(off, off + count * _CONSTANT_BYTES, _CONSTANT_BYTES):
        wide = view.u32(start + _CONSTANT_WIDE, "width of a constant")
        if wide > 1:
            raise view.fail(f"a constant of width {wide}", start)
        nbytes = 2 << wide
        place = nbytes * view.u32(start + _CONSTANT_OFFSET, "place of a constant")
        value = view.u32(start, "constant") & ((1 << 8 * nbytes) - 1)
        found.append(Constant(value, _in_constants(view, place, nbytes, start), nbytes))
    return tuple(found)
