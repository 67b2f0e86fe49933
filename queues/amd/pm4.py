"""PM4 packets: one function with keyword arguments each, to a list of 32-bit words.

What differs between chip families takes a `Flavour` (`flavour_of("gfx1100")`) first. Addresses are
GPU virtual addresses in bytes; registers are absolute dword addresses (`0x2e00`), values unsigned.
Raises: BadArgument from every function when something does not fit its field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from drivers.base.errors import BadArgument
from queues.amd import pm4_layouts as layouts
from queues.amd.pm4_layouts import (
    Atomic,
    AtomicCommand,
    CachePolicy,
    Compare,
    CopyDst,
    CopySrc,
    DataSel,
    EventIndex,
    EventType,
    Flavour,
    IntSel,
    MemSpace,
    WaitOperation,
    WriteDst,
    flavour_of,
)
from queues.packet_layout import WORD_MAX, WordLayout

__all__ = [
    "EVERYTHING", "Atomic", "AtomicCommand", "CachePolicy", "Compare", "CopyDst",
    "CopySrc", "DataSel", "EventIndex", "EventType", "Flavour", "IntSel", "MemSpace",
    "WaitOperation", "WriteDst", "acquire_mem", "atomic_mem", "copy_data", "dispatch_direct",
    "dispatch_indirect", "encode", "event_write", "flavour_of", "indirect_buffer", "nop",
    "pred_exec", "release_mem", "set_sh_reg", "set_uconfig_reg", "wait_mem", "wait_reg",
    "write_data", "write_wait_reg",
]  # fmt: skip

EVERYTHING: Final = (1 << 56) - 1
"""ACQUIRE_MEM size (in 256-byte units) that covers all addresses. # src: gfx_v11_0_emit_mem_sync"""
POLL_INTERVAL: Final = 4
"""Clocks / 16 between two polls. # src: the captured stream of tinygrad's driver"""


def encode(layout: WordLayout, values: Mapping[str, int], tail: Sequence[int] = ()) -> list[int]:
    """The words of any type-3 packet by its field names."""
    words = layout.encode(values, tail)
    count = len(words) - 2 if len(words) > 1 else layouts.COUNT_MAX
    if len(words) - 2 >= layouts.COUNT_MAX:
        raise BadArgument(f"a {layout.name} of {len(words)} words is too long for its count")
    words[0] |= count << layouts.COUNT_SHIFT
    return words


def nop(*, words: int = 1) -> list[int]:
    """A packet of `words` words without effect."""
    if not 1 <= words <= layouts.COUNT_MAX:
        raise BadArgument(f"a NOP is 1 to {layouts.COUNT_MAX} words long, not {words}")
    return encode(layouts.NOP, {}, [0] * (words - 1))


def dispatch_direct(*, dim_x: int, dim_y: int, dim_z: int, dispatch_initiator: int) -> list[int]:
    """Start dim_x * dim_y * dim_z workgroups with the registers set so far."""
    values = {"dim_x": dim_x, "dim_y": dim_y, "dim_z": dim_z}
    return encode(layouts.DISPATCH_DIRECT, values | {"dispatch_initiator": dispatch_initiator})


def dispatch_indirect(*, addr: int, dispatch_initiator: int) -> list[int]:
    """Start as many workgroups as the three words at `addr` give."""
    values = {"addr": addr, "dispatch_initiator": dispatch_initiator}
    return encode(layouts.DISPATCH_INDIRECT, values)


def atomic_mem(
    *,
    atomic: Atomic,
    addr: int,
    src_data: int,
    cmp_data: int = 0,
    command: AtomicCommand = AtomicCommand.SINGLE_PASS_ATOMIC,
    loop_interval: int = 0,
    cache_policy: CachePolicy = CachePolicy.LRU,
) -> list[int]:
    """Change memory atomically; COPY_DATA's ATOMIC_RETURN_DATA has the old value."""
    if addr % atomic.nbytes:
        raise BadArgument(f"{atomic.name} at {addr:#x} is not aligned")
    values = {"atomic": atomic, "command": command, "cache_policy": cache_policy, "addr": addr}
    values |= {"src_data": src_data, "cmp_data": cmp_data, "loop_interval": loop_interval}
    return encode(layouts.ATOMIC_MEM, values)


