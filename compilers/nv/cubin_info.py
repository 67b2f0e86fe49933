"""The attributes of a cubin's kernels: its .nv.info sections.

A record is {u8 format, u8 attribute, u16 value}; of format 4 the value is the size of what follows.
Attributes of .nv.info name a symbol; those of .nv.info.<kernel> are that kernel's.

Source: names and values as `cuobjdump -elf` prints them; Mesa, src/nouveau, nv_cubin.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Final

from drivers.base.view import View

RECORDS_LIMIT: Final = 4096
ARGS_LIMIT: Final = 1024
BYTE_VALUE, SHORT_VALUE, SIZED = 2, 3, 4
"""Formats of records: EIFMT_BVAL, EIFMT_HVAL, EIFMT_SVAL."""
MAX_THREADS: Final = 0x05
PARAM_CBANK: Final = 0x0A
REQUIRED_THREADS: Final = 0x10
FRAME_SIZE: Final = 0x11
MIN_STACK_SIZE: Final = 0x12
KPARAM_INFO: Final = 0x17
CBANK_PARAM_SIZE: Final = 0x19
CRS_STACK_SIZE: Final = 0x1E
REGCOUNT: Final = 0x2F
CTA_PER_CLUSTER: Final = 0x3D
NUM_BARRIERS: Final = 0x4C
_SIZE_SHIFT: Final = 18
"""Of the last word of KPARAM_INFO."""


@dataclass(frozen=True, slots=True)
class Record:
    """One attribute."""

    attribute: int
    value: int
    """0 where a payload follows."""
    payload: View


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a kernel."""

    ordinal: int
    offset: int
    nbytes: int


@dataclass(slots=True)
class KernelInfo:
    """What a cubin says of one kernel; None where it says nothing."""

    registers: int | None = None
    min_stack_bytes: int | None = None
    frame_bytes: int = 0
    crs_bytes: int = 0
    param_offset: int | None = None
    param_bytes: int = 0
    max_threads: int = 0
    barriers: int | None = None
    cluster: tuple[int, int, int] = (0, 0, 0)
    params: list[Param] = field(default_factory=list)


def records(view: View) -> Iterator[Record]:
    """The attributes of one section. Raises: MalformedInput."""
    at = 0
    for _ in range(RECORDS_LIMIT):
        if at >= len(view):
            return
        kind, attribute, value = view.unpack("BBH", at, "attribute")
        at += 4
        if kind == SIZED:
            yield Record(attribute, 0, view.sub(at, value, f"attribute {attribute:#x}"))
            at += value
        else:
            yield Record(attribute, value, view.sub(at, 0, f"attribute {attribute:#x}"))
    raise view.fail(f"more than {RECORDS_LIMIT} attributes", at)


def read_common(view: View, symbol: int, info: KernelInfo) -> None:
    """What .nv.info says of the kernel with that symbol."""
    for record in records(view):
        if record.attribute not in (REGCOUNT, FRAME_SIZE, MIN_STACK_SIZE):
            continue
        named, value = record.payload.unpack("II", 0, "symbol and value")
        if named != symbol:
            continue
        if record.attribute == REGCOUNT:
            info.registers = value
        elif record.attribute == FRAME_SIZE:
            info.frame_bytes = value
        else:
            info.min_stack_bytes = value


def read_own(view: View, info: KernelInfo) -> None:
    """What .nv.info.<kernel> says."""
    for record in records(view):
        payload = record.payload
        if record.attribute == PARAM_CBANK:
            _, info.param_offset, info.param_bytes = payload.unpack("IHH", 0, "bank of parameters")
        elif record.attribute == KPARAM_INFO:
            _, ordinal, offset, packed = payload.unpack("IHHI", 0, "parameter")
            if len(info.params) >= ARGS_LIMIT:
                raise view.fail(f"more than {ARGS_LIMIT} parameters")
            info.params.append(Param(ordinal, offset, packed >> _SIZE_SHIFT))
        elif record.attribute in (MAX_THREADS, REQUIRED_THREADS):
            info.max_threads = prod(payload.unpack("III", 0, "threads"))
        elif record.attribute == CRS_STACK_SIZE:
            info.crs_bytes = payload.u32(0, "stack of calls")
        elif record.attribute == CTA_PER_CLUSTER:
            info.cluster = payload.unpack("III", 0, "workgroups of a cluster")
        elif record.attribute == NUM_BARRIERS:
            info.barriers = record.value & 0xFF
