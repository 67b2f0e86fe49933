"""A hardware queue as rings see it: its ring, the page with its pointers, its doorbell."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.iface import Memory, Plan
from drivers.base.contracts import Region
from drivers.base.errors import Unsupported, UseAfterFree, during
from drivers.base.undo import run_all

WRITE_OFF: Final = 56
"""amd_queue_t.write_dispatch_id in the page of the pointers. # src: ROCR inc/amd_hsa_queue.h"""
READ_OFF: Final = 128
"""amd_queue_t.read_dispatch_id."""
_WORD_BYTES: Final = 8
_ORDERED: Final = frozenset({"x86_64", "AMD64"})
"""What `platform.machine()` calls x86-64."""


def store64(region: Region, off: int, name: str = "doorbell") -> Callable[[int], None]:
    """A function that stores one 64-bit word, as fast as the region allows; errors name `name`.

    A value below the last one is dropped: a signal handler launched just before the store.
    """
    last = -1
    try:
        words = region.view().cast("Q")
    except Unsupported:  # registers that are not memory

        def write(value: int) -> None:
            nonlocal last
            if value > last:
                last = value
                with during(name):
                    region.write64(off, last)

        return write
    check_order(platform.machine())
    place = words[off // _WORD_BYTES : off // _WORD_BYTES + 1]

    def store(value: int) -> None:
        nonlocal last
        if value > last:
            place[0] = last = value

    return store


def check_order(machine: str) -> None:
    """Packets, write pointer and doorbell must be seen in the order in which they are stored.

    Raises: Unsupported for processors that promise no such order.
    # src: Intel SDM 3A, 9.2.2: stores to write-back memory, then to uncached memory, stay in order
    """
    if machine not in _ORDERED:
        raise Unsupported(
            f"doorbells on {machine}: stores may reach the GPU in another order",
            hint="use an x86-64 machine",
        )


class HwQueue:
    """A queue that the hardware reads. Its memory is freed with it.

    `parts` are its memory, the ring and the page first; `stop` destroys the queue.
    """

    def __init__(
        self,
        plan: Plan,
        parts: Sequence[Memory],
        queue_id: int,
        doorbell: Callable[[int], None],
        stop: Callable[[], object],
    ) -> None:
        self.plan, self.queue_id, self.doorbell, self._stop = plan, queue_id, doorbell, stop
        self._parts = list(parts)
        self.ring, self.page = parts[0], parts[1]
        self.ring_view = self.ring.view()[: plan.ring_bytes]
        self.page_view = self.page.view()
        pointers = self.page_view.cast("Q")
        self.write_pointer = pointers[WRITE_OFF // _WORD_BYTES : WRITE_OFF // _WORD_BYTES + 1]
        self.read_pointer = pointers[READ_OFF // _WORD_BYTES : READ_OFF // _WORD_BYTES + 1]

    def close(self) -> None:
        """Stop the queue, then free its memory. Raises: UseAfterFree the second time."""
        parts, self._parts = self._parts, []
        if not parts:
            raise UseAfterFree(f"{self.plan.name} was closed twice")
        self.doorbell = _closed
        empty = memoryview(bytearray(PAGE_BYTES))
        self.ring_view = self.page_view = empty
        self.write_pointer = self.read_pointer = empty[:_WORD_BYTES].cast("Q")
        run_all([self._stop, *(part.free for part in reversed(parts))])


def _closed(value: int) -> None:
    """The doorbell of a destroyed queue."""
    raise UseAfterFree(f"a closed queue was rung with {value}", hint="open the device again")
