"""The bridge's SRAM: transfers of it that are under way while others are asked for.

The firmware's request 0xF2 only writes registers of the bridge: the slots, the sectors, a start
bit. That the next transfer may be asked for while the data of the last one is on its way is not in
its source; the peer relies on it into the card. # src: tinygrad 0.14.0, runtime/ops_amd.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from drivers.base.errors import BadArgument
from drivers.base.usb import Batch, Transfer
from drivers.usb.asm24 import wire
from drivers.usb.asm24.outbox import Outbox
from drivers.usb.asm24.wire import Request


@dataclass(frozen=True, slots=True)
class Under:
    """Transfers under way."""

    batch: Batch
    transfers: Sequence[Transfer]


class SramPort:
    """While one is used nothing else is sent to the bridge: its bulk endpoints have one queue."""

    def __init__(self, box: Outbox) -> None:
        self._box = box
        self._under: list[Under] = []
        """What was started and not waited for."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Send what is queued, then keep everything else out; at the end, nothing is under way.

        A signal handler that writes to the card is sent later; one that waits for it gets Busy.
        """
        with self._box.lock:
            self._box.flush()
            self._box.held = True
            try:
                with self._box.spoiling():
                    yield
            finally:
                self._box.held = False
                under, self._under = self._under, []
                for one in under:
                    one.batch.cancel()
            self._box.send()

    def start(self, transfers: Sequence[Transfer]) -> Under:
        """They are under way."""
        under = Under(self._box.begin(transfers), transfers)
        self._under.append(under)
        return under

    def finish(self, under: Under) -> list[bytes]:
        """Wait for their end. Raises: what they meet."""
        self._under.remove(under)
        return self._box.finish(under.batch, under.transfers)

    def ask(self, transfers: Sequence[Transfer]) -> list[bytes]:
        """Start them and wait for their end: one round trip."""
        return self.finish(self.start(transfers))


def arm(slot: int, nbytes: int, *, into_host: bool) -> Transfer:
    """The request for a transfer; one into the host starts when the card writes the trigger."""
    slots, sectors = slots_of(slot, nbytes)
    what = f"arm SRAM slot {slot} for {nbytes} bytes"
    value = sectors | (wire.SRAM_TO_HOST if into_host else 0)
    return Transfer.tell(what, wire.VENDOR_OUT, Request.SRAM, value, slot | slots << 8)


def send(data: bytes | memoryview) -> Transfer:
    """The data of a transfer that was asked for."""
    return Transfer.bulk_out(f"write {len(data)} bytes to SRAM", wire.BULK_OUT, data)


def receive(nbytes: int) -> Transfer:
    """The same into the host; a part of it where more follows."""
    return Transfer.bulk_in(f"read {nbytes} bytes of SRAM", wire.BULK_IN, nbytes)


def read_byte(address: int) -> Transfer:
    """A byte of the microcontroller's memory."""
    asked = (wire.VENDOR_IN, Request.READ_XDATA, address, 0, 1)
    return Transfer.ask(f"read XDATA {address:#06x}", *asked)


def write_byte(address: int, value: int) -> Transfer:
    """The same, written."""
    what = f"write XDATA {address:#06x}"
    return Transfer.tell(what, wire.VENDOR_OUT, Request.WRITE_XDATA, address, value)


def slots_of(slot: int, nbytes: int) -> tuple[int, int]:
    """Slots and sectors of a transfer. Raises: BadArgument."""
    slots = -(-nbytes // wire.SLOT_BYTES)
    within = slot >= 0 and nbytes > 0 and (slot + slots) * wire.SLOT_BYTES <= wire.SRAM_BYTES
    if not within or nbytes % wire.SECTOR_BYTES:
        raise BadArgument(
            f"{nbytes} bytes from slot {slot} on",
            hint=f"whole sectors of {wire.SECTOR_BYTES} bytes within the "
            f"{wire.SRAM_BYTES // wire.SLOT_BYTES} slots of {wire.SLOT_BYTES >> 10} KiB",
        )
    return slots, nbytes // wire.SECTOR_BYTES
