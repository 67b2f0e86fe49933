"""NBIO: the way from the bus to the GPU's blocks. Doorbells, and the flush of the host's writes.

Source: Linux 6.12, nbio_v4_3.c, nbif_v6_3_1.c, nbio_v7_9.c; order: tinygrad, ip.py (AM_SOC)
"""

from __future__ import annotations

from functools import partial
from typing import Final

from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.mmio import MEMSIZE
from drivers.bare.bus import DWORD_BYTES, Indirect, RegisterBus
from drivers.bare.mmio import Block

REMAP_BYTES: Final = 0x80000 - 0x1000
"""Where the flush registers appear in BAR5. src: nbio_v4_3.c, MMIO_REG_HOLE_OFFSET; kfd_ioctl.h,
KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL, KFD_MMIO_REMAP_HDP_REG_FLUSH_CNTL"""
_REMAP_REG: Final = 4
SDMA_DOORBELL: Final = 0x100
"""First 64-bit doorbell of the copy engines.

src: amdgpu_doorbell.h, AMDGPU_NAVI10_DOORBELL_sDMA_ENGINE0; the stride: tinygrad, ip.py
"""
SDMA_DOORBELL_STRIDE: Final = 0xA
_DIES_VERSION: Final = (7, 9, 0)
"""NBIO of chips of several dies."""
# (port, fields of its route). src: nbio_v4_3_gc_doorbell_init() as fields; tinygrad, ip.py
_MEC_ROUTES: Final = ((0, {"awid": 0x3}), (3, {"awid": 0x6}))
_AWADDR: Final = 0x3
_SDMA_PORT, _SDMA_AWID, _SDMA_SIZE = 2, 0xE, 4
_SDMA_ROUTES_OF_DIE: Final = ((1, 0xE, 0x1), (2, 0x8, 0x2), (5, 0x9, 0x8), (6, 0xA, 0x9))
"""(port, awid and offset, upper address bits) of a die's four engines. src: nbio_v7_9.c"""
_SDMA_RANGE: Final = 20
_ALL_XCCS: Final = 0xFF
_INT_MONITOR_MASK, _DOORBELL_ACCESS = 0x7FF, 0xFFFFF
_DIE_SHIFT, _DIE_MARK = 32, 1 << 34
"""src: soc15.c, aqua_vanjaram_encode_ext_smn_addressing()"""


def prepare(gpu: BareGpu) -> None:
    """How to reach registers that lie beyond the register BAR. No access is made."""
    block = gpu.block(HwId.NBIF)
    if _has_dies(gpu):
        gpu.mmio.bus.indirect = Indirect(
            block.dword("PCIE_INDEX2"), block.dword("PCIE_DATA2"), block.dword("PCIE_INDEX2_HI")
        )
    else:
        gpu.mmio.bus.indirect = Indirect(block.dword("RSMU_INDEX"), block.dword("RSMU_DATA"))
    gpu.flush_writes = partial(_flush_hdp, gpu.mmio.bus)


def _flush_hdp(bus: RegisterBus) -> None:
    """The read posts the write: until then the flush may be under way.

    # src: hdp_v4_0.c, hdp_v6_0.c, hdp_v7_0.c *_flush_hdp(): of the size of VRAM, because "reading
    back the remapped register causes problems on some platforms"
    """
    bus.write(REMAP_BYTES // DWORD_BYTES, 0, "HDP_MEM_FLUSH")
    bus.post(MEMSIZE.dword, MEMSIZE.name)


def up(gpu: BareGpu) -> None:
    """Open the doorbells and route them; put the flush register where `flush_writes` writes."""
    block = gpu.block(HwId.NBIF)
    block.write("REMAP_HDP_MEM_FLUSH_CNTL", REMAP_BYTES)
    block.write("REMAP_HDP_REG_FLUSH_CNTL", REMAP_BYTES + _REMAP_REG)
    if _has_dies(gpu):
        _open_dies(gpu, block)
    else:
        block.update("RCC_DEV0_EPF2_STRAP2", strap_no_soft_reset_dev0_f2=0)
        for port, fields in _MEC_ROUTES:
            _route(block, port, awaddr_31_28_value=_AWADDR, **fields)
        _route(block, _SDMA_PORT, awid=_SDMA_AWID, range_offset=2 * SDMA_DOORBELL,
               range_size=_SDMA_SIZE, awaddr_31_28_value=_AWADDR)  # fmt: skip
    block.write("RCC_DOORBELL_APER_EN", 1)


def down(gpu: BareGpu) -> None:
    """Close the doorbells."""
    gpu.block(HwId.NBIF).write("RCC_DOORBELL_APER_EN", 0)


def _has_dies(gpu: BareGpu) -> bool:
    return gpu.ips.version(HwId.NBIF) >= _DIES_VERSION


def _route(block: Block, port: int, **fields: int) -> None:
    block.set(f"S2A_DOORBELL_ENTRY_{port}_CTRL", enable=1, **fields)


def _open_dies(gpu: BareGpu, block: Block) -> None:
    live = sum(1 << xcc for xcc in gpu.xccs)
    block.write("XCC_DOORBELL_FENCE", _ALL_XCCS & ~live)
    dies = gpu.ips.instances(HwId.MMHUB)
    for die in dies[1:]:
        value = block.encode("XCC_DOORBELL_FENCE", shub_slv_mode=1)
        _write_on_die(gpu, block, "XCC_DOORBELL_FENCE", die, value)
    block.write("BIFC_GFX_INT_MONITOR_MASK", _INT_MONITOR_MASK)
    block.write("BIFC_DOORBELL_ACCESS_EN_PF", _DOORBELL_ACCESS)
    for die in dies:
        for engine, (port, awid, awaddr) in enumerate(_SDMA_ROUTES_OF_DIE):
            entry = engine + 1 + len(_SDMA_ROUTES_OF_DIE) * die
            first = SDMA_DOORBELL + (entry - 1) * SDMA_DOORBELL_STRIDE
            block.set(f"DOORBELL0_CTRL_ENTRY_{entry}", range_offset=2 * first,
                      range_size=_SDMA_RANGE)  # fmt: skip
            name = f"S2A_DOORBELL_ENTRY_{port}_CTRL"
            value = block.encode(name, enable=1, awid=awid, range_offset=awid,
                                 range_size=_SDMA_SIZE, awaddr_31_28_value=awaddr)  # fmt: skip
            _write_on_die(gpu, block, name, die, value)


def _write_on_die(gpu: BareGpu, block: Block, name: str, die: int, value: int) -> None:
    """The same register of another die: always through the index registers."""
    mark = die << _DIE_SHIFT | _DIE_MARK if die else 0
    address = block.dword(name) * DWORD_BYTES | mark
    gpu.mmio.bus.write_far(address, value, f"{block.label}.{name} of die {die}")
