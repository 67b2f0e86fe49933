"""SDMA packets: one function with keyword arguments each, to a list of 32-bit words.

What differs between engine versions takes an `Engine` (`engine_of("gfx1100")`) first. Addresses and
sizes are in bytes. A ring's write pointer counts bytes, a packet never wraps around the ring's
end (zero words are NOPs), and INDIRECT ends at a multiple of 8 words.
Raises: BadArgument from every function when something does not fit its field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from drivers.base.errors import BadArgument
from queues.amd import sdma_layouts as layouts
from queues.amd.pm4_layouts import Atomic, Compare
from queues.amd.sdma_layouts import Engine, FillSize, Mtype, engine_of
from queues.packet_layout import WORD_BITS, WORD_MAX

__all__ = [
    "INDIRECT_WORDS", "RETRY_FOREVER", "USER_GCR", "Atomic", "Compare", "Engine",
    "FillSize", "Mtype", "atomic", "const_fill", "copy_linear", "engine_of", "fence", "gcr",
    "hdp_flush", "indirect", "indirect_padding", "nop", "poll_mem", "poll_reg", "timestamp", "trap",
    "write",
]  # fmt: skip

INDIRECT_WORDS: Final = 6
RETRY_FOREVER: Final = 0xFFF
"""# src: ROCR-Runtime amd_blit_sdma.cpp, "Retry forever"; Mesa SDMA_POLL_RETRY_INDEFINITELY"""
POLL_INTERVAL: Final = 4
HDP_INTERVAL: Final = 10
"""Between two polls of the flush. # src: sdma_v6_0_ring_emit_hdp_flush"""
USER_GCR: Final = 1
"""Sub-operation of a cache request from a user queue; the kernel's rings use 0."""
REGISTER_SHIFT: Final = 2
"""Registers are polled by byte address."""


def nop(*, words: int = 1) -> list[int]:
    """A packet of `words` words without effect; the engine finishes pending copies first."""
    if words < 1:
        raise BadArgument(f"a NOP cannot be {words} words long")
    return layouts.NOP.encode({"count": words - 1}, [0] * (words - 1))


def _within(what: str, count: int, most: int, engine: Engine) -> None:
    if not 0 < count <= most:
        raise BadArgument(
            f"SDMA {engine.name} {what} 1 to {most} bytes at a time, not {count}",
            hint="split the range by the engine's limit",
        )


def copy_linear(engine: Engine, *, dst_addr: int, src_addr: int, count: int) -> list[int]:
    """Copy `count` bytes, at most `engine.copy_max_bytes`."""
    _within("copies", count, engine.copy_max_bytes, engine)
    values = {"count": count, "src_addr": src_addr, "dst_addr": dst_addr}
    return engine.layout("COPY_LINEAR").encode(values)


def const_fill(
    engine: Engine,
    *,
    dst_addr: int,
    src_data: int,
    count: int,
    fillsize: FillSize = FillSize.WORD,
) -> list[int]:
    """Fill `count` bytes (at most `engine.fill_max_bytes`) with a byte, 16 or 32 bits."""
    _within("fills", count, engine.fill_max_bytes, engine)
    step = 1 << fillsize
    if dst_addr % step or count % step or src_data >> 8 * step:
        raise BadArgument(f"{count} bytes at {dst_addr:#x} of {src_data:#x} in steps of {step}")
    values = {"fillsize": fillsize, "dst_addr": dst_addr, "src_data": src_data, "count": count}
    return engine.layout("CONST_FILL").encode(values)


def write(engine: Engine, *, dst_addr: int, data: Sequence[int]) -> list[int]:
    """Write words from the packet to memory."""
    values = {"dst_addr": dst_addr, "count": len(data)}
    return engine.layout("WRITE").encode(values, data)


def fence(engine: Engine, *, addr: int, data: int) -> list[int]:
    """Write a 32-bit value after everything before has reached memory."""
    return engine.layout("FENCE").encode({**engine.fence, "addr": addr, "data": data})


def trap(*, int_context: int) -> list[int]:
    """Interrupt the host; KFD finds the event by its id in `int_context`."""
    return layouts.TRAP.encode({"int_context": int_context})


