"""Compute queues: hardware queue descriptors (HQDs) of the first pipe of the micro engine.

An HQD is registers behind GRBM_GFX_CNTL, which is left as it was found: on no queue.

Source: Linux 6.12, amdgpu_amdkfd_gfx_v11.c hqd_load_v11(), hqd_destroy_v11(),
amdgpu_amdkfd_gc_9_4_3.c kgd_gfx_v9_4_3_hqd_load()
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from drivers.amd.pci import mqd
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import MQDS
from drivers.amd.pci.queue_spec import QueueSpec
from drivers.bare.mmio import Block
from drivers.bare.place import Place
from drivers.bare.registers import RegisterFile
from drivers.base.errors import BadArgument, Busy, DeviceTimeout

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu

ME, PIPE = 1, 0
SLOTS: Final = 4
"""Queues of one pipe that are used. # src: tinygrad ip.py; a pipe of gfx11 has 4, gfx942 8"""
MOST_XCCS: Final = 8
ACTIVE: Final = 1
DRAIN_PIPE, RESET_WAVES = 1, 2
"""CP_HQD_DEQUEUE_REQUEST. # src: amdgpu_amdkfd_gfx_v11.c hqd_dequeue_request_type"""
DRAIN_S: Final = 0.5
RESET_S: Final = 1.0


@contextmanager
def selected(gc: Block, *, me: int = 0, pipe: int = 0, queue: int = 0, vmid: int = 0
             ) -> Iterator[None]:  # fmt: skip
    """Point banked registers at one queue or VMID, and afterwards at none again."""
    gc.set("GRBM_GFX_CNTL", meid=me, pipeid=pipe, queueid=queue, vmid=vmid)
    try:
        yield
    finally:
        gc.write("GRBM_GFX_CNTL", 0)


def cores(gpu: BareGpu, spec: QueueSpec) -> tuple[Block, ...]:
    """The graphics cores that read a queue: all of them for AQL, the first one for PM4."""
    found = tuple(gpu.block(HwId.GC, xcc) for xcc in gpu.xccs)
    return found if spec.kind == "AQL" else found[:1]


def _place(slot: int, xcc: int) -> Place:
    return Place(MQDS.offset + (slot * MOST_XCCS + xcc) * mqd.STRIDE_BYTES, mqd.STRIDE_BYTES)


def _check(spec: QueueSpec) -> None:
    sizes = (spec.ring_bytes, spec.eop_bytes)
    if any(size & size - 1 or size < mqd.STRIDE_BYTES for size in sizes):
        raise BadArgument(f"rings of {sizes} bytes: each is a power of two, and at least a page")
    if not 0 <= spec.slot < SLOTS or (spec.ring_va | spec.eop_va) % mqd.STRIDE_BYTES:
        raise BadArgument(f"slot {spec.slot} or an address of a queue is wrong")


def activate(gpu: BareGpu, spec: QueueSpec) -> None:
    """Let the hardware read an empty ring. Raises: Busy where the slot is in use.

    Hardware: one read and some 70 writes for each graphics core.
    """
    _check(spec)
    found = cores(gpu, spec)
    major = gpu.gc_version[0]
    images = []
    for xcc, gc in enumerate(found):
        place = _place(spec.slot, xcc)
        image = mqd.words(gc, major, spec, gpu.mc_address(place), xcc, len(found))
        gpu.vram.write(place.offset, image.tobytes())
        images.append(image)
    gpu.flush_writes()
    if any(_is_active(gc, spec.slot) for gc in found):
        raise Busy(
            f"{gpu.address}: compute queue {spec.slot} is in use: CP_HQD_ACTIVE is set",
            hint="Close the other queue, or open the GPU again",
        )
    for gc, image in zip(found, images, strict=True):
        with selected(gc, me=ME, pipe=PIPE, queue=spec.slot):
            _load(gc, image)


def _is_active(gc: Block, slot: int) -> bool:
    with selected(gc, me=ME, pipe=PIPE, queue=slot):
        return bool(gc.read("CP_HQD_ACTIVE") & ACTIVE)


def _load(gc: Block, image: array[int]) -> None:
    """The registers from the descriptor, the activation last. Words without a register stay out."""
    first = gc.registers.get("CP_MQD_BASE_ADDR").offset_dw
    for offset, name in _hqd_registers(gc.registers):
        gc.write(name, image[mqd.FIRST_REGISTER + offset - first])
    gc.set("CP_HQD_EOP_RPTR", init_fetcher=1)
    gc.write("CP_HQD_ACTIVE", ACTIVE)


@cache
def _hqd_registers(known: RegisterFile) -> tuple[tuple[int, str], ...]:
    """(offset, name) of the registers that a descriptor holds, by offset; one name for each."""
    first, last = known.get("CP_MQD_BASE_ADDR"), known.get("CP_HQD_PQ_WPTR_HI")
    found = {
        register.offset_dw: name
        for name, register in known.registers.items()
        if register.segment == first.segment
        and first.offset_dw <= register.offset_dw <= last.offset_dw
    }
    return tuple(sorted(found.items()))


def deactivate(gpu: BareGpu, spec: QueueSpec) -> bool:
    """Stop a queue: what runs may finish, else its waves are dropped. False: it would not stop."""
    found = cores(gpu, spec)
    if all(_dequeue(gc, spec.slot, DRAIN_PIPE, DRAIN_S) for gc in found):
        return True
    return all(_dequeue(gc, spec.slot, RESET_WAVES, RESET_S) for gc in found)


def _dequeue(gc: Block, slot: int, how: int, timeout_s: float) -> bool:
    with selected(gc, me=ME, pipe=PIPE, queue=slot):
        if not gc.read("CP_HQD_ACTIVE") & ACTIVE:
            return True
        gc.write("CP_HQD_DEQUEUE_REQUEST", how)
        if how == RESET_WAVES:
            gc.write("SPI_COMPUTE_QUEUE_RESET", 1)
        try:
            gc.wait("CP_HQD_ACTIVE", ACTIVE, 0, timeout_s)
        except DeviceTimeout:
            return False
        gc.write("CP_HQD_DEQUEUE_REQUEST", 0)
        return True


def drop_all(gpu: BareGpu) -> bool:
    """Stop whatever an earlier owner left active, with its waves. False: some would not stop."""
    stopped = [
        _dequeue(gpu.block(HwId.GC, xcc), slot, RESET_WAVES, RESET_S)
        for xcc in gpu.xccs
        for slot in range(SLOTS)
    ]
    return all(stopped)
