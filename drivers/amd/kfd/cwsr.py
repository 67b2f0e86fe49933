"""How much memory a compute queue must bring to have its waves saved (CWSR).

One area for each XCC: a header and control stack, then the registers and local memory of every
wave that fits the chip; behind all of them, room for a debugger. The kernel refuses a queue whose
control stack is not exactly, or whose area is not at least, what it computed itself.

Source: drivers/gpu/drm/amd/amdkfd/kfd_queue.c kfd_queue_ctx_save_restore_size(),
kfd_queue_acquire_buffers(); gfx950 as since Linux 6.14.
"""

from __future__ import annotations

from dataclasses import dataclass

from drivers.amd.chips import PAGE_BYTES, Chip
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.kfd.queue import ContextSaveAreaHeader
from drivers.base.errors import MalformedInput

HEADER_BYTES = ContextSaveAreaHeader.SIZE
_CTL_STACK_EXTRA_BYTES = 8
_SGPR_BYTES_PER_CU = 0x4000
_HWREG_BYTES_PER_CU = 0x1000
_DEBUG_BYTES_PER_WAVE = 32
_DEBUG_ALIGN_BYTES = 64


@dataclass(frozen=True, slots=True)
class SaveArea:
    """Sizes in bytes; the first two go into CREATE_QUEUE."""

    ctl_stack_bytes: int
    """`ctl_stack_size`, of one XCC."""
    context_bytes: int
    """`ctx_save_restore_size`, of one XCC, control stack included."""
    debug_bytes: int
    """Of one XCC."""
    total_bytes: int
    """What to allocate for the queue, in one piece: all XCCs and the debugger's part."""


SAVE_AREA_ADVICE = (
    "update the kernel: 6.18.4 or later, or a stable one with the change "
    '"drm/amdkfd: bump minimum vgpr size for gfx1151"'
)


def small_save_area(chip: Chip, node: GpuNode) -> bool:
    """Whether the kernel may have too small a size for it: it reports none."""
    return chip.save_area_fixed and not node.cwsr_size


def _align(value: int, to: int) -> int:
    return -(-value // to) * to


def save_waves(chip: Chip, node: GpuNode) -> int:
    """Waves of one XCC that a save area has room for."""
    waves = node.cus_per_xcc * chip.family.save_waves_per_cu
    if chip.family.save_waves_per_engine:
        waves = min(waves, node.engines_per_xcc * chip.family.save_waves_per_engine)
    return waves


def _computed(chip: Chip, node: GpuNode) -> tuple[int, int]:
    """(control stack, registers and local memory of all waves) of one XCC."""
    stack = save_waves(chip, node) * chip.family.ctl_stack_bytes_per_wave
    stack = _align(HEADER_BYTES + stack + _CTL_STACK_EXTRA_BYTES, PAGE_BYTES)
    stack = min(stack, chip.family.ctl_stack_limit_bytes or stack)
    per_cu = chip.save_vgpr_bytes_per_cu + _SGPR_BYTES_PER_CU + chip.lds_bytes + _HWREG_BYTES_PER_CU
    return stack, _align(node.cus_per_xcc * per_cu, PAGE_BYTES)


def save_area(chip: Chip, node: GpuNode) -> SaveArea:
    """The area of one queue: the kernel's own sizes where it reports them (6.12), else computed.

    A kernel that reports a smaller context than the chip's registers need accepts a larger one: the
    check was relaxed before the sizes were reported. # src: "drm/amdkfd: relax checks for over
    # src: allocation of save area" and "... bump minimum vgpr size for gfx1151", 2025
    Raises: MalformedInput when the kernel's sizes are impossible.
    """
    stack, data = _computed(chip, node)
    stack = node.ctl_stack_size or stack
    reported = node.cwsr_size or stack + data
    if stack % PAGE_BYTES or reported % PAGE_BYTES or stack >= reported:
        raise MalformedInput(
            f"KFD node {node.index}: ctl_stack_size {stack:#x} and cwsr_size {reported:#x} "
            "are not whole pages with the stack inside",
            hint="report it with the output of `uname -r`",
        )
    context = max(reported, stack + data)
    debug = _align(save_waves(chip, node) * _DEBUG_BYTES_PER_WAVE, _DEBUG_ALIGN_BYTES)
    total = _align((context + debug) * node.num_xcc, PAGE_BYTES)
    return SaveArea(stack, context, debug, total)
