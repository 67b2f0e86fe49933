"""Micro engine 3, which runs the schedulers' firmware (MES, KIQ): whether a pipe of it runs."""

from __future__ import annotations

from boards.amd.pci.board import Board
from boards.amd.pci.hqd import Hqd

SCHEDULER_ME, MES_PIPE, KIQ_PIPE = 3, 0, 1
"""src: amdgpu_mes.h AMDGPU_MES_SCHED_PIPE, AMDGPU_MES_KIQ_PIPE; mes_v11_0_kiq_ring_init()"""
_CONTROL = "CP_MES_CNTL"
# src: psp_gfx_if.h GFX_FW_TYPE_CP_MES, GFX_FW_TYPE_MES_STACK, GFX_FW_TYPE_CP_MES_KIQ
_FIRMWARE = {
    MES_PIPE: ("CP_MES", "MES_STACK", "RLC_AUTOLOAD"),
    KIQ_PIPE: ("CP_MES_KIQ", "MES_KIQ_STACK", "RLC_AUTOLOAD"),
}  # fmt: skip
_ENABLED = 0x80
"""src: gfx_v11_0.c gfx_v11_0_kiq_setting(), mes_v11_0.c mes_v11_0_kiq_setting()"""


def problems(board: Board, hqd: Hqd) -> list[str]:
    """Why the engine of a scheduler's queue does not run it; empty when it does."""
    _, pipe, _ = hqd.key
    found = []
    if board.options.firmware:
        missing = [name for name in _FIRMWARE[pipe] if name not in board.loaded]
        found += [f"its firmware is not there ({name})" for name in missing]
    if hqd.block.field(_CONTROL, "MES_HALT"):
        found.append("the scheduler is halted")
    if hqd.block.field(_CONTROL, f"MES_PIPE{pipe}_RESET"):
        found.append(f"pipe {pipe} is in reset")
    if not hqd.block.field(_CONTROL, f"MES_PIPE{pipe}_ACTIVE"):
        found.append(f"pipe {pipe} is not active")
    if pipe == KIQ_PIPE and not named(hqd):
        found.append("RLC_CP_SCHEDULERS does not name it")
    return found


def named(hqd: Hqd) -> bool:
    """Whether RLC_CP_SCHEDULERS says that a queue is the kernel's interface queue."""
    me, pipe, queue = hqd.key
    return hqd.block.get("RLC_CP_SCHEDULERS") & 0xFF == _ENABLED | me << 5 | pipe << 3 | queue
