"""Code on the executor alone: a space of arrays, a launch, and what was reported."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np

from boards.nv.chip import CHIPS, NvChip
from boards.nv.launch import ConstantBank, Launch
from boards.nv.memory import Memory
from boards.nv.space import GpuMapping, GpuSpace
from boards.nv.warp.execute import WarpExecutor
from compilers.nv import cubin, nvrtc
from queues.nv.kernel_code import NvCode

CODE_VA, BANKS_VA, BUFFERS_VA = 0x100000, 0x400000, 0x10000000
BANK_STRIDE, GUARD = 0x20000, 0x10000
BLACKWELL = 100
CHIP_OF = {75: "tu102", 86: "ga102", 89: "ad102", 90: "gh100", 120: "gb202"}
OTHERS = {80: ("ga102", 0x80), 100: ("gb202", 0xA0)}
"""Architectures without a board of their own: a board, and the version of SASS that it reads."""
WINDOWS = 0x18
"""Of constant bank 0 before sm_100: both windows. # src: cubins of nvrtc with generic addresses"""
WINDOWS_BLACKWELL = 0x2F0
"""src: cubins of nvrtc 13.5 for sm_100 and sm_120 with pointers to local memory"""
SHARED_WINDOW, LOCAL_WINDOW = 1 << 32, 2 << 32
RECURSION = 1024
"""Stack of a thread of code whose depth the compiler does not know."""
BEHIND = -1
"""In place of a bank: what lies behind the code in its image, variables of the program."""
SHARED_UNIT = 128
"""Shared memory is given in multiples of this."""
Dim = tuple[int, int, int]


class Pages:
    """Memory that is one array."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def there(self) -> bool:
        return True

    def parts(self, off: int, nbytes: int) -> Iterator[Any]:
        yield self.data[off : off + nbytes]


def chip_of(sm: int) -> NvChip:
    """What runs code of an architecture."""
    if sm in CHIP_OF:
        return CHIPS[CHIP_OF[sm]]
    name, sass = OTHERS[sm]
    return replace(CHIPS[name], sass_version=sass)


def places(sm: int) -> tuple[int, int, int]:
    """Of constant bank 0: blockDim, gridDim and the first stack pointer.

    src: cubins of nvrtc, which load them from there
    """
    return (0x360, 0x370, 0x37C) if sm >= BLACKWELL else (0x00, 0x0C, 0x28)


@cache
def compiled(source: str, arch: str = "sm_86") -> tuple[bytes, NvCode, dict[int, bytes]]:
    """Code, record and constant banks of the kernel f of a source."""
    return kernel_of(nvrtc.compile_object(source, arch, frozenset()), "f", arch)


def kernel_of(blob: bytes, name: str, arch: str) -> tuple[bytes, NvCode, dict[int, bytes]]:
    """Code, record and constant banks of a kernel of a cubin."""
    binary = cubin.load(blob, name, arch)
    code, image = NvCode.of(binary), bytearray(binary.image)
    base = CODE_VA - code.code_offset
    for patch in code.patches:
        patch.apply(image, base)
    for fixup in binary.fixups:
        image[fixup.offset : fixup.offset + 8] = (base + fixup.addend).to_bytes(8, "little")
    banks = {b.number: bytes(image[b.offset : b.offset + b.nbytes]) for b in code.banks}
    end = code.code_offset + code.code_bytes
    banks[BEHIND] = bytes(image[end:])
    return bytes(image[code.code_offset : end]), code, banks


def _map(space: GpuSpace, va: int, data: bytes) -> Any:
    array = np.frombuffer(data, np.uint8).copy()
    space.map(GpuMapping(va, len(array), cast(Memory, Pages(array)), 0))
    return array


def run(
    kernel: tuple[bytes, NvCode, dict[int, bytes]], args: Sequence[Any], grid: Dim, block: Dim,
    *, found: list[tuple[str, str]] | None = None, order: int | None = None,
    conflicts: dict[int, int] | None = None,
) -> tuple[list[Any], list[tuple[str, str]]]:  # fmt: skip
    """(buffers as the kernel leaves them, violations, which `found` has, too)."""
    code, record, banks = kernel
    space, found = GpuSpace(49), [] if found is None else found
    _map(space, CODE_VA, code + banks.get(BEHIND, b""))
    zero, off, va, buffers = bytearray(record.bank0_bytes), record.param_offset, BUFFERS_VA, []
    local = min(record.local_bytes, RECURSION)
    for at, words in zip(places(record.sm), (block, grid, (local,)), strict=True):
        struct.pack_into(f"<{len(words)}I", zero, at, *words)
    windows = WINDOWS if record.sm < BLACKWELL else WINDOWS_BLACKWELL
    if len(zero) >= windows + 16:
        struct.pack_into("<2Q", zero, windows, SHARED_WINDOW, LOCAL_WINDOW)
    for arg in args:
        if isinstance(arg, np.ndarray):
            off = -(-off // 8) * 8
            struct.pack_into("<Q", zero, off, va)
            buffers.append(_map(space, va, arg.tobytes()).view(arg.dtype))
            va += -(-arg.nbytes // GUARD) * GUARD + GUARD
            off += 8
        else:
            struct.pack_into("<I", zero, off, arg & 0xFFFFFFFF)
            off += 4
    constants = {}
    for number, data in {**banks, 0: bytes(zero)}.items():
        if number == BEHIND:
            continue
        _map(space, BANKS_VA + number * BANK_STRIDE, data)
        constants[number] = ConstantBank(BANKS_VA + number * BANK_STRIDE, len(data))
    launch = Launch(
        chip=chip_of(record.sm), code_va=CODE_VA, space=space, grid=grid, block=block,
        constants=constants, registers=record.registers, barriers=record.barriers,
        shared_bytes=-(-record.shared_bytes // SHARED_UNIT) * SHARED_UNIT, local_bytes=local,
        shared_window=SHARED_WINDOW, local_window=LOCAL_WINDOW,
    )  # fmt: skip
    executor = WarpExecutor(
        lambda kind, what: found.append((kind, what)), order=order, banks=conflicts is not None
    )
    executor.launch(launch)
    if conflicts is not None:
        conflicts.update(executor.conflicts or {})
    return buffers, found
