"""A hardware queue as rings see it: its ring, the page with its pointers, its doorbell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.iface import Plan
from drivers.base.errors import UseAfterFree
from drivers.base.undo import run_all
from drivers.gpu.iface import Memory

WRITE_OFF: Final = 56
"""amd_queue_t.write_dispatch_id in the page of the pointers. # src: ROCR inc/amd_hsa_queue.h"""
READ_OFF: Final = 128
"""amd_queue_t.read_dispatch_id."""
_WORD_BYTES: Final = 8


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
        settle: Callable[[], object] = bool,
    ) -> None:
        """`settle`: does what an interrupted doorbell has left; see `Ring.settle`."""
        self.plan, self.queue_id, self.doorbell, self._stop = plan, queue_id, doorbell, stop
        self.settle, self._parts = settle, list(parts)
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
