"""KFD events of one device: sleeping until a queue interrupts, and hearing of its faults."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from threading import local
from typing import Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.kfd.abi import RESET_DATA_MINOR
from drivers.amd.kfd.bo import Bo, Gpu, allocate
from drivers.amd.kfd.event import (
    CREATE_EVENT,
    DESTROY_EVENT,
    EVENT_PAGE_BYTES,
    SIGNAL_EVENT_LIMIT,
    SIGNAL_SLOT_BYTES,
    WAIT_EVENTS,
    CreateEventArgs,
    DestroyEventArgs,
    EventData,
    EventType,
    HwExceptionData,
    MemoryErrorType,
    MemoryExceptionData,
    ResetCause,
    ResetType,
    SignalEventData,
    WaitEventsArgs,
    WaitResult,
)
from drivers.base.contracts import Region
from drivers.base.errors import MalformedInput
from drivers.base.undo import Undo, run_all
from drivers.gpu.iface import Use
from drivers.gpu.incident import ECC, GPU_HANG, Incident, PageFault, Reset

_SIGNAL, _MEMORY, _HARDWARE = range(3)
_KINDS: Final = (EventType.SIGNAL, EventType.MEMORY, EventType.HW_EXCEPTION)
FIRST_AGE: Final = 1
"""Of an event that was never set; 0 asks for no age. # src: kfd_events.c kfd_event_create()"""
LONGEST_WAIT_MS: Final = 0xFFFF_FFFE
"""One more means for ever. # src: kfd_priv.h KFD_EVENT_TIMEOUT_INFINITE"""


class Last(local):
    """How often the signal event had been set when a thread last looked.

    A thread that was not asleep yet misses an event that only woke others. The kernel lets it go on
    at once where the age is another one by now. It ignores ages before version 1.14.
    # src: kfd_events.c set_event(), init_event_waiter(), copy_signaled_event_data()
    """

    age = FIRST_AGE


class Events:
    """A signal event that the device's queues raise, and the two kinds of exception.

    `mailbox_va` and `event_id` are what a queue writes, and where, before it interrupts.
    """

    def __init__(self, gpu: Gpu, ids: tuple[int, ...], mailbox_va: int) -> None:
        self.gpu, self._ids, self.mailbox_va = gpu, ids, mailbox_va
        self.event_id = ids[_SIGNAL]
        self._arrays: list[Region] = [gpu.world.mmap(-1, PAGE_BYTES)]
        """What no call of WAIT_EVENTS uses now: several threads may wait at a time."""
        self._last = Last()
        self._names_gpu = gpu.session.minor >= RESET_DATA_MINOR
        """Whether a wait for several events says which GPU was reset; else that one is asked for
        by itself."""

    @classmethod
    def open(cls, gpu: Gpu) -> Events:
        """Create the three; the process's first ones bring its event page."""
        with gpu.session.lock, Undo() as undo:
            page = _page(gpu, undo)
            first = CREATE_EVENT(gpu.world, gpu.session.fd, _wanted(EventType.SIGNAL, page))
            gpu.session.event_page = page
            undo.hand_over(partial(_destroy, gpu, first.event_id))
            ids = [first.event_id]
            for kind in _KINDS[1:]:
                made = CREATE_EVENT(gpu.world, gpu.session.fd, _wanted(kind, None)).event_id
                undo.add(partial(_destroy, gpu, made))
                ids.append(made)
            if not 0 < first.event_slot_index < SIGNAL_EVENT_LIMIT or 0 in ids:
                raise MalformedInput(f"CREATE_EVENT answered {first!r}")
            mailbox_va = page.gpu_va + first.event_slot_index * SIGNAL_SLOT_BYTES
            return cls(gpu, tuple(ids), mailbox_va)

    def wait(self, timeout_ms: int) -> Incident | None:
        """Sleep until a queue interrupts or the time is over; the fault, when there is one."""
        try:
            array = self._arrays.pop()
        except IndexError:
            array = self.gpu.world.mmap(-1, PAGE_BYTES)
        try:
            return self._wait(array, timeout_ms)
        finally:
            self._arrays.append(array)

    def _wait(self, array: Region, timeout_ms: int) -> Incident | None:
        if self._names_gpu:
            entries = self._ask(array, self._ids, timeout_ms)
            return self._trouble(*entries[_MEMORY:]) if entries else None
        entries = self._ask(array, self._ids[:_HARDWARE], timeout_ms)
        reset = self._ask(array, self._ids[_HARDWARE:], 0)
        memory = entries[_MEMORY] if entries else bytes(MemoryExceptionData.SIZE)
        return self._trouble(memory, self._unsaid(reset[0]) if reset else bytes(len(memory)))

    def _ask(self, array: Region, ids: Sequence[int], timeout_ms: int) -> list[bytes]:
        """WAIT_EVENTS: the data of each event; [] where nothing happened in time."""
        size, first = EventData.SIZE, ids[0] == self.event_id
        for number, event_id in enumerate(ids):
            array.write(number * size, bytes(EventData(event_id=event_id).raw))
        if first:
            array.write(0, bytes(SignalEventData(last_event_age=self._last.age).raw))
        args = WaitEventsArgs(
            events_ptr=array.cpu_va,
            num_events=len(ids),
            timeout=max(0, min(timeout_ms, LONGEST_WAIT_MS)),
        )
        WAIT_EVENTS(self.gpu.world, self.gpu.session.fd, args)
        if args.wait_result != WaitResult.COMPLETE:
            return []
        entries = [EventData.of(array.read(n * size, size)).data for n in range(len(ids))]
        if first:
            signal = SignalEventData.of(entries[0][: SignalEventData.SIZE])
            self._last.age = signal.last_event_age
        return entries

    def _unsaid(self, data: bytes) -> bytes:
        """A hardware exception that an older kernel raised, and of which it copied nothing.

        It is raised for each reset of a GPU that the process has: taken for this one's.
        """
        found = HwExceptionData.of(data[: HwExceptionData.SIZE])
        if not found.gpu_id:
            found.reset_type, found.memory_lost = ResetType.WHOLE_GPU_RESET, 1
            found.reset_cause, found.gpu_id = ResetCause.GPU_HANG, self.gpu.gpu_id
        return bytes(found.raw)

    def _trouble(self, first: bytes, second: bytes) -> Incident | None:
        """The exceptions among what happened that are this GPU's own."""
        memory = MemoryExceptionData.of(first[: MemoryExceptionData.SIZE])
        hardware = HwExceptionData.of(second[: HwExceptionData.SIZE])
        ours = self.gpu.gpu_id
        if ours not in (memory.gpu_id, hardware.gpu_id):
            return None
        return reported(
            memory if memory.gpu_id == ours else None,
            hardware if hardware.gpu_id == ours else None,
        )

    def close(self) -> None:
        """Destroy the events, once; the event page stays the process's."""
        ids, self._ids = self._ids, ()
        if not ids:
            return
        steps = [partial(_destroy, self.gpu, event_id) for event_id in ids]
        run_all([*steps, *(array.close for array in self._arrays)])