def _poll(engine: Engine, fields: Mapping[str, int], interval: int, retry: int) -> list[int]:
    values = {**fields, "interval": interval, "retry_count": retry}
    return engine.layout("POLL_REGMEM").encode(values)


def poll_mem(
    engine: Engine,
    *,
    addr: int,
    value: int,
    mask: int = WORD_MAX,
    func: Compare = Compare.GE,
    interval: int = POLL_INTERVAL,
    retry_count: int = RETRY_FOREVER,
) -> list[int]:
    """Stop here until the 32-bit word at `addr`, under the mask, compares with `value`."""
    fields = {"mem_poll": 1, "func": func, "addr": addr, "value": value, "mask": mask}
    return _poll(engine, fields, interval, retry_count)


def poll_reg(
    engine: Engine,
    *,
    reg: int,
    value: int,
    mask: int = WORD_MAX,
    func: Compare = Compare.EQ,
    interval: int = POLL_INTERVAL,
    retry_count: int = RETRY_FOREVER,
) -> list[int]:
    """Stop here until the register at dword address `reg` compares with `value`."""
    fields = {"func": func, "addr": reg << REGISTER_SHIFT, "value": value, "mask": mask}
    return _poll(engine, fields, interval, retry_count)


def hdp_flush(engine: Engine, *, request_reg: int, done_reg: int, mask: int) -> list[int]:
    """Write `mask` to one register (dword address) and wait for it in the other.

    # src: sdma_v6_0_ring_emit_hdp_flush: the second address word is the register written.
    """
    both = done_reg << REGISTER_SHIFT | request_reg << REGISTER_SHIFT + WORD_BITS
    fields = {"hdp_flush": 1, "func": Compare.EQ, "addr": both, "value": mask, "mask": mask}
    return _poll(engine, fields, HDP_INTERVAL, RETRY_FOREVER)


def atomic(
    engine: Engine,
    *,
    atomic_op: Atomic,
    addr: int,
    src_data: int,
    cmp_data: int = 0,
    loop: int = 0,
    loop_interval: int = 0,
) -> list[int]:
    """Change memory atomically (`loop=1`: repeat until the comparison held)."""
    if addr % atomic_op.nbytes:
        raise BadArgument(f"{atomic_op.name} at {addr:#x} is not aligned")
    values = {"atomic_op": atomic_op, "addr": addr, "src_data": src_data, "cmp_data": cmp_data}
    values |= {"loop": loop, "loop_interval": loop_interval}
    return engine.layout("ATOMIC").encode(values)


def indirect_padding(*, at: int) -> int:
    """Words of NOP before an INDIRECT at word `at` of a ring, to align its end."""
    return -(at + INDIRECT_WORDS) % layouts.INDIRECT_END_WORDS


def indirect(
    engine: Engine, *, ib_base: int, ib_size: int, csa_addr: int = 0, vmid: int = 0
) -> list[int]:
    """Run `ib_size` words (a multiple of 8) at `ib_base` (a multiple of 32), then continue here."""
    if ib_size % layouts.INDIRECT_END_WORDS:
        raise BadArgument(f"an SDMA buffer of {ib_size} words does not end at a multiple of 8")
    values = {"ib_base": ib_base, "ib_size": ib_size, "csa_addr": csa_addr, "vmid": vmid}
    return engine.layout("INDIRECT").encode(values)


def timestamp(engine: Engine, *, addr: int) -> list[int]:
    """Write the 64-bit global clock (100 MHz) to memory."""
    return engine.layout("TIMESTAMP").encode({"addr": addr})


def gcr(
    engine: Engine,
    *,
    caches: Mapping[str, int],
    base_va: int = 0,
    limit_va: int = 0,
    sub_op: int = USER_GCR,
) -> list[int]:
    """Write back and invalidate graphics caches. Raises: Unsupported on 4.x, which has none."""
    values = {"sub_op": sub_op, "base_va": base_va, "limit_va": limit_va, **caches}
    return engine.layout("GCR_REQ").encode(values)
