"""Interrupts as event descriptors of the client: MSI, and an INTx line that is never raised."""

from __future__ import annotations

import os
import select
import struct
from typing import TypeAlias

from boards.vfio_user import wire
from boards.vfio_user.wire import Message, refusal

MAX_VECTORS = 32
"""# src: PCI Local Bus Specification 3.0 6.8.1.3: MSI has at most 32"""
_ACTIONS = wire.SET_MASK | wire.SET_UNMASK | wire.SET_TRIGGER
_KINDS = wire.SET_NONE | wire.SET_BOOL | wire.SET_EVENTFD
_ONE = struct.pack("<Q", 1)
_FLAGS = {
    wire.MSI: wire.IRQ_EVENTFD | wire.IRQ_NO_RESIZE,
    wire.INTX: wire.IRQ_EVENTFD | wire.IRQ_MASKABLE | wire.IRQ_AUTOMASKED,
}
Source: TypeAlias = tuple[int, int]
"""Kind and vector."""


class Interrupts:
    """Which event each vector of each kind signals, and whether it is masked."""

    def __init__(self, msi_vectors: int, *, line: bool = False) -> None:
        if not 0 <= msi_vectors <= MAX_VECTORS:
            raise ValueError(f"{msi_vectors} MSI vectors")
        self.vectors = {wire.MSI: msi_vectors, wire.INTX: int(line)}
        self.sent = 0
        """Messages that reached an event."""
        self._events: dict[Source, int] = {}
        self._masked: set[Source] = set()
        self._pending: set[Source] = set()

    def __len__(self) -> int:
        return len(self._events)

    def info(self, index: int) -> bytes:
        """DEVICE_GET_IRQ_INFO. Raises: OSError EINVAL."""
        if not 0 <= index < wire.IRQS:
            raise refusal(f"no interrupt kind {index}")
        count = self.vectors.get(index, 0)
        flags = _FLAGS[index] if count else 0
        return wire.IRQ_INFO.pack(wire.IRQ_INFO.size, flags, index, count)

    def set(self, message: Message) -> None:
        """DEVICE_SET_IRQS. Raises: OSError EINVAL; takes the descriptors it keeps."""
        _, flags, index, start, count = message.fields(wire.IRQ_SET)
        action, kind = flags & _ACTIONS, flags & _KINDS
        if flags & ~(_ACTIONS | _KINDS) or not _single(action) or not _single(kind):
            raise refusal(f"interrupt flags {flags:#x}")
        if not 0 <= index < wire.IRQS:
            raise refusal(f"no interrupt kind {index}")
        if kind == wire.SET_NONE and not count and not start:
            self._clear(index)
            return
        if not count or start + count > self.vectors.get(index, 0):
            raise refusal(f"vectors {start}+{count} of kind {index}")
        chosen = [(index, vector) for vector in range(start, start + count)]
        if kind == wire.SET_EVENTFD:
            self._assign(chosen, action, message.descriptors)
            return
        if kind == wire.SET_BOOL:
            wanted = message.body[wire.IRQ_SET.size :]
            if len(wanted) != count:
                raise refusal(f"{len(wanted)} booleans for {count} vectors")
            chosen = [source for source, yes in zip(chosen, wanted, strict=True) if yes]
        self._act(chosen, action)

    def _assign(self, chosen: list[Source], action: int, descriptors: list[int]) -> None:
        if action != wire.SET_TRIGGER:
            raise refusal("events of masking are not offered")
        if len(descriptors) not in (0, len(chosen)):
            raise refusal(f"{len(descriptors)} descriptors for {len(chosen)} vectors")
        if not all(_is_event(descriptor) for descriptor in descriptors):
            raise refusal("a descriptor that is no event")
        for source in chosen:
            self._forget(source)
        for source in chosen if descriptors else ():
            self._events[source] = descriptors.pop(0)

    def _act(self, chosen: list[Source], action: int) -> None:
        for source in chosen:
            if action == wire.SET_MASK:
                self._masked.add(source)
            elif action == wire.SET_UNMASK:
                self._masked.discard(source)
                if source in self._pending:
                    self._signal(source)
            else:
                self._signal(source)

    def message(self, vector: int) -> None:
        """The function writes an MSI; nothing happens where no event is set."""
        self._signal((wire.MSI, vector))

    def _signal(self, source: Source) -> None:
        if source in self._masked:
            self._pending.add(source)
            return
        self._pending.discard(source)
        event = self._events.get(source)
        if event is not None and _has_room(event):
            os.write(event, _ONE)
            self.sent += 1

    def clear(self) -> None:
        """No event is set any more."""
        for index in self.vectors:
            self._clear(index)

    def _clear(self, index: int) -> None:
        for source in [source for source in self._events if source[0] == index]:
            self._forget(source)
        for kept in (self._masked, self._pending):
            kept.difference_update([source for source in kept if source[0] == index])

    def _forget(self, source: Source) -> None:
        event = self._events.pop(source, None)
        if event is not None:
            os.close(event)


def _single(bits: int) -> bool:
    return bits != 0 and not bits & (bits - 1)


def _has_room(event: int) -> bool:
    """A full event would block its writer; it is signalled then anyway."""
    poll = select.poll()
    poll.register(event, select.POLLOUT)
    return bool(poll.poll(0))


def _is_event(descriptor: int) -> bool:
    """# src: linux fs/eventfd.c: the name of its anonymous inode"""
    return os.readlink(f"/proc/self/fd/{descriptor}") == "anon_inode:[eventfd]"
