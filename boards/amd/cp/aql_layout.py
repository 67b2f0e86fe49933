"""Structures of AQL queues, by byte offset.

src: hsa.h (packets, hsa_queue_t), hsa_ext_amd.h (barrier value), amd_hsa_queue.h (amd_queue_t),
amd_hsa_signal.h (amd_signal_t), amd_aql_queue.cpp ExecutePM4 (PM4 buffer packet).
"""

from __future__ import annotations

PACKET_BYTES = 64
VENDOR, INVALID, KERNEL_DISPATCH, BARRIER_AND, AGENT_DISPATCH, BARRIER_OR = range(6)
BARRIER_BIT, ACQUIRE_SHIFT, RELEASE_SHIFT = 8, 9, 11
SCOPE_NONE, SCOPE_AGENT, SCOPE_SYSTEM = range(3)
HEADER_RESERVED = 0xE000
FORMAT_PM4_IB, FORMAT_BARRIER_VALUE = 1, 2
PM4_IB_REMAINING_DW = 0xA
COMPLETION = 56

QUEUE_RING, QUEUE_PACKETS, QUEUE_READ_INDEX, QUEUE_READ_OFFSET = 8, 24, 128, 136
QUEUE_TMPRING, QUEUE_SCRATCH_BUFFER, QUEUE_SCRATCH_VA = 140, 144, 160
QUEUE_PROPERTIES, QUEUE_INACTIVE_SIGNAL, QUEUE_BYTES = 180, 192, 256
PROFILING = 1 << 3

SIGNAL_USER = 1
SIGNAL_VALUE, SIGNAL_MAILBOX, SIGNAL_EVENT, SIGNAL_START, SIGNAL_END = 8, 16, 24, 32, 40
SIGNAL_BYTES = 64

# src: amd_aql_queue.cpp DynamicQueueEventsHandler: what the processor stores in the signal
# queue_inactive_signal when it stops.
ERRORS = {
    "scratch 64": 1, "invalid dimensions": 2, "invalid LDS": 4, "invalid code": 8,
    "invalid packet": 32, "invalid group": 64, "invalid vendor packet": 256, "scratch 32": 0x400,
}  # fmt: skip
INVALID_PACKET = 32