def pred_exec(flavour: Flavour, *, virtual_xcc_id_select: int, exec_count: int) -> list[int]:
    """Only the XCCs of the mask run the next `exec_count` words.

    Hardware: works in indirect buffers, not in a ring. Raises: Unsupported beside gfx9.
    """
    values = {"virtual_xcc_id_select": virtual_xcc_id_select, "exec_count": exec_count}
    return encode(flavour.layout("PRED_EXEC"), values)


def write_data(
    *,
    dst: int,
    data: Sequence[int],
    dst_sel: WriteDst = WriteDst.MEMORY,
    addr_incr: int = 0,
    wr_confirm: int = 1,
    cache_policy: CachePolicy = CachePolicy.LRU,
) -> list[int]:
    """Write words to memory or registers from `dst` on (`addr_incr=1`: all to the same place)."""
    to_register = dst_sel is WriteDst.MEM_MAPPED_REGISTER
    values = {"dst_sel": dst_sel, "addr_incr": addr_incr, "wr_confirm": wr_confirm}
    values |= {"cache_policy": cache_policy}
    values |= {"dst_mmreg_addr" if to_register else "dst_mem_addr": dst}
    return encode(layouts.WRITE_DATA, values, data)


def _wait(
    where: Mapping[str, int], function: Compare, reference: int, mask: int, poll_interval: int
) -> list[int]:
    values = {"function": function, "reference": reference, "mask": mask, **where}
    return encode(layouts.WAIT_REG_MEM, values | {"poll_interval": poll_interval})


def wait_mem(
    *,
    addr: int,
    reference: int,
    mask: int = WORD_MAX,
    function: Compare = Compare.GE,
    poll_interval: int = POLL_INTERVAL,
) -> list[int]:
    """Stop here until the 32-bit word at `addr`, under the mask, compares with `reference`."""
    where = {"mem_space": MemSpace.MEMORY, "mem_poll_addr": addr}
    return _wait(where, function, reference, mask, poll_interval)


def wait_reg(
    *,
    reg: int,
    reference: int,
    mask: int = WORD_MAX,
    function: Compare = Compare.EQ,
    poll_interval: int = POLL_INTERVAL,
) -> list[int]:
    """Stop here until the register, under the mask, compares with `reference`."""
    return _wait({"reg_poll_addr": reg}, function, reference, mask, poll_interval)


def write_wait_reg(
    *,
    write_reg: int,
    poll_reg: int,
    reference: int = WORD_MAX,
    mask: int = WORD_MAX,
    function: Compare = Compare.GE,
    poll_interval: int = POLL_INTERVAL,
) -> list[int]:
    """Write `reference` to one register, wait on the other: how the HDP cache is flushed."""
    where = {"operation": WaitOperation.WR_WAIT_WR_REG}
    registers = {"reg_write_addr1": write_reg, "reg_write_addr2": poll_reg}
    return _wait(where | registers, function, reference, mask, poll_interval)


def indirect_buffer(
    *,
    ib_base: int,
    ib_size: int,
    chain: int = 0,
    vmid: int = 0,
    cache_policy: CachePolicy = CachePolicy.LRU,
) -> list[int]:
    """Run `ib_size` words at `ib_base`, then continue here (`chain=1`: do not return)."""
    values = {"ib_base": ib_base, "ib_size": ib_size, "chain": chain, "valid": 1, "vmid": vmid}
    return encode(layouts.INDIRECT_BUFFER, values | {"cache_policy": cache_policy})


_COPY_SOURCES: Final[Mapping[int, str]] = {
    CopySrc.MEM_MAPPED_REGISTER: "src_reg_offset",
    CopySrc.PERFCOUNTERS: "src_reg_offset",
    CopySrc.MEMORY: "src_addr",
    CopySrc.TC_L2: "src_addr",
    CopySrc.IMMEDIATE_DATA: "imm_data",
}
_COPY_REGISTERS: Final = (CopyDst.MEM_MAPPED_REGISTER, CopyDst.PERFCOUNTERS)


