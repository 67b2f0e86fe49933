"""The graphics cores: their firmware begins to run, and every VMID gets its flat apertures.

Source: Linux 6.12, gfx_v11_0.c, gfx_v12_0.c, gfx_v9_4_3.c *_hw_init(); tinygrad ip.py AM_GFX,
which is known to run without what only graphics needs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from drivers.amd.pci import compute_queue, gmc
from drivers.amd.pci.compute_queue import selected
from drivers.amd.pci.hub import VMIDS
from drivers.amd.pci.hwid import HwId
from drivers.bare.mmio import Block
from drivers.bare.registers import WORD_BITS, WORD_MASK
from drivers.base.errors import DeviceError

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu

AUTOLOAD_S: Final = 5.0
"""Until the RLC has loaded what it was given."""
SETTLE_S: Final = 0.05
"""After a reset of the command processor, and until its firmware listens. # src: tinygrad ip.py"""
LDS_APERTURE, PRIVATE_APERTURE = 1, 2
"""Upper 16 address bits of flat LDS and scratch. # src: kfd_flat_memory.c MAKE_LDS_APP_BASE_V9"""
_ADDRESS_64 = 0
_UNALIGNED = 3
"""# src: soc21_enum.h SH_MEM_ADDRESS_MODE_64, SH_MEM_ALIGNMENT_MODE_UNALIGNED"""
_PREFETCH: Final = 3
_READ_TIMEOUT: Final = 0xFF
_SPM_VMID: Final = 0xF
_TCP_GOLDEN: Final = 0x2000_0000
"""# src: gfx_v11_0.c golden_settings_gc_11_0; gfx_v12_0.c has no such setting"""
_GB_ADDR_GOLDEN: Final = 0x2A11_4042
"""# src: gfx_v9_4_3.c GOLDEN_GB_ADDR_CONFIG"""
_LAST_DOORBELL, _XCC_DOORBELLS = 0xF8, 0x100
"""In bytes of the doorbell BAR, for each XCC.

# src: gfx_v9_4_3_xcc_kiq_init_register(), AMDGPU_DOORBELL_LAYOUT1_XCC_RANGE; tinygrad ip.py
"""
_WORD_SHIFT: Final = 2
"""Start addresses count dwords. # src: gfx_v11_0_config_gfx_rs64()"""
GFX9, GFX12 = 9, 12
_KEEPS_DEBUG: Final = (11, 0, 3)
"""The graphics core whose CP_DEBUG Linux leaves alone. # src: gfxhub_v3_0_3.c"""


def wait_loaded(gpu: BareGpu) -> None:
    """Wait for the RLC. No other register of the graphics core is touched before, nor written.

    Raises: DeviceTimeout when its firmware did not come.
    # src: gfx_v11_0_wait_for_rlc_autoload_complete(), the first thing of gfx_v11_0_hw_init()
    """
    for gc in _cores(gpu):
        status = "RLC_RLCS_BOOTLOAD_STATUS"
        if status in gc:
            complete = gc.encode(status, bootload_complete=1)
            gc.wait(status, complete, complete, AUTOLOAD_S)
        gc.wait("CP_STAT", WORD_MASK, 0, AUTOLOAD_S)


def up(gpu: BareGpu, start: Mapping[str, int], warm: bool = False) -> None:
    """Let the compute firmware run. `start`: where RS64 cores begin, by their name.

    Raises: DeviceError when queues of an earlier owner do not stop.
    """
    cores = _cores(gpu)
    gmc.up_graphics(gpu)
    if warm:
        _drop_old(gpu, cores)
    for gc in cores:
        _set_start(gc, gpu.gc_version[0], start)
    for number, gc in enumerate(cores):
        _configure(gc, gpu.gc_version)
        _apertures(gc, gpu.gc_version[0])
        first = number * _XCC_DOORBELLS
        gc.write("CP_MEC_DOORBELL_RANGE_LOWER", first)
        gc.write("CP_MEC_DOORBELL_RANGE_UPPER", first + _LAST_DOORBELL)
        _let_go(gc)
    gpu.mmio.bus.clock.sleep(SETTLE_S)


def down(gpu: BareGpu) -> None:
    """Nothing runs on the graphics cores any more, and nothing of a process is translated.

    Raises: DeviceError when a queue does not stop, after everything else.
    """
    stopped = compute_queue.drop_all(gpu)
    for gc in _cores(gpu):
        _halt(gc, reset=False)
        gmc.disable_all(gc)
    if not stopped:
        raise _does_not_stop(gpu)


def _cores(gpu: BareGpu) -> tuple[Block, ...]:
    return tuple(gpu.block(HwId.GC, xcc) for xcc in gpu.xccs)


