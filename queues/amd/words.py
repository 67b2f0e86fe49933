"""Steps of a compute queue other than launches, as PM4 words: wait, signal, time, barrier."""

from __future__ import annotations

from typing import Final

from queues.amd import pm4
from queues.amd.pm4 import DataSel, IntSel
from queues.amd.pm4_launch import Target

FIRST_XCC: Final = 1
LATE_STAMPS: Final = frozenset({"gfx9"})
"""Families where a RELEASE_MEM's clock may reach memory after what a later one writes.

# src: tinygrad ops_amd.py AMDComputeQueue.timestamp(): acquire_mem(), "ensure timestamp is written"
"""
TIME_OFF: Final = 8
"""Offset of a signal's time from its value."""


def once(target: Target, words: list[int]) -> list[int]:
    """Packets that only the first XCC runs, for all. Works only in indirect buffers."""
    if target.xccs == 1:
        return words
    select = pm4.pred_exec(target.flavour, virtual_xcc_id_select=FIRST_XCC, exec_count=len(words))
    return [*select, *words]


def acquire(target: Target) -> list[int]:
    """Invalidate caches to see all writes of others, also to code."""
    return pm4.acquire_mem(target.flavour, caches=target.flavour.acquire_all)


def wait(target: Target, *, va: int, value: int) -> list[int]:
    """Stop until the signal has reached `value`; then see what was written before it."""
    return [*pm4.wait_mem(addr=va, reference=value), *acquire(target)]


def barrier(target: Target) -> list[int]:
    """Finish everything before, visible to everything after."""
    return [*pm4.event_write(), *acquire(target)]


def timestamp(target: Target, *, va: int) -> list[int]:
    """Write the clock to the signal's time when everything before is done."""
    return once(
        target,
        pm4.release_mem(
            target.flavour, addr=va + TIME_OFF, data_sel=DataSel.SEND_GPU_CLOCK_COUNTER
        ),
    )


def notify(target: Target, *, mailbox_va: int, event_id: int) -> list[int]:
    """Interrupt the host when everything before is done."""
    return pm4.release_mem(
        target.flavour,
        addr=mailbox_va,
        data=event_id,
        data_sel=DataSel.SEND_32_BIT_LOW,
        int_sel=IntSel.SEND_INTERRUPT_AFTER_WRITE_CONFIRM,
        int_ctxid=event_id,
    )


def signal(target: Target, *, va: int, value: int, mailbox_va: int, event_id: int) -> list[int]:
    """When everything before is done and visible: time and value of the signal, an interrupt.

    A reader that sees the value sees the time, too.
    """
    done = pm4.release_mem(
        target.flavour,
        addr=va,
        data=value,
        data_sel=DataSel.SEND_64_BIT_DATA,
        caches=target.flavour.release_all,
    )
    ring = notify(target, mailbox_va=mailbox_va, event_id=event_id)
    settled = acquire(target) if target.flavour.name in LATE_STAMPS else []
    return [*timestamp(target, va=va), *settled, *once(target, done), *once(target, ring)]
