"""One GPU over NVIDIA's kernel driver: its client, its address space, its channels.

Opening is the order that RM asks for: client, device, subdevice, address space, UVM, doorbell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Final

from drivers.base import forks
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, DeviceGone, Unsupported
from drivers.base.undo import Step, Undo, run_all
from drivers.choice import VisibleList
from drivers.gpu.iface import GpuClock, GpuIface, Memory, Use
from drivers.gpu.incident import Incident
from drivers.nv.nvk.abi import abi_of, query_version
from drivers.nv.nvk.allocations import DeviceAlloc, RmClass, SubdeviceAlloc, VaSpaceFlag
from drivers.nv.nvk.cards import address_of, node_of, open_card, open_minor
from drivers.nv.nvk.channel import Channel, Plan
from drivers.nv.nvk.client import ARENA_BYTES, RmClient
from drivers.nv.nvk.clock import NvClock
from drivers.nv.nvk.controls import GET_ID_INFO, GpuIdInfo
from drivers.nv.nvk.escapes import (
    CARD_INFO,
    REGISTER_FD,
    CardInfo,
    CardInfos,
    RegisterFd,
    cards,
)
from drivers.nv.nvk.facts import read_classes, read_copy_engine, read_facts, read_uuid
from drivers.nv.nvk.faults import Faults
from drivers.nv.nvk.memory import CTL_PATH, NvMemory, allocate, map_host, unmap_host, wrap
from drivers.nv.nvk.modes import boost, check_plain, divided, reservable, reserve
from drivers.nv.nvk.uvm_space import open_uvm

USERMODE_BYTES: Final = 0x10000
VA_BASE: Final = 0x1000
VA_BYTES: Final = 0x1FFFFFB000000
"""# src: what clients known to run give (tinygrad ops_nv.py)"""
POLL_S: Final = 0.001
"""How long a wait sleeps between two looks: the channels raise no interrupt here."""


