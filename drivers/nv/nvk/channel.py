"""A channel: a GPFIFO that the GPU reads, the engine's object in it, and its error notifier.

Each channel is in a group (TSG) of its own: a fault tears down a whole group, and the other channel
goes on. Rings, entries and the control words (USERD) are in system memory.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from drivers.base.contracts import Region
from drivers.base.errors import Unsupported, UseAfterFree, during
from drivers.base.ioctl import Struct
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.doorbell import check_order
from drivers.gpu.iface import Memory, Use
from drivers.nv.nvk.allocations import (
    COPY_BY_ENGINE_TYPE,
    ENGINE_GRAPHICS,
    SUBCONTEXT_ASYNC,
    ChannelGroupAlloc,
    ContextShareAlloc,
    CopyAlloc,
    DebuggerAlloc,
    Notification,
    RmClass,
)
from drivers.nv.nvk.controls import GET_WORK_SUBMIT_TOKEN, WorkSubmitToken
from drivers.nv.nvk.memory import Gpu as MemoryGpu
from drivers.nv.nvk.memory import NvMemory, allocate
from drivers.nv.nvk.status import hint
from queues.nv.generations import Generation
from queues.nv.words import ENTRY_BYTES

DOORBELL_OFF: Final = 0x90
"""NOTIFY_CHANNEL_PENDING of the usermode page. # src: class/clc361.h"""
GP_GET_OFF, GP_PUT_OFF = 0x88, 0x8C
"""In USERD. # src: clc56f.h Nvc56fControl"""
USERD_BYTES: Final = 4096
NOTIFIER_BYTES: Final = 4096
_WORD_BYTES: Final = 4


class Gpu(MemoryGpu, Protocol):
    """What a channel needs of its GPU."""

    va_space: int
    generation: Generation
    doorbell_page: Region
    copy_engine: int
    """Engine type of the copy engine that is used."""


class Plan(NamedTuple):
    """Which channel, and how large."""

    name: str
    compute: bool
    ring_bytes: int
    entries: int


