"""What one process does to a booted GPU: its VMID, queues, faults, and the reset that ends all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from drivers.amd.pci import boot, compute_queue, copy_queue, fault, gmc, ih, ownership
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.ih import Cause
from drivers.amd.pci.queue_spec import QueueSpec
from drivers.bare.page_table import PageTable
from drivers.base.errors import during
from drivers.gpu.incident import Incident

VMID: Final = 8
"""VMID 0 has no page table; amdgpu leaves those from 8 on to compute. # src: amdgpu_vm_manager"""
LDS_BASE: Final = 1 << 48
SCRATCH_BASE: Final = 2 << 48
"""Flat apertures, as SH_MEM_BASES says. # src: gfx_v11_0_init_compute_vmid(), DEFAULT_SH_MEM_*"""


class Process:
    """The one process on a GPU. Calls are made one at a time."""

    def __init__(self, gpu: BareGpu) -> None:
        self.gpu = gpu

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """What errors and traces name until the block ends."""
        bus = self.gpu.mmio.bus
        before, bus.step = bus.step, name
        try:
            with during(name):
                yield
        finally:
            bus.step = before

    def enter(self, table: PageTable) -> None:
        """Queues of the VMID translate through the table from now on."""
        with self._step("open the address space"):
            gmc.enable_context(self.gpu, VMID, table)

    def leave(self) -> None:
        """No queue runs any more: the VMID translates nothing."""
        with self._step("close the address space"):
            gmc.disable_context(self.gpu, VMID)

    def flush_tlb(self) -> None:
        """Forget translations that the page table does not have any more."""
        with self._step("flush translations"):
            gmc.flush_tlb(self.gpu, VMID)

    def start(self, spec: QueueSpec) -> None:
        """Let the hardware read a queue."""
        start = copy_queue.activate if spec.kind == "SDMA" else compute_queue.activate
        with self._step(f"start {spec}"):
            start(self.gpu, spec)

    def stop(self, spec: QueueSpec) -> bool:
        """Whether the hardware let go of a queue."""
        stop = copy_queue.deactivate if spec.kind == "SDMA" else compute_queue.deactivate
        with self._step(f"stop {spec}"):
            return stop(self.gpu, spec)

    def trouble(self) -> Incident | None:
        """What stopped a queue since the last call; of a kernel's thousand faults the first one.

        Reads a register only for a fault: it keeps the first one, with the unit that did it.
        """
        with self._step("read interrupts"):
            return self._trouble()

    def _trouble(self) -> Incident | None:
        entries = ih.poll(self.gpu)
        first = next((entry for entry in entries if entry.cause is Cause.PAGE_FAULT), None)
        whys = (fault.stopped(self.gpu.gc_version, entry) for entry in entries)
        why = next(filter(None, whys), "")
        if first is None and not why:
            return None
        kept = gmc.read_fault(self.gpu)
        if first is not None:
            kept = fault.merged(first, kept)
        elif kept is None or kept.vmid != VMID:
            return Incident(cause=why)
        gmc.clear_fault(self.gpu)  # a wave may tell what a page fault did to it before that is told
        return fault.trouble(kept)

    def reset(self) -> None:
        """Everything of the GPU is lost. Raises: DeviceError when it answers to no reset."""
        with self._step("reset"):
            boot.reset(self.gpu)

    def put_away(self) -> None:
        """The next boot need not start from nothing."""
        boot.leave(self.gpu)

    def forget(self) -> None:
        """The next boot resets the GPU first."""
        with self._step("leave"):
            ownership.forget(self.gpu)
