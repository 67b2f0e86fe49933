"""AQL packets (64 bytes): one function with keyword arguments each, to 16 words of 32 bits.

Write words 1 to 15 of a slot first and word 0 last: its type makes the packet valid. The doorbell
takes the index of the last packet.
# src: ROCR-Runtime inc/hsa.h (hsa_kernel_dispatch_packet_t, hsa_barrier_and_packet_t),
# src: inc/hsa_ext_amd.h (hsa_amd_barrier_value_packet_t), amd_aql_queue.cpp (amd_aql_pm4_ib).
Raises: BadArgument from every function when something does not fit its field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from drivers.base.errors import BadArgument
from queues.amd import pm4
from queues.amd.pm4_layouts import INDIRECT_BUFFER
from queues.packet_layout import WordLayout

PACKET_WORDS: Final = 16
PACKET_BYTES: Final = 4 * PACKET_WORDS
MAX_DIMENSIONS: Final = 3
DEPENDENCIES: Final = 5
"""Signals that one barrier packet waits for."""
PM4_WORDS_LEFT: Final = 10
"""Words of a PM4 packet's slot after the jump. # src: amd_aql_queue.cpp, dw_cnt_remain"""
_TYPE_MASK: Final = 0xFF
_VENDOR_MASK: Final = 0xFFFF00FF
FORMAT_SHIFT: Final = 16


class PacketType(IntEnum):
    """Bits 7:0 of word 0."""

    VENDOR_SPECIFIC, INVALID, KERNEL_DISPATCH, BARRIER_AND, AGENT_DISPATCH, BARRIER_OR = range(6)


class VendorFormat(IntEnum):
    """Bits 31:16 of word 0 of a vendor packet."""

    PM4_IB, BARRIER_VALUE = 1, 2


class FenceScope(IntEnum):
    """Scope of writes made visible to the packet (acquire), and of its own (release)."""

    NONE, AGENT, SYSTEM = range(3)


class Condition(IntEnum):
    """hsa_signal_condition_t, signed comparison."""

    EQ, NE, LT, GTE = range(4)


ENUMS: Final[Mapping[str, type[IntEnum]]] = {
    "acquire": FenceScope,
    "release": FenceScope,
    "cond": Condition,
}
_HEADER: Final = "barrier 8  acquire 10:9  release 12:11"
_END: Final = ("completion_signal/8 63:0", "")


def _packet(name: str, fixed: int, mask: int, *words: str) -> WordLayout:
    body = (*words, *("",) * (PACKET_WORDS - len(words) - len(_END)))
    return WordLayout(name, fixed, mask, (*body, *_END), enums=ENUMS)


def _vendor(kind: VendorFormat, *words: str) -> WordLayout:
    return _packet(kind.name, kind << FORMAT_SHIFT, _VENDOR_MASK, _HEADER, *words)


KERNEL_DISPATCH: Final = _packet(
    "KERNEL_DISPATCH",
    PacketType.KERNEL_DISPATCH,
    _TYPE_MASK,
    f"{_HEADER}  dimensions 17:16",
    *("workgroup_size_x 15:0  workgroup_size_y 31:16", "workgroup_size_z 15:0"),
    *("grid_size_x 31:0", "grid_size_y 31:0", "grid_size_z 31:0"),
    *("private_segment_size 31:0", "group_segment_size 31:0"),
    *("kernel_object/64 63:0", "", "kernarg_address/16 63:0", ""),
)
_DEPENDENCIES: Final = tuple(
    text for number in range(DEPENDENCIES) for text in (f"dep_signal{number}/8 63:0", "")
)
BARRIER_AND: Final = _packet(
    "BARRIER_AND", PacketType.BARRIER_AND, _TYPE_MASK, _HEADER, "", *_DEPENDENCIES
)
BARRIER_OR: Final = _packet(
    "BARRIER_OR", PacketType.BARRIER_OR, _TYPE_MASK, _HEADER, "", *_DEPENDENCIES
)
INVALID: Final = _packet("INVALID", PacketType.INVALID, _TYPE_MASK, _HEADER)
"""An empty slot."""
PM4_IB: Final = _vendor(
    VendorFormat.PM4_IB, "ib_header 31:0", *INDIRECT_BUFFER.words[1:], "dw_cnt_remain 31:0"
)
BARRIER_VALUE: Final = _vendor(
    VendorFormat.BARRIER_VALUE,
    *("", "signal/8 63:0", "", "value 63:0", "", "mask 63:0", "", "cond 31:0"),
)
BY_TYPE: Final[Mapping[int, WordLayout]] = {
    layout.fixed: layout for layout in (INVALID, KERNEL_DISPATCH, BARRIER_AND, BARRIER_OR)
}
BY_FORMAT: Final[Mapping[int, WordLayout]] = {
    VendorFormat.PM4_IB: PM4_IB,
    VendorFormat.BARRIER_VALUE: BARRIER_VALUE,
}


