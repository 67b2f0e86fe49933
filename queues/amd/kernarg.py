"""The hidden arguments of a kernarg segment, after a kernel's own: grid and workgroup sizes.

Code object 5 appends 256 bytes of implicit arguments, and its metadata lists those that a kernel
may read: with -O1 or more those that it does read, unless clang cannot determine them. Grids here
are whole workgroups from 0 on, in three dimensions. The address of a host runtime's service is 0.

Source: LLVM AMDGPUUsage, "Code Object V5 Metadata"; clr rocvirtual.cpp fills them in the same way.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drivers.base.errors import MalformedInput, Unsupported

ARG_KINDS: Final = (
    "by_value", "global_buffer", "dynamic_shared_pointer", "sampler", "image", "pipe", "queue",
    "hidden_none", "hidden_global_offset_x", "hidden_global_offset_y", "hidden_global_offset_z",
    "hidden_printf_buffer", "hidden_hostcall_buffer", "hidden_default_queue",
    "hidden_completion_action", "hidden_multigrid_sync_arg", "hidden_heap_v1",
    "hidden_block_count_x", "hidden_block_count_y", "hidden_block_count_z", "hidden_group_size_x",
    "hidden_group_size_y", "hidden_group_size_z", "hidden_remainder_x", "hidden_remainder_y",
    "hidden_remainder_z", "hidden_grid_dims", "hidden_private_base", "hidden_shared_base",
    "hidden_queue_ptr", "hidden_dynamic_lds_size",
)  # fmt: skip
"""`.value_kind` of an argument; `queues.amd.kernel_code` writes the position in this list."""
BUFFER: Final = "global_buffer"
GIVEN: Final = ("by_value", BUFFER)
"""Kinds that a launch takes from its caller."""
_DIMENSIONS: Final = 3
"""Of every launch, also in AQL packets."""
_COUNTS: Final = {f"hidden_block_count_{axis}": number for number, axis in enumerate("xyz")}
_SIZES: Final = {f"hidden_group_size_{axis}": number for number, axis in enumerate("xyz")}
_DYNAMIC: Final = "hidden_dynamic_lds_size"
_ZERO: Final = frozenset(
    {"hidden_none"}
    | {f"hidden_{what}_{axis}" for what in ("global_offset", "remainder") for axis in "xyz"}
)
NULLS: Final[Mapping[str, str]] = {
    "hidden_printf_buffer": "printf()",
    "hidden_hostcall_buffer": "printf(), assert() and other calls of the host",
    "hidden_heap_v1": "malloc() and free()",
    "hidden_default_queue": "launches of kernels by kernels",
    "hidden_completion_action": "launches of kernels by kernels",
    "hidden_multigrid_sync_arg": "barriers of grids on several GPUs",
    "hidden_queue_ptr": "reads of the queue's own record",
}
"""Addresses of services that no launch here has, and what a kernel uses them for. They are 0: a
kernel that only lists them runs, and one that uses them stops with a page fault at 0.

src: ROCm-Device-Libs ockl hostcall.cl, dm.cl and opencl printf_alloc.cl go through the address
"""
NULL_BYTES: Final = 1 << 16
"""Where a use of such an address can be: no memory of a process begins below.
# src: drivers/amd/kfd_flat_memory.c AMDGPU_VA_RESERVED_BOTTOM"""
BASES: Final = frozenset({"hidden_private_base", "hidden_shared_base"})
"""Upper 32 bits of the apertures of private and local memory, which the device knows."""
_WORD_BYTES: Final = 4
_FEWEST_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Hidden:
    """One implicit argument."""

    offset: int
    nbytes: int
    kind: str
    value: int = 0
    """Of one in `BASES`."""


def check(name: str, number: int, kind: str) -> None:
    """Raises: Unsupported for an argument that no launch here fills."""
    if kind in GIVEN or kind in _COUNTS or kind in _SIZES or kind in _ZERO:
        return
    if kind in NULLS or kind in BASES or kind in ("hidden_grid_dims", _DYNAMIC):
        return
    raise Unsupported(
        f"{name}: argument {number} is {kind}: no launch here fills that kind",
        hint="pass buffers and numbers",
    )


def check_place(name: str, hidden: Sequence[Hidden], start: int, end: int) -> None:
    """Raises: MalformedInput for one that is not between own arguments and segment's end."""
    at = start
    for one in hidden:
        count = one.kind in _COUNTS
        least = _WORD_BYTES if count else _FEWEST_BYTES
        fits = at <= one.offset <= end - one.nbytes and one.nbytes >= least
        if not fits or (count and (one.offset % _WORD_BYTES or one.nbytes != _WORD_BYTES)):
            raise MalformedInput(f"{name}: {one.kind} of {one.nbytes} bytes at {one.offset}")
        at = one.offset + one.nbytes


def appended(
    hidden: Sequence[Hidden], block: Sequence[int], own: int, count: int, added: int = 0
) -> tuple[list[int], dict[int, tuple[str, int]]]:
    """The words after the first `own` of a segment of `count`, and the holes in them.

    Every number of workgroups is a hole of one word: "count0", "count1" or "count2". `added`:
    bytes of local memory that the launch adds to those that the kernel declares.
    """
    segment = bytearray(_WORD_BYTES * count)
    holes = {}
    for one in hidden:
        value = _DIMENSIONS if one.kind == "hidden_grid_dims" else one.value
        if one.kind == _DYNAMIC:
            value = added
        if one.kind in _SIZES:
            value = block[_SIZES[one.kind]]
        if one.kind in _COUNTS:
            holes[one.offset // _WORD_BYTES - own] = (f"count{_COUNTS[one.kind]}", 1)
        segment[one.offset : one.offset + one.nbytes] = value.to_bytes(one.nbytes, "little")
    return list(struct.unpack(f"<{count}I", segment))[own:], holes
