"""How much memory a processor's GPU (APU) has: what firmware keeps for it, and the machine's.

Since Linux 6.10 the kernel takes what is asked for as VRAM of such a GPU from system memory (GTT),
and KFD's topology then reports TTM's limit as the size of its bank; kernels that have
apu_prefer_gtt (6.12.117 has not) do so only where firmware keeps less than GTT. Elsewhere the bank
is what firmware keeps, and GTT comes on top of it. What the bank says decides, not the release.

Source: drivers/gpu/drm/amd/amdgpu: amdgpu_ttm.c apu_prefer_gtt, amdgpu_amdkfd.c
amdgpu_amdkfd_get_local_mem_info(), amdgpu_amdkfd_gpuvm.c; amdgpu_vram_mgr.c, amdgpu_gtt_mgr.c
mem_info_*_total; drivers/gpu/drm/ttm/ttm_tt.c pages_limit
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from drivers.amd.chips import PAGE_BYTES, Chip
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.kfd.properties import number_file
from drivers.base.contracts import World

PAGES_LIMIT_PATH: Final = "/sys/module/ttm/parameters/pages_limit"
_BITS: Final = 64


def machine_limit(world: World) -> int:
    """Bytes of system memory that all GPUs together may use. Raises: NotFound, MalformedInput."""
    return number_file(world, PAGES_LIMIT_PATH, _BITS) * PAGE_BYTES


def with_machine_memory(world: World, chip: Chip, node: GpuNode) -> GpuNode:
    """The node of a GPU with all the memory it may use; a card stays as it is.

    Raises: NotFound, Denied, MalformedInput where amdgpu does not report it.
    """
    if not chip.integrated:
        return node
    folder = f"/sys/class/drm/renderD{node.render_minor}/device"
    carveout = number_file(world, f"{folder}/mem_info_vram_total", _BITS)
    if node.vram_bytes != carveout:  # the bank is TTM's limit
        return replace(node, unified=True)
    gtt = number_file(world, f"{folder}/mem_info_gtt_total", _BITS)
    if world.exists(PAGES_LIMIT_PATH):
        gtt = min(gtt, machine_limit(world))
    return replace(node, gtt_bytes=gtt)
