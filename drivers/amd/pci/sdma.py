"""Copy engines: running firmware that reports traps, and nothing queued.

gfx11 and gfx12 have them in the graphics core's registers (SDMA0_*); gfx942 has sixteen, each a
block of its own (SDMA_*).

Source: Linux 6.12, sdma_v4_4_2.c, sdma_v6_0.c, sdma_v7_0.c; tinygrad ip.py AM_SDMA
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drivers.amd.pci.hwid import HwId
from drivers.bare.mmio import Block

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu

_HANG_UNITS: Final = 100
"""Of 100 ms: when an engine gives up. # src: sdma_v6_0_gfx_resume(), WATCHDOG_CNTL"""
_RESP_MODE, _REDO_DELAY = 3, 9
_NO_ALLOCATE, _BYPASS = 2, 3
"""L2 policies of reads and writes. # src: tinygrad ip.py; CACHE_*_POLICY_L2"""
_RESET_S: Final = 100e-6
GFX9: Final = 9


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine: its block, and how its registers and those of its queue begin."""

    block: Block
    name: str
    queue: str
    core: str
    """The processor that runs its firmware: "F32" or "MCU"."""


def engines(gpu: BareGpu) -> tuple[Engine, ...]:
    """Those that are used: the first one, and on gfx942 all."""
    if gpu.gc_version[0] == GFX9:
        return tuple(
            Engine(gpu.block(HwId.SDMA0, at), "SDMA", "SDMA_GFX", "F32")
            for at in gpu.ips.instances(HwId.SDMA0)
        )
    gc = gpu.block(HwId.GC)
    core = "F32" if "SDMA0_F32_CNTL" in gc else "MCU"
    return (Engine(gc, "SDMA0", "SDMA0_QUEUE0", core),)


def up(gpu: BareGpu) -> None:
    """Let the firmware run, which the security processor has loaded."""
    for engine in engines(gpu):
        stop_queue(engine)
        _start(gpu, engine)


def _start(gpu: BareGpu, engine: Engine) -> None:
    if gpu.gc_version[0] != GFX9:
        _unhalt(engine)
    enable = {"utc_l1_enable": 1} if gpu.gc_version[0] == GFX9 else {}
    engine.block.update(f"{engine.name}_CNTL", trap_enable=1, **enable)


def down(gpu: BareGpu) -> None:
    """No engine reads a ring any more."""
    for engine in engines(gpu):
        stop_queue(engine)


def stop_queue(engine: Engine) -> None:
    """Disable the ring and its doorbell: three writes."""
    block, queue = engine.block, engine.queue
    block.write(f"{queue}_RB_CNTL", 0)
    block.write(f"{queue}_IB_CNTL", 0)
    block.write(f"{queue}_DOORBELL", 0)


def reset(gpu: BareGpu, engine: Engine) -> bool:
    """Reset an engine that does not stop. False where only a reset of the whole GPU does it.

    # src: sdma_v6_0_soft_reset(); Linux 6.12 has none for gfx942
    """
    if gpu.gc_version[0] == GFX9:
        return False
    block, name = engine.block, engine.name
    stop_queue(engine)
    if engine.core == "F32":
        block.update(f"{name}_FREEZE", freeze=1)
        block.update(f"{name}_F32_CNTL", halt=1, th1_reset=1)
    else:
        block.update(f"{name}_MCU_CNTL", halt=1, reset=1)
    block.write(f"{engine.queue}_PREEMPT", 0)
    for value in (1, 0):
        gpu.mmio.bus.clock.sleep(_RESET_S)
        block.set("GRBM_SOFT_RESET", soft_reset_sdma0=value)
        block.read("GRBM_SOFT_RESET")  # the write has arrived
    gpu.mmio.bus.clock.sleep(_RESET_S)
    if engine.core == "F32":
        block.update(f"{name}_FREEZE", freeze=0)
    _start(gpu, engine)
    return True


def _unhalt(engine: Engine) -> None:
    block, name, core = engine.block, engine.name, engine.core
    block.update(f"{name}_WATCHDOG_CNTL", queue_hang_count=_HANG_UNITS)
    block.update(f"{name}_UTCL1_CNTL", resp_mode=_RESP_MODE, redo_delay=_REDO_DELAY)
    more = {"llc_noalloc": 1} if core == "F32" else {}
    block.update(f"{name}_UTCL1_PAGE", rd_l2_policy=_NO_ALLOCATE, wr_l2_policy=_BYPASS, **more)
    reset = {"th1_reset": 0} if core == "F32" else {"reset": 0}
    block.update(f"{name}_{core}_CNTL", halt=0, **reset)
