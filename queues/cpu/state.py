"""The block of memory that the CPU device shares with its command processor and workers.

Byte offsets; words that different threads write are in separate 64-byte lines.
"""

from __future__ import annotations

from typing import Final

STATE_BYTES: Final = 512

SCRATCH_BASE: Final = 0
"""Address of worker 0's scratch block (the submitting thread is worker 0)."""
SCRATCH_STRIDE: Final = 8
"""Bytes from one worker's scratch block to the next worker's."""
THREADS: Final = 16
"""Threads that take part in a kernel, the submitting thread included."""
SPINS: Final = 24
"""How often a worker polls for the next kernel before it sleeps."""

JOB_ENTRY: Final = 64
JOB_ARGS: Final = 72
JOB_GRID: Final = 80
JOB_CHUNK: Final = 88

NEXT_ITEM: Final = 128
"""First work item not taken yet; advanced with an atomic add."""

OPEN: Final = 192
"""1 while workers may join the kernel in JOB_*."""

ACTIVE: Final = 256
"""uint32: workers that have joined; the submitting thread sleeps on it."""
SUBMITTER_SLEEPS: Final = 264

GENERATION: Final = 320
"""uint32: grows with every kernel; idle workers sleep on it."""
SLEEPERS: Final = 328

STOP: Final = 384
"""1: workers return."""

TIMESPECS: Final = 448
"""64 bytes of time-outs for sleeping host threads."""
