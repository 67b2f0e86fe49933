"""Sentences about faults that every GPU has: where an address is, resets, signals that stay away.

The vendor's reporter knows its packets: which kernels ran, and what advice fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from drivers.base.errors import DeviceFault, DeviceTimeout
from drivers.gpu.blocks import Block
from drivers.gpu.incident import PageFault, Reset

NEAR_BYTES: Final = 16 << 20
"""How far past a buffer's end an address is still reported with the buffer."""
FRONT_BYTES: Final = 64 << 10
"""How far before one. Faults report a page: an access one byte before is a whole page off."""
RECOVERED: Final = "the queues were replaced and the device can be used; results are lost"

_INDICES: Final = "Check the kernel's indices and the buffers it is given"


def place(blocks: Iterable[Block], va: int) -> tuple[str, str]:
    """(buffer, where in it) of an address: in one, past its end, right before it, or nowhere.

    A page between two buffers is reported as past the first one's end: the usual mistake.
    """
    best: tuple[int, str, str] | None = None
    for block in blocks:
        name, off = f"buffer of {block.nbytes} bytes at {block.gpu_va:#x}", va - block.gpu_va
        if 0 <= off < block.nbytes:
            return name, f"in the {name}, offset {off:#x}"
        if 0 <= off - block.nbytes < NEAR_BYTES:
            found = off - block.nbytes, name, "behind"
        elif 0 < -off <= FRONT_BYTES:
            found = -off, name, "in front of"
        else:
            continue
        best = found if best is None else min(best, found, key=lambda one: (one[0], one[2]))
    if best is None:
        return "", "in no buffer of this device"
    distance, name, side = best
    return name, f"{distance:#x} bytes {side} the {name}"


def kernels_named(names: Sequence[str]) -> str:
    """The kernels that may have run, for a sentence."""
    return f"kernel {' or '.join(map(repr, names))}" if names else "no kernel"


def page_fault(
    page: PageFault, queue: str, blocks: Iterable[Block], names: Sequence[str], advice: str = ""
) -> DeviceFault:
    """The error for an access that the page tables do not allow, while `names` ran on `queue`.

    `advice`: what to do, where the address says more than that it is not the kernel's.
    """
    va, kind, access = page.gpu_va, page.kind, page.access
    buffer, where = place(blocks, va)
    late = ", reported late" if page.imprecise else ""
    by = f" by {page.client}" if page.client else ""
    return DeviceFault(
        f"{queue}: {kind} {access}{by} at {va:#x}, {where}{late}, while {kernels_named(names)} ran",
        kind=kind,
        gpu_va=va,
        buffer=buffer,
        kernel=names[0] if names else "",
        queue=queue,
        access=access,
        hint=f"{advice or _INDICES}; {RECOVERED}",
    )


def _running(queue: str, names: Sequence[str]) -> str:
    """What a queue had not finished; the report of the fault names no queue."""
    return f", while {kernels_named(names)} ran on {queue}" if names else ""


def was_reset(name: str, cause: str, reset: Reset, names: Sequence[str], queue: str) -> DeviceFault:
    """The error for a fault that caused a reset of the device called `name`, or of an engine."""
    lost = ", its memory is lost" if reset.memory_lost else ""
    return DeviceFault(
        f"{name}: {'the GPU' if reset.whole else 'an engine'} was reset ({cause}){lost}"
        f"{_running(queue, names)}",
        kind=cause,
        kernel=names[0] if names else "",
        queue=queue if names or not reset.whole else "",
        hint=f"See the kernel log (dmesg); {RECOVERED}",
    )


def uncorrectable(name: str, cause: str, names: Sequence[str], queue: str) -> DeviceFault:
    """The error for memory that lost bits, on the device called `name`."""
    return DeviceFault(
        f"{name}: uncorrectable error ({cause}){_running(queue, names)}",
        kind=cause,
        kernel=names[0] if names else "",
        queue=queue if names else "",
        hint=f"See the kernel log (dmesg) and load programs and data anew; {RECOVERED}",
    )


def unsignalled(name: str, last: int, value: int, timeout_s: float, *, busy: bool) -> DeviceTimeout:
    """The error for a signal that did not come; the queues continue their work."""
    return DeviceTimeout(
        f"a signal is at {last} after {timeout_s:g} s, not at {value}, "
        f"and {name} {'still has work' if busy else 'has no work left'}",
        register="signal",
        last=last,
        hint="wait again; nothing was lost" if busy else "submit the work that signals it",
    )
