"""Events of a KFD process: created, set by interrupts, waited for.

src: amdkfd/kfd_events.c
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from boards.amd.kfd import types as k
from boards.machine import host
from boards.machine.arrays import Array
from boards.machine.behaviour import Rules
from boards.machine.clock import Clock

SIGNAL_LIMIT = 4096
"""src: kfd_ioctl.h KFD_SIGNAL_EVENT_LIMIT"""
_FIRST_NONSIGNAL = (0x7FFFFFFF >> 1) + 1
_UNSIGNALED = (1 << 64) - 1
_OLD_SLOTS = 256
"""src: allocate_event_notification_slot(): of a page that user space has not brought"""
_ENDLESS, _LONGEST_MS = 0xFFFFFFFF, 0x7FFFFFFF
_TICK_MS, _NS_PER_MS = 4, 1_000_000
"""src: Debian's and Ubuntu's kernels: CONFIG_HZ is 250"""
_MAX_WAIT_EVENTS = 1 << 16


@dataclass(eq=False, slots=True)
class Event:
    """One event; `data` is what a waiter gets of a memory or hardware exception."""

    event_id: int
    kind: int
    auto_reset: bool
    signaled: bool = False
    age: int = 1
    data: bytes = b""
    waiters: list[Waiter] = field(default_factory=list)
    acknowledged: bool = False
    """Whether an interrupt has found its slot written."""

    def set(self) -> None:
        """src: set_event()"""
        self.signaled = not self.auto_reset or not self.waiters
        self.age += 1
        for waiter in self.waiters:
            waiter.activated = True


@dataclass(eq=False, slots=True)
class Waiter:
    """One entry of a WAIT_EVENTS call."""

    event: Event
    activated: bool
    wants_age: bool


@dataclass(eq=False, slots=True)
class Waiting:
    """A WAIT_EVENTS call that has begun."""

    waiters: list[Waiter]
    every: bool

    def met(self) -> bool:
        """Whether what it waits for has happened."""
        states = [waiter.activated for waiter in self.waiters]
        return all(states) if self.every or not states else any(states)

    def leave(self) -> None:
        """Events do not know of it any more."""
        for waiter in self.waiters:
            if waiter in waiter.event.waiters:
                waiter.event.waiters.remove(waiter)


class Events:
    """All events of a process, and the page that their slots lie in."""

    def __init__(self, clock: Clock, pump: Callable[[], bool], rules: Rules) -> None:
        self._clock, self._pump, self._rules = clock, pump, rules
        self._events: dict[int, Event] = {}
        self._slots: Array | None = None
        self._limit = 0
        self.page_handle = 0
        self.slept = self.timed_out = 0
        """Calls that had to wait, and those among them that no event ended."""

    def __len__(self) -> int:
        return len(self._events)

    @property
    def has_page(self) -> bool:
        """Whether there is an event page, the process's or the kernel's own."""
        return self._slots is not None

    def set_page(self, slots: Array, handle: int) -> None:
        """src: kfd_event_page_set(). Raises: OSError EINVAL."""
        if len(slots) < SIGNAL_LIMIT:
            raise OSError(errno.EINVAL, "the event page is too small")
        slots[:SIGNAL_LIMIT] = _UNSIGNALED
        self._slots, self._limit, self.page_handle = slots, len(slots), handle

    def create(self, kind: int, auto_reset: bool) -> Event:
        """src: kfd_event_create(). Raises: OSError ENOSPC."""
        if kind in (k.EVENT_SIGNAL, k.EVENT_DEBUG):
            if self._slots is None and "kernel_event_page" not in self._rules:
                raise OSError(errno.ENOMEM, "the process has brought no event page")
            if self._slots is None:  # a page of the kernel's own, which no GPU reaches
                self._slots, self._limit = np.full(SIGNAL_LIMIT, _UNSIGNALED, np.uint64), _OLD_SLOTS
            free = (n for n in range(1, min(self._limit, SIGNAL_LIMIT)) if n not in self._events)
            event_id = next(free, 0)
            if not event_id:
                raise OSError(errno.ENOSPC, "no slot for a signal event")
            self._slots[event_id] = _UNSIGNALED
        else:
            taken = (e for e in self._events if e >= _FIRST_NONSIGNAL)
            event_id = max(taken, default=_FIRST_NONSIGNAL - 1) + 1
        event = Event(event_id, kind, auto_reset)
        self._events[event_id] = event
        return event

    def find(self, event_id: int) -> Event:
        """Raises: OSError EINVAL."""
        event = self._events.get(event_id)
        if event is None:
            raise OSError(errno.EINVAL, f"no event {event_id}")
        return event

    def destroy(self, event_id: int) -> None:
        """src: kfd_event_destroy()"""
        del self._events[self.find(event_id).event_id]

    def signal(self, event_id: int, *, value: bool) -> None:
        """SET_EVENT and RESET_EVENT: of signal events alone."""
        event = self.find(event_id)
        if event.kind != k.EVENT_SIGNAL:
            raise OSError(errno.EINVAL, "only signal events are set by the processor")
        if value:
            event.set()
        else:
            event.signaled = False

    def interrupt(self, context_id: int) -> bool:
        """src: kfd_signal_event_interrupt(). Returns whether it belongs to an event.

        Two queues may write one slot before the first interrupt is handled, which acknowledges
        both. The second finds nothing, and the kernel goes on. The first of an event finds it.
        """
        if self._slots is None:
            return False
        event = None
        if 0 < context_id < SIGNAL_LIMIT and int(self._slots[context_id]) != _UNSIGNALED:
            event = self._events.get(context_id)
        found = [event] if event is not None else self._signaled()
        for one in found:
            self._slots[one.event_id] = _UNSIGNALED
            one.acknowledged = True
            one.set()
        named = self._events.get(context_id)
        return bool(found) or (named is not None and named.acknowledged)

    def _signaled(self) -> list[Event]:
        """The kernel's search through all slots when an id says nothing."""
        slots = self._slots
        if slots is None:
            return []
        kinds = (k.EVENT_SIGNAL, k.EVENT_DEBUG)
        return [
            event
            for event_id, event in self._events.items()
            if event.kind in kinds and int(slots[event_id]) != _UNSIGNALED
        ]

    def raise_all(self, kind: int, data: bytes) -> int:
        """Set every event of a kind, with its data; returns how many there are."""
        found = [event for event in self._events.values() if event.kind == kind]
        hidden = kind == k.EVENT_HW_EXCEPTION and "reset_data" not in self._rules
        for event in found:
            event.data = b"" if hidden else data
            event.set()
        return len(found)

    def wait(self, args: SimpleNamespace) -> None:
        """WAIT_EVENTS. src: kfd_wait_on_events(). Raises: OSError."""
        waiting = self.enlist(args)
        try:
            self._wait_for(waiting, args.timeout)
        except OSError:
            waiting.leave()
            raise
        self.settle(waiting, args)

    def enlist(self, args: SimpleNamespace) -> Waiting:
        """The first half of WAIT_EVENTS: from now on what is set is not lost.

        For who lets real time pass; `settle` is the other half. Raises: OSError.
        """
        args.wait_result = k.WAIT_FAIL
        most = self._rules.number("wait_most") if "wait_most" in self._rules else _MAX_WAIT_EVENTS
        if args.num_events > most:
            raise OSError(errno.ENOMEM, "too many events")
        nbytes = args.num_events * k.EVENT_DATA_BYTES
        memory = host.user_bytes(args.events_ptr, nbytes) if nbytes else memoryview(b"")
        waiting = Waiting([], bool(args.wait_for_all))
        entries = range(0, nbytes, k.EVENT_DATA_BYTES)
        try:
            for at in entries:
                waiting.waiters.append(self._waiter(memory[at : at + k.EVENT_DATA_BYTES]))
        except OSError:
            waiting.leave()
            raise
        return waiting

    def settle(self, waiting: Waiting, args: SimpleNamespace) -> None:
        """The second half: the result, and data of what was set. Raises: OSError EFAULT."""
        waiting.leave()
        if waiting.met():
            _copy_data(waiting.waiters, args.events_ptr)
        args.wait_result = k.WAIT_COMPLETE if waiting.met() else k.WAIT_TIMEOUT

    def _waiter(self, data: memoryview) -> Waiter:
        """src: init_event_waiter()"""
        (event_id,) = struct.unpack_from("<I", data, k.EVENT_ID_OFFSET)
        (age,) = struct.unpack_from("<Q", data, 0)
        event = self.find(event_id)
        waiter = Waiter(event, event.signaled, False)
        event.signaled = event.signaled and not event.auto_reset
        if event.kind == k.EVENT_SIGNAL and age and "event_age" in self._rules:
            waiter.wants_age = True
            waiter.activated = waiter.activated or event.age != age
        if not waiter.activated:
            event.waiters.append(waiter)
        return waiter

    def _wait_for(self, waiting: Waiting, timeout_ms: int) -> None:
        """Until the condition is true; time passes at once when nothing can make it so."""
        if waiting.met():
            return
        if timeout_ms:
            self._pump()
        if waiting.met() or not timeout_ms:
            return
        if timeout_ms == _ENDLESS:
            raise OSError(errno.EINTR, "waiting for ever for what cannot come")
        self.slept += 1
        until_ns = self._clock.now_ns() + _ticks(timeout_ms) * _TICK_MS * _NS_PER_MS
        while self._clock.skip_to(until_ns):
            self._pump()
            if waiting.met():
                return
        self._pump()
        self.timed_out += not waiting.met()


def _ticks(timeout_ms: int) -> int:
    """How many ticks of the kernel's timer a sleep takes that nothing ends.

    src: user_timeout_to_jiffies(): msecs_to_jiffies(), which rounds up, and one more
    """
    return -(-min(timeout_ms, _LONGEST_MS) // _TICK_MS) + 1


def _copy_data(waiters: list[Waiter], va: int) -> None:
    """Raises: OSError EFAULT. src: copy_signaled_event_data()"""
    for number, waiter in enumerate(waiters):
        if not waiter.activated:
            continue
        data = waiter.event.data
        if waiter.wants_age:
            data = struct.pack("<Q", waiter.event.age)
        if data:
            host.copy_to_user(va + number * k.EVENT_DATA_BYTES, data)
