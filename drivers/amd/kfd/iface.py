"""One GPU through /dev/kfd: the kernel's session, memory, events and queues as an Iface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from drivers.amd.chips import Chip
from drivers.amd.hwqueue import HwQueue
from drivers.amd.iface import Apertures, Plan, Prepare
from drivers.amd.kfd.abi import ZAP_MINOR
from drivers.amd.kfd.apertures import read_apertures
from drivers.amd.kfd.bo import Bo, Gpu, allocate, wrap
from drivers.amd.kfd.clock import read_clock
from drivers.amd.kfd.cwsr import SAVE_AREA_ADVICE, SaveArea, small_save_area
from drivers.amd.kfd.dmabuf import export_dmabuf, import_dmabuf
from drivers.amd.kfd.exceptions import Exceptions
from drivers.amd.kfd.hwqueue import Doorbells, Errors, open_queue
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.kfd.session import Session, enable_runtime, open_session
from drivers.amd.kfd.topology import read_topology
from drivers.amd.kfd.waiting import Events
from drivers.amd.tools.look import Gpu as Seen
from drivers.amd.tools.look import usable
from drivers.base.contracts import World
from drivers.base.errors import (
    Denied,
    DeviceError,
    DeviceGone,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from drivers.base.undo import Undo, run_all
from drivers.choice import VisibleList
from drivers.gpu.iface import GpuClock, GpuIface, Memory, Use
from drivers.gpu.incident import Incident

_SHOWN: Final = 4
"""Hidden GPUs that an error names."""


class KfdIface(Gpu):
    """A GPU of this process's session; `open_kfd` makes it."""

    name = "KFD"
    remote = None
    opened = ""
    evicts = True
    calibrated = True
    queues_per_engine: int
    clock: GpuClock
    events: Events
    exceptions: Exceptions
    mailbox_va: int
    event_id: int

    def __init__(
        self, session: Session, node: GpuNode, chip: Chip, area: SaveArea, render_fd: int
    ) -> None:
        super().__init__(session, node.gpu_id, render_fd)
        self.node, self.chip, self._area = node, chip, area
        self.queues_per_engine = node.sdma_queues_per_engine
        self.peeks = session.peeks
        self.loses_doorbells = session.minor >= ZAP_MINOR
        self.gone: DeviceError | None = None
        self._doorbells = Doorbells(self)

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> Bo:
        """Memory for one use. Raises: OutOfMemory, and what the kernel refuses.

        A processor's GPU whose own memory is used up goes on with the machine's. Where it is the
        machine's, the host sees code, too, and writes it.
        """
        host = host or (use is Use.CODE and self.node.unified)
        try:
            return allocate(self, nbytes, use, name, host=host)
        except OutOfMemory:
            if not self.node.gtt_bytes or use in (Use.SHARED, Use.PACKETS, Use.HOST_CODE):
                raise
        return allocate(self, nbytes, use, name, host=host, gtt=True)

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> Bo:
        """Whole pages of this process's own memory, at the address where they are."""
        return wrap(self, cpu_va, nbytes, name)

    def import_dmabuf(self, fd: int, first: int, nbytes: int) -> Bo:
        """A dma-buf of amdgpu, of which `nbytes` from `first` on are used."""
        return import_dmabuf(self, fd, first, nbytes)

    def export_dmabuf(self, memory: Memory) -> int:
        """A new descriptor of a dma-buf of the memory, the caller's to close."""
        if not isinstance(memory, Bo):
            raise Unsupported(f"{memory!r} is not memory of KFD", hint="copy it out")
        return export_dmabuf(memory)

    def write_code(self, memory: Memory, data: bytes) -> bool:
        """Left to the copy engine where the host sees only a part of a card's memory."""
        if not self.node.unified:
            return False
        memory.view()[: len(data)] = data
        return True

    def publish(self) -> None:
        """Nothing: it is the host's own memory, which the GPU snoops."""

    def zero_with(self, fill: Callable[[int, int], bool]) -> None:
        """Nothing: amdgpu gives memory out cleared."""

    def open_queue(self, plan: Plan, prepare: Prepare | None = None) -> HwQueue:
        """A queue of the kernel's. Nothing is left behind by a failure."""
        engines, reported = self.node.sdma_engines, None
        if plan.kind == "AQL":
            reported = Errors(self.exceptions, self.mailbox_va, self.event_id)
        try:
            return open_queue(self, self._doorbells, plan, self._area, engines, prepare, reported)
        except Unsupported as error:
            if plan.kind == "SDMA" or not small_save_area(self.chip, self.node):
                raise
            raise Unsupported(
                f"{plan.name}: {self.chip.name} needs a save area of {self._area.total_bytes:#x} "
                "bytes, and this kernel refuses one of that size",
                hint=SAVE_AREA_ADVICE,
            ) from (error.__cause__ or error)

    def wait(self, timeout_ms: int) -> Incident | None:
        """Sleep until a queue interrupts or the time is over; the fault, when there is one."""
        found = self.events.wait(timeout_ms) or self.exceptions.take()
        if found is not None and found.reset is not None and self.loses_doorbells:
            self._doorbells.renew()
        return found

    def apertures(self) -> Apertures:
        """As the kernel tells this process."""
        return read_apertures(self)

    def shares(self, other: GpuIface) -> bool:
        """Whether the other GPU is one of the same session."""
        return isinstance(other, KfdIface) and other.session is self.session

    def lost(self, incident: Incident) -> DeviceError:
        """The kernel stopped all queues for good; this process is refused the GPU from now on.

        # src: kfd_int_process_v11.c, kfd_dqm_evict_pasid(). With amdgpu's parameter
        # no_queue_eviction_on_vm_fault=1 KFD is not told of the fault at all (gfx9, gfx11)
        # src: kfd_device.c kgd2kfd_pre_reset(), and the comment above kgd2kfd_post_reset()
        """
        where = f"{self.chip.name} at {self.node.pci_address}"
        if incident.reset is not None:
            gone = DeviceGone(
                f"{where}: after its reset the GPU runs no queue of this process any more",
                hint="start a new process",
            )
        else:
            gone = DeviceGone(
                f"{where}: after a page fault the kernel runs no queue of this process any more",
                hint="start a new process",
            )
        self.gone = self.session.evicted[self.gpu_id] = gone
        return gone

    def close(self) -> None:
        """Destroy the events, unmap the doorbells; the session stays the process's."""
        run_all([self._doorbells.close, self.exceptions.close, self.events.close])


