"""Runs in tinygrad's environment: stock tinygrad in front of a board of the bridge, in one process.

python tests/witness/tinygrad_usb_client.py FIRMWARE CHIP

Two patches: `tinygrad.helpers.fetch_fw` gives the board's own synthetic firmware, and `USB3`, the
class that calls libusb, is one whose transfers go to the board's cable. What is above them is the
wheel's. Each phase is a line of JSON: how often the host waited, transfers, seconds by the cable's
clock.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
import traceback
from collections.abc import Callable

import numpy as np
import tinygrad.helpers
import tinygrad.runtime.support.usb as peer

from boards.amd.usb_machine import open_usb_board
from drivers.base.usb import Transfer

FIRMWARE, CHIP = pathlib.Path(sys.argv[1]), sys.argv[2]
MIB16 = 16 << 20
WARM = 4
VRAM_BYTES = 1 << 30
OUT, IN, TIMEOUT_S = 0x40, 0xC0, 30.0
PLACE = sys.argv[3]
"""With "usb:" in front, its security processor is given the SRAM for firmware; else VRAM."""
BOARD = open_usb_board(CHIP, vram_bytes=VRAM_BYTES)
CABLE = BOARD.machine.cables[0]


class USB3:
    """The methods of tinygrad's class of this name."""

    def __init__(self, *place: object) -> None:
        CABLE.claim()
        self.product = CABLE.product
        self._tags = itertools.count(1)
        self._under_way: dict[int, tuple[object, bytearray | None]] = {}

    @classmethod
    def list_devices(cls, vendor: int, device: int) -> list[tuple[object, str]]:
        about = CABLE.function.descriptors
        return [("board", PLACE)] if (vendor, device) == (about.vendor, about.product) else []

    def control_write(
        self, request: int, value: int = 0, index: int = 0, data: bytes = b"", timeout: int = 0
    ) -> None:
        CABLE.run([Transfer.tell("", OUT, request, value, index, bytes(data))], TIMEOUT_S)

    def control_read(
        self, request: int, length: int, value: int = 0, index: int = 0, timeout: int = 0
    ) -> memoryview:
        asked = Transfer.ask("", IN, request, value, index, length)
        return memoryview(CABLE.run([asked], TIMEOUT_S)[0])

    def bulk_write(self, payload: bytes, timeout: int = 0) -> None:
        CABLE.run([Transfer.bulk_out("", 0x02, bytes(payload))], TIMEOUT_S)

    def bulk_read(self, length: int, timeout: int = 0) -> memoryview:
        return memoryview(CABLE.run([Transfer.bulk_in("", 0x81, length)], TIMEOUT_S)[0])

    def _start(self, transfer: Transfer, into: bytearray | None = None) -> int:
        tag = next(self._tags)
        self._under_way[tag] = CABLE.start([transfer]), into
        return tag

    def bulk_write_async(self, payload: memoryview, timeout: int = 0) -> int:
        return self._start(Transfer.bulk_out("", 0x02, bytes(payload)))

    def control_write_async(
        self, request: int, value: int = 0, index: int = 0, data: bytes = b"", timeout: int = 0
    ) -> int:
        return self._start(Transfer.tell("", OUT, request, value, index, bytes(data)))

    def control_read_async(
        self, request: int, length: int, value: int = 0, index: int = 0, timeout: int = 0
    ) -> tuple[int, memoryview]:
        into = bytearray(length)
        tag = self._start(Transfer.ask("", IN, request, value, index, length), into)
        return tag, memoryview(into)

    def bulk_wait(self, tag: int) -> None:
        found = self._under_way.pop(tag, None)
        if found is not None:
            batch, into = found
            (came,) = batch.wait(TIMEOUT_S)
            if into is not None:
                into[:] = came


def fetch_fw(path: str, name: str, sha256: str) -> bytes:
    """What the board's security processor takes."""
    return (FIRMWARE / name).read_bytes()


def told() -> None:
    """What the board objects to."""
    for violation in BOARD.violations:
        said = [violation.kind, violation.what, violation.detail]
        print(json.dumps({"violation": said}), flush=True)


def phase(name: str, run: Callable[[], object]) -> object:
    """One line: what it cost, or why it failed."""
    before = CABLE.trips, CABLE.transfers, CABLE.now_s
    facts: dict[str, object] = {"phase": name}
    result = None
    try:
        result = run()
    except Exception as error:
        traceback.print_exc()
        facts["wrong"] = f"{type(error).__name__}: {error}"
    facts |= {
        "trips": CABLE.trips - before[0], "transfers": CABLE.transfers - before[1],
        "seconds": CABLE.now_s - before[2], "violations": len(BOARD.violations),
    }  # fmt: skip
    print(json.dumps(facts), flush=True)
    if "wrong" in facts:
        told()
        raise SystemExit(1)
    return result


def equal(found: object, wanted: object, what: str) -> None:
    if not np.array_equal(found, wanted):
        raise ValueError(f"{what} is wrong")


def main() -> None:
    """Open, a launch, the wait for it, a copy each way."""
    tinygrad.helpers.fetch_fw = fetch_fw
    peer.USB3 = USB3
    import tinygrad.runtime.support.system as system

    system.USB3 = USB3
    from tinygrad import Tensor, TinyJit
    from tinygrad.device import BufferSpec

    device = phase("open", lambda: tinygrad.Device["AMD"])
    a, b = (Tensor(np.arange(64, dtype=np.float32), device="CPU").to("AMD").realize()
            for _ in range(2))  # fmt: skip
    add = TinyJit(lambda x, y: (x + y).realize())
    for _ in range(WARM):  # compiled and loaded; memory is there
        equal(add(a, b).numpy(), 2 * np.arange(64), "the first sum")
    device.synchronize()
    total = phase("launch", lambda: add(a, b))
    phase("wait", device.synchronize)
    equal(total.numpy(), 2 * np.arange(64), "the sum")
    data = np.random.default_rng(1).integers(0, 256, MIB16, np.uint8)
    buffer, back = device.allocator.alloc(MIB16, BufferSpec()), np.zeros_like(data)
    copies = device.allocator
    copies._copyin(buffer, memoryview(data))  # the first one sets its windows up
    phase("copy in", lambda: copies._copyin(buffer, memoryview(data)))
    phase("copy out", lambda: copies._copyout(memoryview(back), buffer))
    equal(back, data, "what came back")
    told()


main()
