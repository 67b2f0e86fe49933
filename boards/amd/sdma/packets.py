"""What each SDMA packet does. A handler takes all its words; False means wait and ask again."""

from __future__ import annotations

from collections.abc import Callable

from boards.amd.cp.atomics import atomic
from boards.amd.cp.context import COMPARE, Context, bits, join
from boards.amd.cp.registers import HDP_FLUSH_DONE, HDP_FLUSH_REQ
from boards.amd.cp.sync import apply_caches, caches_nv
from boards.amd.sdma import layouts as layout

_CHUNK_BYTES = 1 << 22
_RETRY_FOR_EVER = 0xFFF
_UNCACHED, _ALWAYS = 3, 0
_FILL_BYTE, _FILL_HALF, _FILL_DWORD = 0, 1, 2


def copy_linear(context: Context, words: tuple[int, ...]) -> bool:
    """Copy `count` + 1 bytes, in pieces; forwards."""
    nbytes, source, target = words[1] + 1, join(words[3], words[4]), join(words[5], words[6])
    if source < target < source + nbytes or target < source < target + nbytes:
        context.find("overlapping copy", f"{nbytes} bytes {source:#x} to {target:#x}")
    for at in range(0, nbytes, _CHUNK_BYTES):
        size = min(_CHUNK_BYTES, nbytes - at)
        context.write(target + at, context.read(source + at, size))
    context.host.trace(
        "copy", queue=context.spec.queue_id, src=source, dst=target, nbytes=nbytes
    )  # fmt: skip
    return True


def const_fill(context: Context, words: tuple[int, ...]) -> bool:
    """Repeat a byte, half or dword over `count` + 1 bytes."""
    size, target, value = bits(words[0], 31, 30), join(words[1], words[2]), words[3]
    if size > _FILL_DWORD:
        raise context.fault("reserved value", "fillsize 3")
    unit = 1 << size
    # src: amd_blit_sdma.cpp BuildFillCommand: a fill of n dwords counts 4 * (n - 1); the kernel's
    # sdma_v6_0_emit_fill_buffer counts bytes - 1. Both are the same number of whole units.
    nbytes = (words[4] | unit - 1) + 1
    context.aligned(target, unit)
    if size != _FILL_DWORD and value != int.from_bytes(value.to_bytes(4, "little")[:unit] * (
        4 // unit
    ), "little"):  # fmt: skip
        # The kernel fills dwords with fillsize 0; what silicon writes of such a value is unknown.
        raise context.fault("unsupported", f"{value:#x} is no repeated {8 * unit}-bit value")
    pattern = value.to_bytes(4, "little")[:unit]
    for at in range(0, nbytes, _CHUNK_BYTES):
        context.write(target + at, pattern * (min(_CHUNK_BYTES, nbytes - at) // unit))
    return True


def write_untiled(context: Context, words: tuple[int, ...]) -> bool:
    """Write `count` + 1 dwords that follow in the packet."""
    data = b"".join(word.to_bytes(4, "little") for word in words[4:])
    context.write(context.aligned(join(words[1], words[2]), 4), data)
    return True


def fence(context: Context, words: tuple[int, ...]) -> bool:
    """Write one dword after everything before."""
    if context.host.chip.sdma[0] > 4 and bits(words[0], 18, 16) != _UNCACHED:
        # src: sdma_v5_2.c, sdma_v6_0.c, sdma_v7_0.c emit_fence; amd_blit_sdma.cpp: MTYPE UC.
        context.find("cached fence", f"mtype {bits(words[0], 18, 16)}, not 3 (uncached)")
    context.signal(join(words[1], words[2]), words[3], 4)
    return True


def trap(context: Context, words: tuple[int, ...]) -> bool:
    """Interrupt with 28 bits of context."""
    context.interrupt(words[1])
    return True


def poll_regmem(context: Context, words: tuple[int, ...]) -> bool:
    """Wait for a dword in memory; or flush HDP, which is done at once."""
    function, memory = bits(words[0], 30, 28), bits(words[0], 31, 31)
    if function not in COMPARE:
        raise context.fault("reserved value", f"func {function}")
    if not memory and function == _ALWAYS:
        # src: ROCr amd_blit_sdma.cpp, SDMA_PKT_HDP_FLUSH: no address, and nothing to compare with
        return True
    if not memory:
        # src: sdma_v6_0.c emit_hdp_flush: byte addresses of HDP_FLUSH_DONE, HDP_FLUSH_REQ.
        if not bits(words[0], 26, 26) or words[1] != 4 * HDP_FLUSH_DONE or (
            words[2] != 4 * HDP_FLUSH_REQ
        ):  # fmt: skip
            raise context.fault("unknown register", f"{words[1]:#x}, {words[2]:#x}")
        return True
    if bits(words[0], 26, 26):
        raise context.fault("reserved value", "HDP_FLUSH is for registers")
    if bits(words[5], 27, 16) != _RETRY_FOR_EVER:
        context.find("bounded poll", f"it gives up after {bits(words[5], 27, 16)} tries")
    value = context.read_int(join(words[1], words[2]), 4)
    return COMPARE[function](value & words[4], words[3])


def atomic_packet(context: Context, words: tuple[int, ...]) -> bool:
    """An atomic; with `loop`, again and again until its comparison holds."""
    operation, loop = bits(words[0], 31, 25), bits(words[0], 16, 16)
    data, compare = join(words[3], words[4]), join(words[5], words[6])
    _, found = atomic(context, operation, join(words[1], words[2]), data, compare)
    return found or not loop


def timestamp(context: Context, words: tuple[int, ...]) -> bool:
    """Write the 100 MHz counter."""
    context.write_int(join(words[1], words[2]), context.host.ticks(), 8)
    return True


def gcr_req(context: Context, words: tuple[int, ...]) -> bool:
    """Write back and invalidate the shader caches, all of them."""
    control = bits(words[2], 31, 16) | bits(words[3], 2, 0) << 16
    if bits(words[4], 27, 24):
        raise context.fault("reserved value", "a process may not choose a VMID")
    caches = caches_nv(context, control)
    for waves in context.all_waves.values():
        apply_caches(waves, caches)
    return True


HANDLERS: dict[int, Callable[[Context, tuple[int, ...]], bool]] = {
    layout.NOP: lambda context, words: True,
    layout.COPY: copy_linear, layout.CONST_FILL: const_fill, layout.WRITE: write_untiled,
    layout.FENCE: fence, layout.TRAP: trap, layout.POLL_REGMEM: poll_regmem,
    layout.ATOMIC: atomic_packet, layout.TIMESTAMP: timestamp, layout.GCR_REQ: gcr_req,
}  # fmt: skip