def _header(barrier: int, acquire: FenceScope, release: FenceScope, signal: int) -> dict[str, int]:
    values = {"barrier": barrier, "completion_signal": signal}
    return values | {"acquire": acquire, "release": release}


def invalid() -> list[int]:
    """An empty slot: the packet processor stops before it."""
    return INVALID.encode({})


def kernel_dispatch(
    *,
    workgroup_size: Sequence[int],
    grid_size: Sequence[int],
    kernel_object: int,
    kernarg_address: int = 0,
    private_segment_size: int = 0,
    group_segment_size: int = 0,
    completion_signal: int = 0,
    barrier: int = 1,
    acquire: FenceScope = FenceScope.SYSTEM,
    release: FenceScope = FenceScope.SYSTEM,
) -> list[int]:
    """Run the kernel with its descriptor at `kernel_object`.

    Units: `grid_size` counts work items, not workgroups; segments are bytes, private ones per lane.
    """
    dimensions = len(grid_size)
    if not 1 <= dimensions <= MAX_DIMENSIONS or len(workgroup_size) != dimensions:
        raise BadArgument(f"a grid {grid_size} of workgroups {workgroup_size}")
    values = _header(barrier, acquire, release, completion_signal)
    values |= {"dimensions": dimensions, "kernel_object": kernel_object}
    for number, axis in enumerate("xyz"):
        wide = number < dimensions
        values[f"workgroup_size_{axis}"] = workgroup_size[number] if wide else 1
        values[f"grid_size_{axis}"] = grid_size[number] if wide else 1
    values |= {"private_segment_size": private_segment_size, "kernarg_address": kernarg_address}
    return KERNEL_DISPATCH.encode(values | {"group_segment_size": group_segment_size})


def _barrier(layout: WordLayout, signals: Sequence[int], values: Mapping[str, int]) -> list[int]:
    if len(signals) > DEPENDENCIES:
        raise BadArgument(f"{layout.name} waits for at most {DEPENDENCIES} signals")
    named = {f"dep_signal{number}": signal for number, signal in enumerate(signals)}
    return layout.encode({**values, **named})


def barrier_and(
    *,
    dep_signals: Sequence[int] = (),
    completion_signal: int = 0,
    barrier: int = 1,
    acquire: FenceScope = FenceScope.SYSTEM,
    release: FenceScope = FenceScope.SYSTEM,
) -> list[int]:
    """Stop here until all of the signals (addresses of amd_signal_t) are 0."""
    values = _header(barrier, acquire, release, completion_signal)
    return _barrier(BARRIER_AND, dep_signals, values)


def barrier_or(
    *,
    dep_signals: Sequence[int],
    completion_signal: int = 0,
    barrier: int = 1,
    acquire: FenceScope = FenceScope.SYSTEM,
    release: FenceScope = FenceScope.SYSTEM,
) -> list[int]:
    """Stop here until one of the signals is 0."""
    values = _header(barrier, acquire, release, completion_signal)
    return _barrier(BARRIER_OR, dep_signals, values)


def barrier_value(
    *,
    signal: int,
    value: int,
    mask: int = (1 << 64) - 1,
    cond: Condition = Condition.GTE,
    completion_signal: int = 0,
    barrier: int = 1,
    acquire: FenceScope = FenceScope.SYSTEM,
    release: FenceScope = FenceScope.SYSTEM,
) -> list[int]:
    """Stop here until the signal, under the mask, compares with `value`."""
    values = _header(barrier, acquire, release, completion_signal)
    values |= {"signal": signal, "value": value, "mask": mask, "cond": cond}
    return BARRIER_VALUE.encode(values)


def pm4_ib(
    *,
    ib_base: int,
    ib_size: int,
    completion_signal: int = 0,
    barrier: int = 1,
    acquire: FenceScope = FenceScope.SYSTEM,
    release: FenceScope = FenceScope.SYSTEM,
) -> list[int]:
    """Run `ib_size` words of PM4 packets at `ib_base` from an AQL queue."""
    values = _header(barrier, acquire, release, completion_signal)
    header = pm4.indirect_buffer(ib_base=ib_base, ib_size=ib_size)[0]
    values |= {"ib_header": header, "ib_base": ib_base, "ib_size": ib_size, "valid": 1}
    return PM4_IB.encode(values | {"dw_cnt_remain": PM4_WORDS_LEFT})
