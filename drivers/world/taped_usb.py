"""A USB device whose transfers are operations of a tape.

An operation has the requests' fields and lengths. What goes out is `wrote`, compared like memory
that the driver writes; what comes in is the result of the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from drivers.base.errors import MalformedInput
from drivers.base.usb import Batch, Transfer, Usb, parts
from drivers.world.recording import USB_MEMORY, Change, unhex, wrote


class Tape(Protocol):
    """The part of a tape that is needed."""

    @property
    def where(self) -> str: ...

    def run(
        self, op: str, args: list[Any], call: Callable[[], Any], *, sent: tuple[Change, ...] = ()
    ) -> Any: ...


_Behind = Callable[[], Usb]


class TapedBatch:
    """Transfers under way."""

    def __init__(
        self, tape: Tape, number: int, transfers: Sequence[Transfer], made: Callable[[], Batch]
    ) -> None:
        self._tape, self._number, self._transfers, self._made = tape, number, transfers, made

    def wait(self, timeout_s: float) -> list[bytes]:
        """See `Batch.wait`."""

        def call() -> list[str]:
            return [data.hex() for data in self._made().wait(timeout_s)]

        given = self._tape.run("usb_wait", [self._number], call)
        found = [unhex(text) for text in given]
        if len(found) != len(self._transfers):
            raise MalformedInput(
                f"{self._tape.where}: {len(found)} results of {len(self._transfers)} transfers"
            )
        return found

    def cancel(self) -> None:
        """See `Batch.cancel`."""
        self._tape.run("usb_cancel", [self._number], lambda: self._made().cancel())


class TapedUsb:
    """An opened device. `behind` gives the machine's; it raises in a replay."""

    def __init__(self, tape: Tape, number: int, name: str, product: str, behind: _Behind) -> None:
        self.name, self.product, self.serial = name, product, ""
        self._tape, self._number, self._behind = tape, number, behind
        self._batches = self._sent = 0

    def start(self, transfers: Sequence[Transfer]) -> TapedBatch:
        """See `Usb.start`."""
        made: list[Batch] = []
        number = self._batches
        self._batches += 1
        sent = tuple(
            wrote(USB_MEMORY + self._number, self._sent + at, bytes(one.data))
            for at, one in enumerate(transfers)
            if one.data
        )
        self._sent += len(transfers)
        args = [self._number, number, [_shown(one) for one in transfers]]
        self._tape.run(
            "usb_start", args, lambda: made.append(self._behind().start(transfers)), sent=sent
        )
        return TapedBatch(self._tape, number, transfers, lambda: made[0])

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        """See `Usb.run`."""
        results: list[bytes] = []
        for part in parts(transfers):
            results += self.start(part).wait(timeout_s)
        return results

    def close(self) -> None:
        """See `Usb.close`."""
        self._tape.run("usb_close", [self._number], lambda: self._behind().close())


def _shown(one: Transfer) -> list[int]:
    """endpoint, bytes in, bytes out, bmRequestType, bRequest, wValue, wIndex."""
    head = (one.request_type, one.request, one.value, one.index)
    return [one.endpoint, one.nbytes, len(one.data), *head]
