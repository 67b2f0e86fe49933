"""One unbound GPU, as an Iface: claimed, booted, our own address space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from drivers.amd.chips import NS_PER_TICK, PAGE_BYTES
from drivers.amd.hwqueue import HwQueue
from drivers.amd.iface import Apertures, Plan, Prepare, Remote
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hardware_queue import Slots, open_queue
from drivers.amd.pci.layout import IH_POINTERS
from drivers.amd.pci.process import LDS_BASE, SCRATCH_BASE, Process
from drivers.amd.pci.purposes import PURPOSES
from drivers.amd.pci.queue_spec import QueueSpec
from drivers.bare.address_space import AddressSpace
from drivers.bare.ahead import expect
from drivers.bare.clock import MeasuredClock
from drivers.bare.memory import SHARED, Memories, PciMemory
from drivers.bare.mirror import Mirrors
from drivers.bare.page_table import PageTable
from drivers.base.errors import DeviceError, DeviceGone, Unsupported, UseAfterFree, during
from drivers.base.interrupts import deferred
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import GpuClock, GpuIface, Memory, Use
from drivers.gpu.incident import GPU_HANG, Incident, Reset

EVENT: Final = 1
"""What queues write and interrupt with: there is one event, of this process alone."""
_MS: Final = 1e-3


class PciIface:
    """A booted GPU of this process; `open_pci` makes it. `give_back` ends what is below it."""

    calibrated = False
    evicts = False
    loses_doorbells = False
    queues_per_engine = 1
    mailbox_va: int

    def __init__(
        self, gpu: BareGpu, process: Process, table: PageTable, give_back: Step, opened: str = "",
        *, name: str = "PCI", mirrors: Mirrors | None = None, remote: Remote | None = None,
    ) -> None:  # fmt: skip
        """`mirrors`: the host's copies of the GPU's memory; `remote`: how devices ask for them."""
        self.name, self.opened = name, opened
        self._mirrors, self.remote = mirrors, remote
        self.world, self.node, self.chip = gpu.session.world, gpu.node, gpu.chip
        self.event_id = EVENT
        self.clock: GpuClock = MeasuredClock(self.world, NS_PER_TICK)
        self.peeks: list[Callable[[int], int | None]] = []
        self.gone: DeviceError | None = None
        self.memories = Memories(gpu, table, AddressSpace(), gpu.session.dma, process.flush_tlb,
                                 mirrors)  # fmt: skip
        self._gpu, self._process, self._table, self._give_back = gpu, process, table, give_back
        self._slots = Slots(gpu.node.sdma_engines)
        self._mailbox: PciMemory | None = None
        self._unreported: Incident | None = None
        self._looking = False
        """Whether a call reads the interrupt ring now."""
        """That the GPU was reset, until somebody hears of it."""
        self._lock = self.memories.lock
        """Registers are selected and indexed by others: page tables, queues, interrupts and the
        reset take turns. No launch waits for it."""
        self._open = True

    def start(self) -> None:
        """Make the address space known to the GPU. Nothing is left behind by a failure."""
        with Undo() as undo:
            self._process.enter(self._table)
            undo.add(self._process.leave)
            self._mailbox = self.memories.allocate(PAGE_BYTES, SHARED, "mailbox", host=True)
            self.mailbox_va = self._mailbox.gpu_va

    @property
    def handles(self) -> int:
        """Memory objects that are not freed."""
        return self.memories.handles

    @property
    def bytes_held(self) -> int:
        """Their bytes."""
        return self.memories.bytes_held

    def _check(self) -> None:
        """Raises: UseAfterFree in a child or after close; why the GPU is gone."""
        self.memories.check_process()
        if self.gone is not None:
            raise self.gone.with_traceback(None)
        if not self._open:
            raise UseAfterFree("the GPU was given back", hint="open it again")

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> PciMemory:
        """Zeroed memory for one use. Raises: OutOfMemory."""
        self._check()
        return self.memories.allocate(nbytes, PURPOSES[use], name, host=host)

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> PciMemory:
        """Whole pages of this process's own memory. Raises: Unsupported without an IOMMU."""
        self._check()
        return self.memories.wrap(cpu_va, nbytes, name)

    def import_dmabuf(self, fd: int, first: int, nbytes: int) -> NoReturn:
        """Raises: Unsupported."""
        raise Unsupported(
            f"descriptor {fd}: no kernel driver has this GPU, and only one could map a dma-buf",
            hint="bind amdgpu and use AMD_IFACE=KFD, or copy the memory through the host",
        )

    def export_dmabuf(self, memory: Memory) -> NoReturn:
        """Raises: Unsupported."""
        raise Unsupported(
            f"{memory!r}: no kernel driver has this GPU, and only one could export a dma-buf",
            hint="bind amdgpu and use AMD_IFACE=KFD, or copy the memory through the host",
        )

    def write_code(self, memory: Memory, data: bytes) -> bool:
        """The host writes code, through the BAR: the GPU itself may only read and run it."""
        if not isinstance(memory, PciMemory):
            raise Unsupported(f"{memory!r} is not memory of this GPU")
        self._check()
        self.memories.write_code(memory, data)
        return True

    def zero_with(self, fill: Callable[[int, int], bool]) -> None:
        """How a copy engine zeroes (address, bytes), from now on."""
        self.memories.fill = fill

    def open_queue(self, plan: Plan, prepare: Prepare | None = None) -> HwQueue:
        """A queue of the hardware. Nothing is left behind by a failure."""
        self._check()
        with self._lock:
            return open_queue(self, self._gpu, self._slots, plan, prepare)

    def run(self, spec: QueueSpec) -> None:
        """Let the hardware read a queue."""
        self._process.start(spec)

    def stop(self, spec: QueueSpec) -> None:
        """The hardware reads it no more; where it does not let go, the whole GPU is reset."""
        if self.memories.forked:
            return
        with self._lock:
            if self.gone is None and not self._process.stop(spec):
                self._reset()

    def _reset(self) -> None:
        """Mode-1 reset: everything on the card is lost, all of it this process's."""
        self.gone = DeviceGone(
            f"{self.chip.name} at {self._gpu.address}: a queue would not stop, and the GPU was "
            "reset; everything in its memory is lost",
            hint="close the device and open it again",
        )
        self.memories.reset = True
        self._unreported = Incident(cause=GPU_HANG, reset=Reset(whole=True, memory_lost=True))
        self._process.reset()

    def wait(self, timeout_ms: int) -> Incident | None:
        """Sleep until a queue interrupts or the time is over; the fault, when there is one."""
        self.memories.check_process()
        if timeout_ms > 0 and self.gone is None:
            self._gpu.session.wait_interrupt(timeout_ms * _MS)
        if self._mirrors is not None and self.gone is None and self._open:
            with during("read the progress of queues"):
                expect(self._gpu.vram, IH_POINTERS.offset)  # read below: sent with the next line
                self._mirrors.look()
        with self._lock:
            if self._looking:  # in a signal handler: the call that it interrupted reports
                return None
            self._looking = True
            try:
                return self._report()
            finally:
                self._looking = False

    def _report(self) -> Incident | None:
        if self.gone is None:
            return self._process.trouble()
        reported, self._unreported = self._unreported, None
        return reported

    def publish(self) -> None:
        """One write to a register where the memory is VRAM, behind the BAR."""
        self.memories.check_process()
        if self._open and self.gone is None:
            self.memories.publish()

    def apertures(self) -> Apertures:
        """As the boot set them for every VMID."""
        return Apertures(LDS_BASE, SCRATCH_BASE)

    def shares(self, other: GpuIface) -> bool:
        """No other GPU reaches this one's memory."""
        return other is self

    def lost(self, incident: Incident) -> DeviceError:
        """Never asked where no kernel driver stops queues."""
        return self.gone or DeviceGone(f"{self.chip.name} at {self._gpu.address} runs nothing")

    def close(self) -> None:
        """Drop the page tables, leave the GPU, give it back. A child of the process does nothing.

        A second close tries again to give back what is not given back yet.
        Raises: the first error, after all steps have run.
        """
        if self.memories.forked:
            return
        with deferred():
            steps = [self._put_away, self._give_back] if self._open else [self._give_back]
            self._open, self.memories.fill = False, None
            run_all(steps)

    def _put_away(self) -> None:
        """Leave the GPU for a warm boot; where anything fails, for one that begins with a reset."""
        mailbox, self._mailbox = self._mailbox, None
        if mailbox is not None:
            mailbox.free()
        if self.gone is not None:
            return
        try:
            run_all([self._process.leave, self._table.close])
        except DeviceError:
            self._process.forget()
            raise
        self._process.put_away()
