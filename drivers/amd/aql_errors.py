"""queue_inactive_signal of an AQL queue: where the packet processor stores why it stopped.

Without a signal there the processor writes to address 0, and an error becomes a page fault.
# src: ROCR inc/amd_hsa_queue.h amd_queue_t, inc/amd_hsa_signal.h amd_signal_t;
# src: amd_aql_queue.cpp AqlQueue::DynamicQueueEventsHandler(): the codes
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

SIGNAL_OFF: Final = 512
"""Of the signal, in the page of the queue's pointers, after amd_queue_t; a multiple of 64."""
_HANDLE_OFF: Final = 192
"""amd_queue_t.queue_inactive_signal."""
_USER: Final = 1
"""AMD_SIGNAL_KIND_USER."""
_SIGNAL: Final = struct.Struct("=qqQI")
"""Kind, value, event_mailbox_ptr, event_id."""
_VALUE_OFF: Final = SIGNAL_OFF + 8
CODES: Final[Mapping[int, str]] = {
    0x001: "too little scratch",
    0x002: "invalid dimensions",
    0x004: "invalid size of local memory",
    0x008: "invalid code object",
    0x020: "bad packet",
    0x040: "workgroup too large",
    0x080: "too many vector registers",
    0x100: "bad packet",
    0x400: "too little scratch",
}


def arm(page: memoryview, page_va: int, mailbox_va: int, event_id: int) -> None:
    """Write the signal to the page of a queue before the hardware reads it."""
    _SIGNAL.pack_into(page, SIGNAL_OFF, _USER, 0, mailbox_va, event_id)
    struct.pack_into("=Q", page, _HANDLE_OFF, page_va + SIGNAL_OFF)


def take(page: memoryview) -> str:
    """Why the queue stopped; "" where it did not, or where that was reported already."""
    (code,) = struct.unpack_from("=q", page, _VALUE_OFF)
    if not code:
        return ""
    struct.pack_into("=q", page, _VALUE_OFF, 0)
    reasons = dict.fromkeys(text for bit, text in CODES.items() if code & bit)
    return " and ".join(reasons) or f"AQL error {code & (1 << 64) - 1:#x}"
