"""Launches that stay in a graph's memory: QMD and constant bank 0 of each, and what starts them.

    0      methods of all steps
    256 n  QMD of the first launch, then its constant bank 0, each in whole lines
    ...

Since Ampere a QMD names the one that is scheduled when it is done: a run of launches is started by
its first QMD alone. Each launch writes its number to `step_va` when it is done.
# src: clc7c0qmd.h, clcbc0qmd.h, clcec0qmd.h; tinygrad ops_nv.py chains so, on silicon
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from queues.nv import words as nv_words
from queues.nv.classes import Subchannel
from queues.nv.constant_bank import bank_of
from queues.nv.launch import (
    LINE_BYTES,
    SIZES,
    Block,
    Kernel,
    build_bank,
    build_qmd,
    launch_methods,
)
from queues.nv.qmd import QMD_SHIFT, Qmd, QmdLayout, layout_of
from queues.nv.words import Target

MOST_CHAINED: Final = 1024
"""Launches of one run: a fault or a hang is looked for in no more of them."""
QMD_SCHEDULE: Final = 1
"""DEPENDENT_QMD0_ACTION."""
_ONE_WORD: Final = 1
"""RELEASE_STRUCTURE_SIZE_SEMAPHORE_ONE_WORD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLaunch:
    """A launch in a graph. `number`, from 1 on, counts launches."""

    kernel: Kernel
    block: Block
    grid: Block
    args: Sequence[int]
    number: int


def chains(target: Target) -> bool:
    """Whether a QMD of the chip can name the next one."""
    return layout_of(target.qmd).has("DEPENDENT_QMD0_POINTER")


def bank_off(target: Target) -> int:
    """Where constant bank 0 begins in the memory of a launch."""
    return _lines(layout_of(target.qmd).nbytes)


def nbytes_of(target: Target, launch: BoundLaunch) -> int:
    """Bytes of its QMD and its constant bank 0."""
    return bank_off(target) + len(build_bank(target, launch.kernel, launch.block))


def argument_off(target: Target, kernel: Kernel) -> int:
    """Where arguments begin in the memory of a launch."""
    return bank_off(target) + kernel.code.param_offset


def encode(
    target: Target, launch: BoundLaunch, *, va: int, step_va: int, following: int | None
) -> bytes:
    """QMD and constant bank 0 at `va`; `following` is the QMD that is scheduled afterwards."""
    kernel, at = launch.kernel, bank_off(target)
    qmd = build_qmd(target, kernel, launch.block)
    for name, blocks in zip(("GRID_WIDTH", "GRID_HEIGHT", "GRID_DEPTH"), launch.grid, strict=True):
        qmd.put(name, blocks)
    qmd.put_address("CONSTANT_BUFFER_ADDR", va + at, 0)
    if chains(target):
        _put_release(qmd, step_va, launch.number)
        if following is not None:
            _put_following(qmd, following)
    bank, layout = build_bank(target, kernel, launch.block), bank_of(target.sm)
    struct.pack_into("<3I", bank, layout.grid, *launch.grid)
    if layout.params_va is not None:
        struct.pack_into("<Q", bank, layout.params_va, va + argument_off(target, kernel))
    for (offset, nbytes), word in zip(kernel.args, launch.args, strict=True):
        place = kernel.code.param_offset + offset
        struct.pack_into(f"<{SIZES[nbytes]}", bank, place, word)
    head = struct.pack(f"<{len(qmd.words)}I", *qmd.words)
    return head.ljust(at, b"\0") + bytes(bank)


def _put_release(qmd: Qmd, va: int, number: int) -> None:
    """When the grid is done: its number, 32 bits."""
    layout = qmd.layout
    older = layout.has("RELEASE0_ADDRESS_LOWER")
    address = "RELEASE0_ADDRESS" if older else "RELEASE_SEMAPHORE0_ADDR"
    prefix = "RELEASE0" if older else "RELEASE"
    qmd.put(f"{prefix}_ENABLE", 1)
    qmd.put(f"{prefix}_STRUCTURE_SIZE", _ONE_WORD)
    qmd.put_address(address, va)
    qmd.put(_payload(layout), number)


def _payload(layout: QmdLayout) -> str:
    older = "RELEASE0_PAYLOAD_LOWER"
    return older if layout.has(older) else "RELEASE_SEMAPHORE0_PAYLOAD_LOWER"


def _put_following(qmd: Qmd, va: int) -> None:
    own = qmd.layout.has("DEPENDENT_QMD0_ENABLE")
    prefix = "DEPENDENT_QMD0" if own else "DEPENDENT_QMD"
    qmd.put("DEPENDENT_QMD0_POINTER", va >> QMD_SHIFT)
    qmd.put(f"{prefix}_ACTION", QMD_SCHEDULE)
    qmd.put(f"{prefix}_ENABLE", 1)


def following_of(target: Target, raw: bytes) -> tuple[int, int]:
    """(number, address of the QMD that it schedules; 0 for none) of an encoded QMD."""
    layout = layout_of(target.qmd)
    bits = int.from_bytes(raw, "little")

    def get(name: str) -> int:
        high, low, _ = layout.place(name)
        return bits >> low & (1 << high - low + 1) - 1

    if not chains(target):
        return 0, 0
    own = layout.has("DEPENDENT_QMD0_ENABLE")
    enabled = get("DEPENDENT_QMD0_ENABLE" if own else "DEPENDENT_QMD_ENABLE")
    return get(_payload(layout)), enabled * get("DEPENDENT_QMD0_POINTER") << QMD_SHIFT


Run: TypeAlias = "tuple[BoundLaunch, ...] | list[int]"
"""Launches that are started together, or words."""


def methods(target: Target, runs: Sequence[Run], places: Sequence[int], step_va: int) -> list[int]:
    """The push buffer of words and runs of launches, in order.

    `places[number - 1]` is the QMD of a launch. The position afterwards is the ring's to write.
    """
    channel = Subchannel.COMPUTE
    push = nv_words.release(target, channel, va=step_va, value=0, wait=False)
    if chains(target):  # memory of an earlier graph may have been here
        push += target.engine.send(channel, "INVALIDATE_SKED_CACHES", 0)
    for run in runs:
        push += run if isinstance(run, list) else _start(target, run, places, step_va)
    return push


def _start(
    target: Target, run: Sequence[BoundLaunch], places: Sequence[int], step_va: int
) -> list[int]:
    """Start a run of launches, and let what follows wait for its end."""
    if chains(target):
        first = launch_methods(target, places[run[0].number - 1])
        return [*first, *nv_words.wait_idle(target, Subchannel.COMPUTE)]
    push: list[int] = []
    for launch in run:
        push += launch_methods(target, places[launch.number - 1])
        push += nv_words.release(target, Subchannel.COMPUTE, va=step_va, value=launch.number)
    return push


def _lines(nbytes: int) -> int:
    return -(-nbytes // LINE_BYTES) * LINE_BYTES