def reported(memory: MemoryExceptionData | None, hardware: HwExceptionData | None) -> Incident:
    """The kernel's two kinds of exception, one of which is there, as the devices' vocabulary."""
    page, cause, reset = None, "", None
    if hardware is not None:
        cause = ECC if hardware.reset_cause == ResetCause.ECC else GPU_HANG
        whole = hardware.reset_type == ResetType.WHOLE_GPU_RESET
        reset = Reset(whole, bool(hardware.memory_lost))
    if memory is not None and memory.error_type != MemoryErrorType.NO_RAS:
        cause = ECC if memory.error_type != MemoryErrorType.GPU_HANG else GPU_HANG
    elif memory is not None:
        page = _page_fault(memory)
    return Incident(page, cause, reset)


def _page_fault(data: MemoryExceptionData) -> PageFault:
    if data.not_present:
        kind = "unmapped"
    elif data.read_only:
        kind = "read-only"
    else:
        kind = "no-execute" if data.no_execute else "memory"
    access = "write" if data.read_only else "read"
    return PageFault(data.va, kind, access, bool(data.imprecise))


def _page(gpu: Gpu, undo: Undo) -> Bo:
    """The event page: this process's, mapped to this GPU too, or a new one."""
    page = gpu.session.event_page
    if isinstance(page, Bo):
        page.map_to_gpu(gpu.gpu_id)
        return page
    page = allocate(gpu, EVENT_PAGE_BYTES, Use.SHARED, "event page", host=True)
    undo.add(page.free)
    return page


def _wanted(kind: EventType, page: Bo | None) -> CreateEventArgs:
    """Events reset themselves when they are waited for: exceptions cannot be reset otherwise.

    # src: kfd_events.c kfd_reset_event(), event_can_be_cpu_signaled()
    """
    handle = page.handle if page is not None and page.gpu.session.event_page is None else 0
    return CreateEventArgs(event_type=kind, auto_reset=1, event_page_offset=handle)


def _destroy(gpu: Gpu, event_id: int) -> None:
    if not gpu.session.forked:
        DESTROY_EVENT(gpu.world, gpu.session.fd, DestroyEventArgs(event_id=event_id))
