"""A board's PCI function behind tinygrad's REMOTE protocol, for one client at a time.

Where the machine's firmware has put the BARs, and that memory decoding is on, is this server's:
writing 1 to sysfs `enable` does that in front of a local device.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable

from boards.access_log import AccessLog, Spin
from boards.amd.pci.gpu import DOORBELL_BAR, REGISTER_BAR, VRAM_BAR, PciGpu
from tests.witness.tinygrad_bus import Bus
from tests.witness.tinygrad_wire import ClientGone, Command, Request, receive, refuse, reply

# src: include/uapi/linux/pci_regs.h PCI_COMMAND, PCI_BASE_ADDRESS_0; Resizable BAR Control as in
# boards/machine/pci/config_space.py
_COMMAND, _MEMORY, _BAR0, _REBAR_CONTROL = 0x04, 0x2, 0x10, 0x208
_BASES = {VRAM_BAR: 0x80_0000_0000, DOORBELL_BAR: 0x90_0000_0000, REGISTER_BAR: 0xFC80_0000}
_PAUSE_S = 0.002
"""How often the board goes on by itself while the client asks for nothing."""
_WORD_BYTES, _MIB_LOG2 = 4, 20
BOOTED = "booted"
"""The mark in a trace."""
_NAME = b"0000:03:00.0:0"
"""Address and number of the one device."""


class Server:
    """One function. `scattered`: no two pages of system memory are neighbours."""

    def __init__(self, gpu: PciGpu, *, scattered: bool = False) -> None:
        self.gpu, self._scattered = gpu, scattered
        self.log, self.bus = AccessLog(gpu.chip.name), Bus()
        self.counts: Counter[str] = Counter()
        """Of the last client, by kind of request."""
        self._place_bars()
        self._handlers: dict[int, Callable[[socket.socket, Request], None]] = {
            Command.PROBE: self._probe,
            Command.MAP_BAR: self._map_bar,
            Command.CFG_READ: self._config_read,
            Command.CFG_WRITE: self._config_write,
            Command.RESET: self._reset,
            Command.MMIO_READ: self._mmio_read,
            Command.MMIO_WRITE: self._mmio_write,
            Command.MAP_SYSMEM: self._map_sysmem,
            Command.SYSMEM_READ: self._sysmem_read,
            Command.SYSMEM_WRITE: self._sysmem_write,
            Command.RESIZE_BAR: self._resize_bar,
            Command.PING: self._ping,
        }

    def _place_bars(self) -> None:
        config = self.gpu.config
        for bar, base in _BASES.items():
            nbytes = 8 if self.gpu.bars[bar].wide else 4
            config.write(_BAR0 + 4 * bar, base.to_bytes(nbytes, "little"))
        config.write(_COMMAND, _MEMORY.to_bytes(2, "little"))

    def serve(self, connection: socket.socket, log: AccessLog, limit_s: float) -> None:
        """Answer until the client leaves. `log` hears of registers, and of memory that is polled.

        System memory of an earlier client is gone.
        Raises: Spin when it waits for what does not come; TimeoutError.
        """
        self.log, self.bus = log, Bus(scattered=self._scattered)
        self.gpu.connect(self.bus)
        self.counts.clear()
        deadline = time.monotonic() + limit_s
        try:
            while time.monotonic() < deadline:
                if select.select([connection], [], [], _PAUSE_S)[0]:
                    self._answer(connection, receive(connection))
                else:
                    self._go_on()
            raise TimeoutError(f"the client is at work for more than {limit_s:.0f} s")
        except (ClientGone, ConnectionResetError):
            self._go_on()

    def _go_on(self) -> None:
        if self.gpu.pump():
            self.log.moved()

    def _answer(self, connection: socket.socket, request: Request) -> None:
        self.gpu.board.delays.run()
        handler = self._handlers.get(request.command)
        name = Command(request.command).name if handler else f"command {request.command}"
        if request.command in (Command.MMIO_READ, Command.MMIO_WRITE):
            name += f" of BAR {request.place}"
        self.counts[name] += 1
        if handler is None:
            refuse(connection, f"this server does not know {name}")
            return
        handler(connection, request)
        if self.log.spinning:
            raise Spin(self.log.spinning)

    def _ping(self, connection: socket.socket, request: Request) -> None:
        """The script around tinygrad sends one when the device is open."""
        self.log.mark(BOOTED)
        reply(connection)

    # The function's header

    def _probe(self, connection: socket.socket, request: Request) -> None:
        wanted = struct.iter_unpack("<II", request.data)
        vendor, device = struct.unpack("<HH", self.gpu.config.read(0, 4))
        fits = vendor == request.arguments[2] and any(device & mask == one for mask, one in wanted)
        if not fits:
            refuse(connection, f"the board is {vendor:04x}:{device:04x}, which is not asked for")
            return
        reply(connection, len(_NAME), 1, _NAME)

    def _map_bar(self, connection: socket.socket, request: Request) -> None:
        reply(connection, _BASES[request.place], self.gpu.bars[request.place].nbytes)

    def _config_read(self, connection: socket.socket, request: Request) -> None:
        off, nbytes, _ = request.arguments
        reply(connection, int.from_bytes(self.gpu.config.read(off, nbytes), "little"))

    def _config_write(self, connection: socket.socket, request: Request) -> None:
        off, nbytes, value = request.arguments
        self.gpu.config.write(off, value.to_bytes(nbytes, "little"))
        self.log.moved()
        reply(connection)

    def _reset(self, connection: socket.socket, request: Request) -> None:
        self.gpu.reset()
        self._place_bars()
        self.log.moved()
        reply(connection)

    def _resize_bar(self, connection: socket.socket, request: Request) -> None:
        largest = (self.gpu.board.vram.nbytes - 1).bit_length()
        control = 1 << 5 | (largest - _MIB_LOG2) << 8
        self.gpu.config.write(_REBAR_CONTROL, control.to_bytes(4, "little"))
        reply(connection)

    # Its BARs

    def _mmio_read(self, connection: socket.socket, request: Request) -> None:
        off, nbytes, _ = request.arguments
        data = self._read(request.place, off, nbytes)
        reply(connection, len(data), 0, data)

    def _read(self, bar: int, off: int, nbytes: int) -> bytes:
        if bar == VRAM_BAR:
            self._go_on()
            data = self.gpu.board.host_read(off, nbytes)
            self.log.polled(f"VRAM {off:#x}", data)
            return data
        step = _WORD_BYTES if bar == REGISTER_BAR else nbytes
        pieces = (self.gpu.read(bar, off + at, step) for at in range(0, nbytes, step))
        return b"".join(piece.to_bytes(step, "little") for piece in pieces)

    def _mmio_write(self, connection: socket.socket, request: Request) -> None:
        bar, off, data = request.place, request.arguments[0], request.data
        if bar == VRAM_BAR:
            self.gpu.board.host_write(off, data)
            self.log.moved()
            return
        step = _WORD_BYTES if bar == REGISTER_BAR else len(data)
        for at in range(0, len(data), step):
            piece = int.from_bytes(data[at : at + step], "little")
            self.gpu.write(bar, off + at, step, piece)
        self._go_on()
        self.log.moved()

    # Memory of the machine

    def _map_sysmem(self, connection: socket.socket, request: Request) -> None:
        handle, addresses = self.bus.allocate(request.arguments[0])
        data = struct.pack(f"<{len(addresses)}Q", *addresses)
        reply(connection, len(data), handle, data)

    def _sysmem_read(self, connection: socket.socket, request: Request) -> None:
        off, nbytes, _ = request.arguments
        self._go_on()
        data = bytes(self.bus.bytes_of(request.place, off, nbytes))
        self.log.polled(f"system memory {request.place}+{off:#x}", data)
        reply(connection, nbytes, 0, data)

    def _sysmem_write(self, connection: socket.socket, request: Request) -> None:
        view = self.bus.bytes_of(request.place, request.arguments[0], len(request.data))
        view[:] = request.data
        self._go_on()
        self.log.moved()