def open_kfd(world: World, index: int, visible: Sequence[VisibleList] = ()) -> KfdIface:
    """The GPU with this number among those that KFD manages and that are supported.

    Raises: NotFound, Denied, Unsupported, OutOfMemory, and what the kernel refuses.
    """
    seen = chosen(world, index, visible)
    chip, area, node = seen.chip, seen.area, seen.node
    if chip is None or area is None:
        raise Unsupported(f"KFD node {node.index} is not supported")
    session = open_session(world)
    with Undo() as undo:
        iface = KfdIface(session, node, chip, area, session.acquire(node))
        enable_runtime(session)
        events = iface.events = Events.open(iface)
        undo.add(events.close)
        iface.mailbox_va, iface.event_id = events.mailbox_va, events.event_id
        where = events.mailbox_va, events.event_id
        exceptions = iface.exceptions = Exceptions.open(iface, chip.family.name, *where)
        undo.add(exceptions.close)
        iface.clock = read_clock(iface)
    return iface


def chosen(world: World, index: int, visible: Sequence[VisibleList] = ()) -> Seen:
    """The GPU with this number among those that can be opened. Raises: what is in the way."""
    found: list[Seen] = []
    numbered = 0
    topology = read_topology(world, links=False)
    for gpu in usable(world, topology, visible):
        if gpu.numbered and numbered == index:
            return gpu
        found.append(gpu)
        numbered += gpu.numbered
    left = [gpu for gpu in found if not gpu.masked]
    for gpu in left:
        if gpu.supported:
            _refuse_render(world, gpu)
    for gpu in left:
        if gpu.problems:
            raise gpu.problems[0]
    for node in topology.broken:
        if node.gpu_id or not numbered:  # one whose gpu_id cannot be read may be the only GPU
            raise node.error
    masked = [f"{gpu.node.pci_address}: {gpu.masked}" for gpu in found if gpu.masked]
    raise NotFound(
        "; ".join(
            [
                f"there is no AMD:{index}: KFD manages {numbered} supported GPUs",
                *masked[:_SHOWN],
            ]
        ),
        hint="python -m drivers.amd.probe shows them",
    )


def _refuse_render(world: World, gpu: Seen) -> None:
    """Raises: NotFound or Denied for a supported GPU whose render node cannot be opened."""
    render = gpu.render
    if not render.ok:
        kind = Denied if world.exists(render.path) else NotFound
        raise kind(f"{gpu.node.pci_address}: {render.reason}", hint=render.advice)
