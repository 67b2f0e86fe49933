"""A toy PCI function and a small vfio-user client, each written from the protocol's page alone."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from boards.machine.pci.function import Bar
from boards.machine.pool import FilePool
from boards.vfio_user.link import Link
from boards.vfio_user.server import Server

HEADER = "<HHIII"
VRAM_BYTES, DOORBELL_BYTES, REGISTER_BYTES = 1 << 20, 1 << 16, 1 << 16
COPY_REGISTER = 0x100
"""A write of an address here copies 16 bytes of VRAM to it and sends MSI 0."""


class ToyConfig:
    """4096 bytes with a power-management and an MSI capability of four vectors."""

    def __init__(self) -> None:
        self.bytes = bytearray(4096)
        struct.pack_into("<HHHH", self.bytes, 0, 0x1002, 0x744C, 0, 0x10)
        self.bytes[0x34], self.bytes[0x3D] = 0x50, 1
        self.bytes[0x50:0x52] = bytes([1, 0x60])
        struct.pack_into("<BBH", self.bytes, 0x60, 5, 0, 2 << 1)

    def read(self, off: int, nbytes: int) -> bytes:
        return bytes(self.bytes[off : off + nbytes])

    def write(self, off: int, data: bytes) -> None:
        self.bytes[off : off + len(data)] = data


class Toy:
    """VRAM that is mapped, registers that remember, one register that masters the bus."""

    def __init__(self, bar_bytes: int = VRAM_BYTES) -> None:
        self.config = ToyConfig()
        self.vram = FilePool("toy VRAM", VRAM_BYTES)
        self.bars = {
            0: Bar(bar_bytes, self.vram, True, True),
            2: Bar(DOORBELL_BYTES, None, True, True),
            5: Bar(REGISTER_BYTES, None, False, False),
        }
        self.registers: dict[tuple[int, int], int] = {}
        self.bus: Any = None
        self.resets = 0
        self.lost = 0
        self.pending: list[int] = []

    def connect(self, bus: Any) -> None:
        self.bus = bus

    def read(self, bar: int, off: int, nbytes: int) -> int:
        return self.registers.get((bar, off), 0) & ((1 << 8 * nbytes) - 1)

    def write(self, bar: int, off: int, nbytes: int, value: int) -> None:
        self.registers[bar, off] = value
        if (bar, off) == (5, COPY_REGISTER):
            self.pending.append(value)

    def pump(self) -> bool:
        if not self.pending:
            return False
        address = self.pending.pop(0)
        found = self.bus.decode(address, 16, True)
        if found is None:
            self.lost += 1
        else:
            pool, off = found
            pool.bytes[off : off + 16] = self.vram.bytes[:16]
            self.bus.message(0)
        return True

    def reset(self) -> None:
        self.registers.clear()
        self.resets += 1


@dataclass
class Reply:
    """What came back."""

    error: int
    payload: bytes
    descriptors: list[int] = field(default_factory=list)


class Client:
    """One command at a time, or raw bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.settimeout(10)
        self._number = 0

    def send(self, command: int, body: bytes = b"", fds: Sequence[int] = (), flags: int = 0) -> int:
        self._number = (self._number + 1) & 0xFFFF
        head = struct.pack(HEADER, self._number, command, 16 + len(body), flags, 0)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([head + body], rights)
        return self._number

    def _exactly(self, nbytes: int, fds: list[int]) -> bytes:
        got = b""
        while len(got) < nbytes:
            part, beside, _, _ = self.socket.recvmsg(nbytes - len(got), 1024)
            for _, _, data in beside:
                fds += array.array("i", data).tolist()
            if not part:
                raise EOFError
            got += part
        return got

    def receive(self, number: int, command: int) -> Reply:
        fds: list[int] = []
        got, kind, size, flags, error = struct.unpack(HEADER, self._exactly(16, fds))
        payload = self._exactly(size - 16, fds)
        if (got, kind, flags & 0xF) != (number, command, 1) or bool(flags & 0x20) != bool(error):
            raise AssertionError(f"reply {got} {kind} {flags:#x} {error} to {number} {command}")
        return Reply(error, payload, fds)

    def ask(self, command: int, body: bytes = b"", fds: Sequence[int] = ()) -> Reply:
        return self.receive(self.send(command, body, fds), command)

    def hung_up(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:  # something that was sent was never read
            return True

    def hello(self) -> Reply:
        return self.ask(1, struct.pack("<HH", 0, 1) + b'{"capabilities":{"max_msg_fds":8}}\0')

    def read(self, region: int, off: int, nbytes: int) -> Reply:
        return self.ask(9, struct.pack("<QII", off, region, nbytes))

    def write(self, region: int, off: int, data: bytes) -> Reply:
        return self.ask(10, struct.pack("<QII", off, region, len(data)) + data)

    def map(self, address: int, nbytes: int, fd: int | None = None, **more: int) -> Reply:
        flags, offset = more.get("flags", 3), more.get("offset", 0)
        body = struct.pack("<IIQQQ", 32, flags, offset, address, nbytes)
        return self.ask(2, body, [] if fd is None else [fd])

    def unmap(self, address: int, nbytes: int, flags: int = 0) -> Reply:
        return self.ask(3, struct.pack("<IIQQ", 24, flags, address, nbytes))

    def set_irqs(self, flags: int, start: int, count: int, **more: Any) -> Reply:
        head = struct.pack("<IIIII", 20, flags, more.get("index", 1), start, count)
        return self.ask(8, head + more.get("data", b""), more.get("fds", ()))


def guest_memory(nbytes: int, *, sealed: bool = True) -> int:
    """A memory file as QEMU's memory-backend-memfd makes one.

    # src: qemu backends/hostmem-memfd.c: seals are on unless told otherwise
    """
    fd = os.memfd_create("guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, nbytes)
    if sealed:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


@dataclass
class Bench:
    """A served toy and its client."""

    toy: Toy
    server: Server
    client: Client
    ended: list[str] = field(default_factory=list)


@contextmanager
def served(toy: Toy | None = None, *, greet: bool = True) -> Iterator[Bench]:
    """A server in a thread of its own; the thread's error, if any, is the test's."""
    function: Any = toy or Toy()  # a toy has no clock and finds nothing
    server = Server(function)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    link = Link(theirs)
    ended: list[str] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(server.serve(link))
        except BaseException as error:
            failed.append(error)
        finally:
            link.close()

    thread = threading.Thread(target=run)
    thread.start()
    bench = Bench(function, server, Client(ours), ended)
    try:
        if greet:
            bench.client.hello()
        yield bench
    finally:
        ours.close()
        thread.join(20)
    if failed:
        raise failed[0]
    if thread.is_alive():
        raise AssertionError("the server did not end")
