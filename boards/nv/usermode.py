"""The usermode registers: doorbells, and the clock.

src: open-gpu-doc, classes/host (clc361.h, clc461.h): NOTIFY_CHANNEL_PENDING 0x90, TIME_0 0x80,
TIME_1 0x84; notes section 1.3
"""

from __future__ import annotations

from collections.abc import Container

from boards.nv.hardware import NvGpu, NvHardware

TIME_LOW, TIME_HIGH, DOORBELL = 0x80, 0x84, 0x90
_WORD = 4
_LOW_MASK = 0xFFFF_FFE0
"""The clock counts in steps of 32 ns."""
_WORD_BITS = 32


def store(
    hardware: NvHardware, gpu: NvGpu, off: int, size: int, value: int, muted: Container[int]
) -> None:
    """A store to a register of a GPU."""
    if off != DOORBELL or size != _WORD:
        hardware.find("store to a usermode register that is none", f"{off:#x}, {size} bytes")
        return
    channel = gpu.channels.get(value)
    if channel is None:
        hardware.find("doorbell of no channel", f"token {value:#x}")
        return
    if not channel.token_taken:
        hardware.find("token that was not asked for", f"{value:#x}")
    if channel.handle in muted:
        return
    channel.ring()
    if not hardware.late:
        hardware.pump()


def load(hardware: NvHardware, off: int, size: int) -> int:
    """A load; reading the clock lets waiting work go on."""
    if size != _WORD or off not in (TIME_LOW, TIME_HIGH):
        hardware.find("load of a usermode register that is none", f"{off:#x}, {size} bytes")
        return 0
    hardware.pump()
    now_ns = hardware.clock.now_ns()
    return now_ns >> _WORD_BITS if off == TIME_HIGH else now_ns & _LOW_MASK