class NvkIface:
    """A GPU of this process; `open_nvk` makes it."""

    name = "NVK"
    opened = ""
    evicts = False
    clock: GpuClock

    def __init__(self, world: World, client: RmClient, card: CardInfo, version: str) -> None:
        self.world, self.client, self.card, self.version = world, client, card, version
        self.path = node_of(card)
        self.peeks: list[Callable[[int], int | None]] = []
        self.gone: DeviceError | None = None
        self.whole = True
        """Whether RM reserves it for a client. In MIG mode it does not."""
        self.handles = self.bytes_held = 0
        self.device = self.subdevice = self.va_space = 0
        self._channels: list[Channel] = []
        self._looking = RLock()
        self._undo: list[Step] = []
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: handles, channels and mappings of the GPU are the parent's."""
        self._looking = RLock()
        self.client.after_fork()
        if hasattr(self, "space"):
            self.space.after_fork()

    def left_by(self, steps: list[Step]) -> None:
        """Closing ends with these steps, the last one first."""
        self._undo = [*steps, *self._undo]

    def open(self) -> None:
        """Everything up to the doorbell, in order; a failure undoes what was done."""
        with self._opening():
            self._open_device(compute=True)
            self._open_space()
            self._open_doorbell()
            self._undo.append(partial(self._calm, boost(self.client, self.subdevice)))
            self.clock = NvClock(self.world, self.doorbell_page)

    def open_briefly(self) -> None:
        """Only what controls need; a failure undoes what was done."""
        with self._opening():
            self._open_device(compute=False)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """A failure undoes what was done; of a divided GPU it says that."""
        try:
            with Undo() as undo:
                undo.add(self.close)
                yield
        except DeviceError as error:
            if self.whole:
                raise
            raise divided(address_of(self.card), error) from error

    def _open_device(self, *, compute: bool) -> None:
        """Through the node that is open: the last close of it takes the GPU down."""
        client = self.client
        REGISTER_FD(self.world, client.device_fd, RegisterFd(ctl_fd=client.ctl_fd))
        info = client.control(client.handle, GET_ID_INFO, GpuIdInfo(gpu_id=self.card.gpu_id))
        args = DeviceAlloc(device_id=info.device_instance, h_client_share=client.handle)
        self.device = client.alloc("the device", client.handle, RmClass.NV01_DEVICE_0, args)
        part = SubdeviceAlloc(sub_device_id=0)
        self.subdevice = client.alloc("the subdevice", self.device, RmClass.NV20_SUBDEVICE_0, part)
        address = address_of(self.card)
        if compute:
            self.whole = reserve(client, self.subdevice, address)
        else:
            self.whole = reservable(client, self.subdevice)
        self.generation = read_classes(client, self.device)
        if compute:
            check_plain(client, self.generation, address)
        self.facts = read_facts(client, self.subdevice)
        self.copy_engine = read_copy_engine(client, self.subdevice)
        self._faults = Faults(self.facts.sms)

    def _open_space(self) -> None:
        """An address space that UVM fills: RM only holds it."""
        client = self.client
        flags = VaSpaceFlag.IS_EXTERNALLY_OWNED | VaSpaceFlag.ENABLE_PAGE_FAULTING
        args = client.abi.va_space(flags=int(flags), va_size=VA_BYTES, va_base=VA_BASE)
        kind = RmClass.FERMI_VASPACE_A
        self.va_space = client.alloc("the address space", self.device, kind, args)
        self.space = open_uvm(self.world, client.abi, client.ctl_fd, client.handle)
        self._undo.append(self.space.close)
        self.space.register(read_uuid(client, self.subdevice), self.va_space)

    def _calm(self, clear: Step) -> None:
        """Let clocks fall again. In a child of the process: nothing."""
        if not self.client.forked:
            clear()

    def _open_doorbell(self) -> None:
        kind = self.generation.usermode
        usermode = self.client.alloc("the doorbell", self.subdevice, kind)
        host = map_host(self, usermode, USERMODE_BYTES, self.path, memory=False)
        self.doorbell_page = host.region
        self._undo.append(partial(unmap_host, self, usermode, host))

    # Memory

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> NvMemory:
        """Memory for one use. Raises: OutOfMemory, and what RM and UVM refuse."""
        return allocate(self, nbytes, use, name, host=host)

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> NvMemory:
        """Whole pages of this process's own memory. Raises: BadArgument."""
        return wrap(self, cpu_va, nbytes, name)

    def import_dmabuf(self, fd: int, first: int, nbytes: int) -> Memory:
        """Not written yet."""
        raise Unsupported("dma-bufs are not imported over NVK", hint="copy the memory")

    def export_dmabuf(self, memory: Memory) -> int:
        """Not written yet."""
        raise Unsupported("dma-bufs are not exported over NVK", hint="copy the memory")

    def write_code(self, memory: Memory, data: bytes) -> bool:
        """Left to the copy engine: the host does not see video memory."""
        return False

    def publish(self) -> None:
        """Nothing: it is the machine's own memory, which the GPU snoops."""

    def shares(self, other: GpuIface) -> bool:
        """Whether the other GPU is one of this process, over NVK."""
        return isinstance(other, NvkIface) and other.space.addresses is self.space.addresses

    # Channels and their faults

    def open_queue(self, plan: Plan) -> Channel:
        """A channel that runs. A failure frees everything."""
        channel = Channel(self, plan)
        channel.open()
        with self._looking:
            self._channels = [*(one for one in self._channels if one.open_now), channel]
        return channel

    def wait(self, timeout_ms: int) -> Incident | None:
        """The fault that a notifier holds, now or after a short sleep."""
        found = self._reported()
        if found is None and timeout_ms > 0:
            self.world.sleep(min(timeout_ms / 1000, POLL_S))
            found = self._reported()
        return found

    def _reported(self) -> Incident | None:
        """Threads that wait at the same time look here; one of them gets the report."""
        with self._looking:
            for channel in self._channels:
                note = channel.reported()
                if note is not None:
                    found = self._faults.of(channel, note)
                    if found.gone:
                        self.lost(found)
                    return found
        return None

    def lost(self, incident: Incident) -> DeviceError:
        """The GPU left the bus, or has to be reset."""
        self.gone = DeviceGone(
            f"{self.path}: the GPU runs no channel any more: {incident.cause}",
            hint="See the kernel log (dmesg); restart the machine, or reset the GPU as root",
        )
        return self.gone

    def close(self) -> None:
        """Leave the GPU: every step runs, whatever fails. A second close does nothing."""
        undo, self._undo = self._undo, []
        run_all(reversed(undo))


def open_nvk(
    world: World, index: int, visible: Sequence[VisibleList] = (),
    *, minor: int | None = None, briefly: bool = False,
) -> NvkIface:  # fmt: skip
    """NV:`index`, as `drivers.nv.nvk.cards` counts; or the GPU with this minor number.

    `briefly`: without an address space, to ask it for its state alone.
    Raises: NotFound, Denied, Unsupported, OutOfMemory, and what the kernel driver refuses.
    """
    with Undo() as undo:
        fd = world.open(CTL_PATH, os.O_RDWR)
        undo.add(lambda: world.close(fd))
        version = query_version(world, fd)
        arena = world.mmap(-1, ARENA_BYTES)
        undo.add(arena.close)
        client = RmClient(world, fd, abi_of(version), arena)
        found = cards(CARD_INFO(world, fd, CardInfos()))
        if minor is None:
            card, client.device_fd = open_card(world, found, index, visible)
        else:
            card, client.device_fd = open_minor(world, found, minor)
        close_node = partial(world.close, client.device_fd)
        undo.add(close_node)
        client.open()
        undo.add(client.close)
        iface = NvkIface(world, client, card, version)
        iface.left_by([partial(world.close, fd), arena.close, close_node, client.close])
        undo.hand_over(iface.close)
        if briefly:
            iface.open_briefly()
        else:
            iface.open()
    return iface
