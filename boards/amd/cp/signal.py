"""HSA signals as the AQL packet processor reads and changes them."""

from __future__ import annotations

from boards.amd.cp import aql_layout as at
from boards.amd.cp.context import Context


def value(context: Context, handle: int) -> int:
    """The signal's signed 64-bit value. Raises: PacketFault, MemoryFault."""
    return int.from_bytes(_read(context, handle)[at.SIGNAL_VALUE :][:8], "little", signed=True)


def _read(context: Context, handle: int) -> bytes:
    context.aligned(handle, 64)
    signal = context.read(handle, at.SIGNAL_BYTES)
    if int.from_bytes(signal[:8], "little", signed=True) != at.SIGNAL_USER:
        raise context.fault("invalid packet", f"no user signal at {handle:#x}")
    return signal


def store(context: Context, handle: int, new: int, *, data: bool = True) -> None:
    """Set the value, then the event behind it. Raises: PacketFault, MemoryFault.

    `data`: who waits for it may read what waves stored.
    """
    signal = _read(context, handle)
    context.write_int(handle + at.SIGNAL_VALUE, new, 8)
    mailbox = int.from_bytes(signal[at.SIGNAL_MAILBOX :][:8], "little")
    event = int.from_bytes(signal[at.SIGNAL_EVENT :][:4], "little")
    if mailbox:
        context.write_int(context.aligned(mailbox, 8), event, 8)
        context.interrupt(event, data=data)


def complete(
    context: Context, handle: int, times: tuple[int, int] | None, *, data: bool = True
) -> None:
    """Count a completion signal down by one; 0 is no signal. Raises: PacketFault, MemoryFault."""
    if not handle:
        return
    now = value(context, handle)
    if times is not None:
        context.write_int(handle + at.SIGNAL_START, times[0], 8)
        context.write_int(handle + at.SIGNAL_END, times[1], 8)
    store(context, handle, now - 1, data=data)
