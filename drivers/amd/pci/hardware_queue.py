"""Queues of a bare GPU: ring, pointers, EOP buffer, a slot of the hardware, and the doorbell."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from drivers.amd.chips import EOP_BYTES, PAGE_BYTES
from drivers.amd.hwqueue import READ_OFF, WRITE_OFF, HwQueue
from drivers.amd.iface import Plan, Prepare
from drivers.amd.pci.compute_queue import SLOTS
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.mmio import MEMSIZE
from drivers.amd.pci.nbio import REMAP_BYTES, SDMA_DOORBELL, SDMA_DOORBELL_STRIDE
from drivers.amd.pci.process import VMID
from drivers.amd.pci.queue_spec import QueueSpec
from drivers.bare.memory import PciMemory
from drivers.base.contracts import Region
from drivers.base.errors import Busy, Unsupported
from drivers.base.turns import Jobs
from drivers.base.undo import Undo, run_all
from drivers.gpu.doorbell import store64
from drivers.gpu.iface import Use

DOORBELL_BAR: Final = 2
BAR_REGISTERS: Final = 5
WORD_BYTES: Final = 4
DOORBELL_BYTES: Final = 8
COMPUTE_DOORBELL: Final = 3
"""64-bit doorbell of the first MEC queue.

src: amdgpu_doorbell.h, AMDGPU_VEGA20_DOORBELL_MEC_RING0 and the same of NAVI10
"""


class Owner(Protocol):
    """Whose queue it is."""

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> PciMemory:
        """Memory that the queue reaches."""

    def run(self, spec: QueueSpec) -> None:
        """Let the hardware read it."""

    def stop(self, spec: QueueSpec) -> None:
        """The hardware reads it no more."""


class Slots:
    """Which of the hardware's queues are in use: those of one pipe, one of each copy engine."""

    def __init__(self, engines: int) -> None:
        self._free = {"compute": set(range(SLOTS)), "copies": set(range(engines))}

    def take(self, plan: Plan) -> int:
        """A free slot. Raises: Busy."""
        free = self._free[_group(plan)]
        wanted = [slot for slot in sorted(free) if plan.engine in (None, slot)]
        if not wanted:
            raise Busy(
                f"{plan.name}: every queue of the hardware that it could be is in use",
                hint="Close another queue of the device",
            )
        free.remove(wanted[0])
        return wanted[0]

    def give(self, plan: Plan, slot: int) -> None:
        """The slot's queue is gone."""
        self._free[_group(plan)].add(slot)


def _group(plan: Plan) -> str:
    return "copies" if plan.kind == "SDMA" else "compute"


def open_queue(
    owner: Owner, gpu: BareGpu, slots: Slots, plan: Plan, prepare: Prepare | None = None
) -> HwQueue:
    """Allocate, `prepare` the pointers' page, activate. Nothing is left behind by a failure."""
    with Undo() as undo:
        slot = slots.take(plan)
        give = partial(slots.give, plan, slot)
        undo.add(give)
        parts: list[PciMemory] = []
        for name, nbytes, use, host in _needs(plan):
            part = owner.allocate(nbytes, use, f"{plan.name} {name}", host=host)
            undo.add(part.free)
            parts.append(part)
        if prepare is not None:
            prepare(parts[1].view(), parts[0])
        spec = _spec(plan, slot, parts)
        owner.run(spec)
        stop = partial(owner.stop, spec)
        undo.add(stop)
        flush = gpu.flush_writes if parts[0].on_card else None
        traced = gpu.mmio.bus.trace is not None
        doorbell = ringer(
            gpu.session, spec.doorbell, plan.name, flush, traced=traced, jobs=gpu.session.jobs
        )
        end = partial(run_all, [stop, give])
        return HwQueue(plan, parts, slot, doorbell, end, gpu.session.jobs.settle)


def _needs(plan: Plan) -> list[tuple[str, int, Use, bool]]:
    """(name, bytes, use, seen by the host) of every part."""
    needs = [
        ("ring", plan.ring_bytes, Use.SHARED, True),
        ("pointers", PAGE_BYTES, Use.SHARED, True),
    ]
    if plan.kind != "SDMA":
        needs.append(("EOP buffer", EOP_BYTES, Use.DEVICE, False))
    return needs


def _spec(plan: Plan, slot: int, parts: list[PciMemory]) -> QueueSpec:
    ring, page = parts[0], parts[1]
    copies = plan.kind == "SDMA"
    doorbell = SDMA_DOORBELL + slot * SDMA_DOORBELL_STRIDE if copies else COMPUTE_DOORBELL + slot
    return QueueSpec(
        kind=plan.kind,
        vmid=VMID,
        ring_va=ring.gpu_va,
        ring_bytes=plan.ring_bytes,
        read_va=page.gpu_va + READ_OFF,
        write_va=page.gpu_va + WRITE_OFF,
        eop_va=0 if copies else parts[2].gpu_va,
        eop_bytes=0 if copies else EOP_BYTES,
        doorbell=doorbell,
        slot=slot,
    )


class Bars(Protocol):
    """Where doorbells and registers are."""

    def bar(self, number: int) -> Region:
        """A BAR of the GPU."""


def ringer(
    bars: Bars,
    index: int,
    name: str,
    flush: Callable[[], None] | None,
    *,
    traced: bool = False,
    jobs: Jobs | None = None,
) -> Callable[[int], None]:
    """What stores a write pointer. No register is read where the ring is the host's memory: then
    there is no `flush`. A `traced` flush is made register by register.

    Hardware: a ring in VRAM is behind the BAR, whose writes the GPU sees after an HDP flush; that
    flush is a write to uncached memory, which also drains the processor's write-combining buffers.
    A register read behind it makes sure that it is over before the doorbell (hdp_v6_0_flush_hdp()).
    # src: Intel SDM 3A, 13.3.1 (buffering of write combining memory locations)
    """
    store = store64(bars.bar(DOORBELL_BAR), index * DOORBELL_BYTES, f"{name}: doorbell {index}")
    if flush is None:
        return store
    try:
        words = bars.bar(BAR_REGISTERS).view().cast("I")
    except Unsupported:  # registers that are not memory
        words = None
    if words is None or traced:

        def flush_and_store(value: int) -> None:
            flush()
            store(value)

        turns = jobs or Jobs()
        return lambda value: turns.give(partial(flush_and_store, value))
    place = words[REMAP_BYTES // WORD_BYTES : REMAP_BYTES // WORD_BYTES + 1]
    size = words[MEMSIZE.dword : MEMSIZE.dword + 1]

    def flush_at_once(value: int) -> None:
        """The same without a call for each register: launches go through here."""
        place[0] = 0
        _ = size[0]
        store(value)

    return flush_at_once
