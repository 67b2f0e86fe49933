"""The queue of a copy engine: a ring in a process's address space.

Source: Linux 6.12, sdma_v4_4_2.c, sdma_v6_0.c, sdma_v7_0.c *_gfx_resume();
amdgpu_amdkfd_gfx_v11.c hqd_sdma_destroy_v11()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drivers.amd.pci import sdma
from drivers.amd.pci.queue_spec import QueueSpec
from drivers.amd.pci.sdma import GFX9, Engine
from drivers.bare.mmio import Block
from drivers.base.errors import BadArgument, Busy, DeviceTimeout, Unsupported

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu

STOP_S: Final = 1.0
_REPORT_TIMER: Final = 4
"""How often the read pointer is reported. # src: sdma_v6_0_mqd_init()"""
_DOORBELL_DWORDS: Final = 2
_RING_SHIFT: Final = 8
_LEAST_BYTES: Final = 1 << _RING_SHIFT


def _engine(gpu: BareGpu, spec: QueueSpec) -> Engine:
    found = sdma.engines(gpu)
    if spec.slot >= len(found):
        raise Unsupported(
            f"{gpu.chip.name} has no copy engine {spec.slot} over PCI",
            hint=f"It has {len(found)}",
        )
    return found[spec.slot]


def _control(gpu: BareGpu, engine: Engine, spec: QueueSpec, *, enable: int) -> int:
    """RB_CNTL; not privileged, in the process's VMID."""
    poll = {} if gpu.gc_version[0] == GFX9 else {f"{engine.core.lower()}_wptr_poll_enable": 1}
    return engine.block.encode(
        f"{engine.queue}_RB_CNTL", rb_enable=enable, rb_vmid=spec.vmid,
        rb_size=(spec.ring_bytes // 4).bit_length() - 1, rptr_writeback_enable=1,
        rptr_writeback_timer=_REPORT_TIMER, **poll,
    )  # fmt: skip


def activate(gpu: BareGpu, spec: QueueSpec) -> None:
    """Let an engine read an empty ring. Raises: Busy where it has one; Unsupported."""
    size = spec.ring_bytes
    if size & size - 1 or size < _LEAST_BYTES or spec.ring_va % _LEAST_BYTES:
        raise BadArgument(f"a copy ring of {size} bytes at {spec.ring_va:#x}")
    engine = _engine(gpu, spec)
    block, queue = engine.block, engine.queue
    if block.fields(f"{queue}_RB_CNTL")["rb_enable"]:
        raise Busy(
            f"{gpu.address}: copy engine {spec.slot} is in use: {queue}_RB_CNTL is enabled",
            hint="Close the other queue, or open the GPU again",
        )
    block.write(f"{queue}_RB_CNTL", _control(gpu, engine, spec, enable=0))
    block.write(f"{queue}_MINOR_PTR_UPDATE", 1)
    block.write_pair(f"{queue}_RB_RPTR", f"{queue}_RB_RPTR_HI", 0)
    block.write_pair(f"{queue}_RB_WPTR", f"{queue}_RB_WPTR_HI", 0)
    block.write_pair(f"{queue}_RB_BASE", f"{queue}_RB_BASE_HI", spec.ring_va >> _RING_SHIFT)
    block.write_pair(f"{queue}_RB_RPTR_ADDR_LO", f"{queue}_RB_RPTR_ADDR_HI", spec.read_va)
    poll = f"{queue}_RB_WPTR_POLL_ADDR"
    block.write_pair(f"{poll}_LO", f"{poll}_HI", spec.write_va)
    block.set(f"{queue}_DOORBELL_OFFSET", offset=spec.doorbell * _DOORBELL_DWORDS)
    block.set(f"{queue}_DOORBELL", enable=1)
    block.write(f"{queue}_MINOR_PTR_UPDATE", 0)
    block.write(f"{queue}_RB_CNTL", _control(gpu, engine, spec, enable=1))
    block.set(f"{queue}_IB_CNTL", ib_enable=1)


def deactivate(gpu: BareGpu, spec: QueueSpec) -> bool:
    """Stop reading, after the packet that is under way, or by a reset of the engine.

    False: neither helps.
    """
    engine = _engine(gpu, spec)
    block, status = engine.block, f"{engine.queue}_CONTEXT_STATUS"
    block.write(f"{engine.queue}_RB_CNTL", _control(gpu, engine, spec, enable=0))
    block.write(f"{engine.queue}_IB_CNTL", 0)
    stopped = _becomes_idle(block, status)
    if not stopped:
        stopped = sdma.reset(gpu, engine) and _becomes_idle(block, status)
    block.write(f"{engine.queue}_DOORBELL", 0)
    return stopped


def _becomes_idle(block: Block, status: str) -> bool:
    idle = block.encode(status, idle=1)
    try:
        block.wait(status, idle, idle, STOP_S)
    except DeviceTimeout:
        return False
    return True
