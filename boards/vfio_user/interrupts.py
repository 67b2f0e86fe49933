"""MSI as event descriptors of the client."""

from __future__ import annotations

import os
import select
import struct

from boards.vfio_user import wire
from boards.vfio_user.wire import Message, refusal

MAX_VECTORS = 32
"""# src: PCI Local Bus Specification 3.0 6.8.1.3: MSI has at most 32"""
_ACTIONS = wire.SET_MASK | wire.SET_UNMASK | wire.SET_TRIGGER
_KINDS = wire.SET_NONE | wire.SET_BOOL | wire.SET_EVENTFD
_ONE = struct.pack("<Q", 1)


class Interrupts:
    """Which event each MSI vector signals, and whether it is masked."""

    def __init__(self, vectors: int) -> None:
        if not 0 <= vectors <= MAX_VECTORS:
            raise ValueError(f"{vectors} MSI vectors")
        self.vectors = vectors
        self.sent = 0
        """Messages that reached an event."""
        self._events: dict[int, int] = {}
        self._masked: set[int] = set()
        self._pending: set[int] = set()

    def __len__(self) -> int:
        return len(self._events)

    def info(self, index: int) -> bytes:
        """DEVICE_GET_IRQ_INFO. Raises: OSError EINVAL."""
        if not 0 <= index < wire.IRQS:
            raise refusal(f"no interrupt kind {index}")
        count = self.vectors if index == wire.MSI else 0
        flags = wire.IRQ_EVENTFD | wire.IRQ_NO_RESIZE if count else 0
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
            if index == wire.MSI:
                self.clear()
            return
        if index != wire.MSI or not count or start + count > self.vectors:
            raise refusal(f"vectors {start}+{count} of kind {index}")
        chosen = range(start, start + count)
        if kind == wire.SET_EVENTFD:
            self._assign(chosen, action, message.descriptors)
            return
        if kind == wire.SET_BOOL:
            wanted = message.body[wire.IRQ_SET.size :]
            if len(wanted) != count:
                raise refusal(f"{len(wanted)} booleans for {count} vectors")
            chosen_now = [vector for vector, yes in zip(chosen, wanted, strict=True) if yes]
        else:
            chosen_now = list(chosen)
        self._act(chosen_now, action)

    def _assign(self, chosen: range, action: int, descriptors: list[int]) -> None:
        if action != wire.SET_TRIGGER:
            raise refusal("events of masking are not offered")
        if len(descriptors) not in (0, len(chosen)):
            raise refusal(f"{len(descriptors)} descriptors for {len(chosen)} vectors")
        if not all(_is_event(descriptor) for descriptor in descriptors):
            raise refusal("a descriptor that is no event")
        for vector in chosen:
            self._forget(vector)
        for vector in chosen if descriptors else ():
            self._events[vector] = descriptors.pop(0)

    def _act(self, chosen: list[int], action: int) -> None:
        for vector in chosen:
            if action == wire.SET_MASK:
                self._masked.add(vector)
            elif action == wire.SET_UNMASK:
                self._masked.discard(vector)
                if vector in self._pending:
                    self.message(vector)
            else:
                self.message(vector)

    def message(self, vector: int) -> None:
        """The function writes an MSI; nothing happens where nobody listens."""
        if vector in self._masked:
            self._pending.add(vector)
            return
        self._pending.discard(vector)
        event = self._events.get(vector)
        if event is not None and _has_room(event):
            os.write(event, _ONE)
            self.sent += 1

    def clear(self) -> None:
        """Nobody listens any more."""
        for vector in list(self._events):
            self._forget(vector)
        self._masked.clear()
        self._pending.clear()

    def _forget(self, vector: int) -> None:
        event = self._events.pop(vector, None)
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