def copy_data(
    *,
    src_sel: CopySrc,
    dst_sel: CopyDst,
    dst: int,
    src: int = 0,
    count_sel: int = 0,
    wr_confirm: int = 1,
    src_cache_policy: CachePolicy = CachePolicy.LRU,
    dst_cache_policy: CachePolicy = CachePolicy.LRU,
) -> list[int]:
    """Copy 32 bits (`count_sel=1`: 64) between registers, memory, clocks and immediates.

    `src` is a register, an address or a value, and stays 0 for a clock or a returned atomic.
    """
    source = _COPY_SOURCES.get(src_sel)
    if source is None and src:
        raise BadArgument(f"{src_sel.name} has no source {src:#x}")
    values: dict[str, int] = {"src_sel": src_sel, "dst_sel": dst_sel, "count_sel": count_sel}
    values |= {"wr_confirm": wr_confirm, "src_cache_policy": src_cache_policy}
    values |= {"dst_cache_policy": dst_cache_policy}
    values |= {"dst_reg_offset" if dst_sel in _COPY_REGISTERS else "dst_addr": dst}
    return encode(layouts.COPY_DATA, values | ({source: src} if source else {}))


def event_write(
    *,
    event_type: EventType = EventType.CS_PARTIAL_FLUSH,
    event_index: EventIndex = EventIndex.CS_PARTIAL_FLUSH,
) -> list[int]:
    """An event without an address; by default: wait until the shaders before are done."""
    return encode(layouts.EVENT_WRITE, {"event_type": event_type, "event_index": event_index})


def release_mem(
    flavour: Flavour,
    *,
    addr: int = 0,
    data: int = 0,
    data_sel: DataSel = DataSel.NONE,
    int_sel: IntSel = IntSel.NONE,
    int_ctxid: int = 0,
    caches: Mapping[str, int] | None = None,
    event_type: EventType = EventType.CACHE_FLUSH_AND_INV_TS_EVENT,
) -> list[int]:
    """Once the work before is done: cache actions, then `data` or a clock to `addr`, an interrupt.

    `caches` are fields of the family's packet, by default none (see `Flavour.release_all`).
    Hardware: the queue needs an EOP buffer.
    """
    values: dict[str, int] = {"event_type": event_type, "event_index": EventIndex.END_OF_PIPE}
    values |= {"data_sel": data_sel, "int_sel": int_sel, "addr": addr, "data": data}
    return encode(
        flavour.layout("RELEASE_MEM"), values | {"int_ctxid": int_ctxid, **(caches or {})}
    )


def acquire_mem(
    flavour: Flavour,
    *,
    caches: Mapping[str, int],
    coher_base: int = 0,
    coher_size: int = EVERYTHING,
    poll_interval: int = 0xA,
) -> list[int]:
    """Write back and invalidate `caches`, for a range in 256-byte units or for everything."""
    values = {"coher_base": coher_base, "coher_size": coher_size, "poll_interval": poll_interval}
    return encode(flavour.layout("ACQUIRE_MEM"), {**values, **caches})


def _set_reg(layout: WordLayout, reg: int, values: Sequence[int], base: int, end: int) -> list[int]:
    if not base <= reg <= reg + len(values) <= end:
        raise BadArgument(
            f"{layout.name}: registers {reg:#x}+{len(values)} are not within {base:#x}..{end:#x}"
        )
    return encode(layout, {"reg_offset": reg - base}, values)


def set_sh_reg(*, reg: int, values: Sequence[int]) -> list[int]:
    """Set shader registers (COMPUTE_*) from `reg` on."""
    base, end = layouts.SH_REG_BASE, layouts.SH_REG_END
    return _set_reg(layouts.SET_SH_REG, reg, values, base, end)


def set_uconfig_reg(*, reg: int, values: Sequence[int]) -> list[int]:
    """Set user-configuration registers (GRBM_GFX_INDEX) from `reg` on."""
    base, end = layouts.UCONFIG_REG_BASE, layouts.UCONFIG_REG_END
    return _set_reg(layouts.SET_UCONFIG_REG, reg, values, base, end)