class Channel:
    """A channel that runs. `dead` is set when RM reported an error of it."""

    def __init__(self, gpu: Gpu, plan: Plan) -> None:
        self.gpu, self.plan = gpu, plan
        self.handle = self.group = self.engine = self.debugger = 0
        self.dead = False
        self._undo: list[Step] = []
        self._place = (0, 0)
        self.doorbell: Callable[[int], None] = _closed

    def open(self) -> None:
        """Create everything; a failure undoes what was done."""
        with Undo() as undo:
            undo.add(self.close)
            plan = self.plan
            self.ring: Memory = self._memory(plan.ring_bytes, "ring")
            fifo = plan.entries * ENTRY_BYTES
            control = self._memory(fifo + USERD_BYTES, "entries")
            notifier = self._memory(NOTIFIER_BYTES, "error notifier")
            self.ring_view = self.ring.view()
            self.entries = control.view()[:fifo].cast("Q")
            self.gp_get = _word(control, fifo + GP_GET_OFF)
            self.write_pointer = _word(control, fifo + GP_PUT_OFF)
            self.notifier = notifier.view()
            self._channel(control, fifo, notifier)

    def _memory(self, nbytes: int, part: str) -> NvMemory:
        made = allocate(self.gpu, nbytes, Use.PACKETS, f"{self.plan.name}: {part}", host=True)
        self._undo.append(made.free)
        made.view()[:] = bytes(made.nbytes)
        return made

    def _object(self, what: str, parent: int, kind: int, args: Struct | None = None) -> int:
        client = self.gpu.client
        handle = client.alloc(f"{self.plan.name}: {what}", parent, kind, args)
        self._undo.append(partial(client.free, handle, parent))
        return handle

    def _channel(self, control: NvMemory, userd_off: int, notifier: NvMemory) -> None:
        """The group, the channel in it, its engine; then it is scheduled."""
        gpu, plan, client = self.gpu, self.plan, self.gpu.client
        engine = ENGINE_GRAPHICS if plan.compute else gpu.copy_engine
        group = ChannelGroupAlloc(h_va_space=gpu.va_space, engine_type=engine)
        self.group = self._object("group", gpu.device, RmClass.KEPLER_CHANNEL_GROUP_A, group)
        args: Any = client.abi.channel(
            h_object_error=notifier.handle, gp_fifo_offset=control.gpu_va,
            gp_fifo_entries=plan.entries, h_userd_memory=(control.handle, *[0] * 7),
            userd_offset=(userd_off, *[0] * 7), engine_type=0 if plan.compute else engine,
        )  # fmt: skip
        if plan.compute:
            share = ContextShareAlloc(h_va_space=gpu.va_space, flags=SUBCONTEXT_ASYNC)
            args.h_context_share = self._object(
                "subcontext", self.group, RmClass.FERMI_CONTEXT_SHARE_A, share
            )
        self.handle = self._object("channel", self.group, gpu.generation.gpfifo, args)
        self.engine = self._engine(engine)
        self._watch()
        token = client.control(self.handle, GET_WORK_SUBMIT_TOKEN, WorkSubmitToken())
        self._place = gpu.space.register_channel(self.handle)
        self._undo.append(self._unregister)
        schedule = client.abi.schedule
        client.control(self.group, schedule, schedule.args(b_enable=1))
        self.doorbell = doorbell(gpu.doorbell_page, token.work_submit_token, plan.name)

    def _engine(self, engine: int) -> int:
        """The object of the class that methods are for."""
        generation = self.gpu.generation
        if self.plan.compute:
            return self._object("compute object", self.handle, generation.compute)
        args = CopyAlloc(version=COPY_BY_ENGINE_TYPE, engine_type=engine)
        return self._object("copy object", self.handle, generation.copy, args)

    def _watch(self) -> None:
        """Make the object that faults are read through, while there is none.

        After a fault it may be too late: the states of the SMs are kept by the GSP, whose code is
        not public, and the channel is being taken away. Where RM refuses it, faults are reported
        with less.
        # src: src/nvidia/src/kernel/gpu/gr/kernel_sm_debugger_session.c ksmdbgssnConstruct_IMPL();
        # src: clients known to run make it with the channel (tinygrad ops_nv.py)
        """
        if self.plan.compute:
            gpu = self.gpu
            args = DebuggerAlloc(h_app_client=gpu.client.handle, h_class3d_object=self.engine)
            with hint():
                kind = RmClass.GT200_DEBUGGER
                self.debugger = self._object("debugger", gpu.device, kind, args)

    def _unregister(self) -> None:
        self.gpu.space.unregister_channel(self.handle, self._place)

    @property
    def open_now(self) -> bool:
        """Whether it is not closed."""
        return self.doorbell is not _closed

    def reported(self) -> Notification | None:
        """What RM wrote to the error notifier, once; None while there is nothing."""
        raw = bytes(self.notifier[: Notification.SIZE])
        if self.dead or not Notification.of(raw).status:  # which RM writes last
            return None
        self.dead = True
        return Notification.of(raw)

    def close(self) -> None:
        """Stop the channel and free its memory. A second close does nothing."""
        self.doorbell = _closed
        undo, self._undo = self._undo, []
        empty = memoryview(bytearray(USERD_BYTES))
        self.ring_view = self.notifier = empty
        self.entries, self.write_pointer = empty.cast("Q"), empty.cast("I")[:1]
        self.gp_get = self.write_pointer
        run_all(reversed(undo))


def _word(memory: NvMemory, at: int) -> memoryview:
    """One word of memory; a view kept in the traceback of a failed opening would keep it all."""
    return memory.view()[at : at + _WORD_BYTES].cast("I")


def _closed(value: int) -> None:
    """The doorbell of a channel that is not there any more."""
    raise UseAfterFree(f"a closed channel was rung with {value}", hint="open the device again")


def doorbell(page: Region, token: int, name: str) -> Callable[[int], None]:
    """A function that stores the channel's token, as fast as the page allows.

    Raises: Unsupported on processors whose stores may reach the GPU in another order.
    """
    at = DOORBELL_OFF // _WORD_BYTES
    try:
        place = page.view().cast("I")[at : at + 1]
    except Unsupported:  # a register, not memory

        def write(value: int) -> None:
            with during(name):
                page.write32(DOORBELL_OFF, token)

        return write
    check_order(platform.machine())

    def store(value: int) -> None:
        place[0] = token

    return store