def _does_not_stop(gpu: BareGpu) -> DeviceError:
    return DeviceError(
        f"{gpu.mmio.step}: a compute queue of {gpu.address} does not stop",
        hint="Open the GPU again: it is then reset first",
    )


def _drop_old(gpu: BareGpu, cores: tuple[Block, ...]) -> None:
    """What an earlier owner left in the command processor."""
    if not compute_queue.drop_all(gpu):
        raise _does_not_stop(gpu)
    if gpu.gc_version[0] >= GFX12:
        return  # src: tinygrad ip.py reset_mec(): the reset of the pipe does it
    for gc in cores:
        gc.set("GRBM_SOFT_RESET", soft_reset_cp=1, soft_reset_cpc=1)
    gpu.mmio.bus.clock.sleep(SETTLE_S)
    for gc in cores:
        gc.write("GRBM_SOFT_RESET", 0)


def _halt(gc: Block, *, reset: bool) -> None:
    if "CP_MEC_RS64_CNTL" in gc:
        gc.set("CP_MEC_RS64_CNTL", mec_halt=1, mec_pipe0_reset=int(reset))
    else:
        gc.set("CP_MEC_CNTL", mec_invalidate_icache=1, mec_me1_halt=1, mec_me2_halt=1,
               mec_me1_pipe0_reset=int(reset), mec_me2_pipe0_reset=int(reset))  # fmt: skip


def _let_go(gc: Block) -> None:
    gc.set("CP_ME1_PIPE0_INT_CNTL", time_stamp_int_enable=1, opcode_error_int_enable=1,
           priv_reg_int_enable=1)  # fmt: skip
    if "CP_MEC_RS64_CNTL" in gc:
        gc.set("CP_MEC_RS64_CNTL", mec_pipe0_active=1)
    else:
        gc.write("CP_MEC_CNTL", 0)


def _set_start(gc: Block, major: int, start: Mapping[str, int]) -> None:
    """Where the first pipe of each RS64 core begins: taken when its reset ends."""
    if major >= GFX12:
        for name in ("PFP", "ME"):
            with selected(gc):
                _write_start(gc, f"CP_{name}", start[name])
            for reset in (1, 0):
                gc.update("CP_ME_CNTL", **{f"{name.lower()}_pipe0_reset": reset})
    if major > GFX9:
        with selected(gc, me=compute_queue.ME):
            _write_start(gc, "CP_MEC_RS64", start["MEC"])
    _halt(gc, reset=True)
    if major > GFX9:
        _halt(gc, reset=False)


def _write_start(gc: Block, name: str, address: int) -> None:
    value = address >> _WORD_SHIFT
    gc.write(f"{name}_PRGRM_CNTR_START", value & WORD_MASK)
    gc.write(f"{name}_PRGRM_CNTR_START_HI", value >> WORD_BITS)


def _configure(gc: Block, version: tuple[int, int, int]) -> None:
    major = version[0]
    if major == GFX9:
        gc.write("GB_ADDR_CONFIG", _GB_ADDR_GOLDEN)
        gc.update("TCP_UTCL1_CNTL2", spare=1)
    elif major < GFX12:
        gc.write("TCP_CNTL", gc.read("TCP_CNTL") | _TCP_GOLDEN)
    # src: gfxhub_v3_0.c gfxhub_v3_0_set_fault_enable_default(), gfxhub_v12_0.c
    if major > GFX9 and version != _KEEPS_DEBUG:
        gc.update("CP_DEBUG", cpg_utcl1_error_halt_disable=1)
    gc.write("RLC_CNTL", 1)
    gc.set("RLC_SRM_CNTL", srm_enable=1, auto_incr_addr=1)
    gc.set("RLC_SPM_MC_CNTL", rlc_spm_vmid=_SPM_VMID)
    gc.set("GRBM_CNTL", read_timeout=_READ_TIMEOUT)


def _apertures(gc: Block, major: int) -> None:
    """Flat LDS and scratch, 64-bit unaligned accesses, no retries; the same for every VMID."""
    if major == GFX9:
        more = {"retry_disable": 1, "f8_mode": 1}
    else:
        more = {"initial_inst_prefetch": _PREFETCH}
    config = gc.encode("SH_MEM_CONFIG", address_mode=_ADDRESS_64, alignment_mode=_UNALIGNED, **more)
    bases = gc.encode("SH_MEM_BASES", shared_base=LDS_APERTURE, private_base=PRIVATE_APERTURE)
    for vmid in range(VMIDS):
        with selected(gc, vmid=vmid):
            gc.write("SH_MEM_CONFIG", config)
            gc.write("SH_MEM_BASES", bases)
