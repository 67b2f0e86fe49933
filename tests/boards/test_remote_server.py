"""The server in front of tinygrad: what a client reads and writes is the board's."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from boards.access_log import AccessLog, Spin
from boards.amd.hardware import Hardware, Options
from boards.amd.pci.gpu import PciGpu, open_function
from boards.amd.pci.watched import watch
from tests.support import check
from tests.witness.tinygrad_server import Server

VRAM_MIB = 512
MEMSIZE_OFF = 0xDE3 * 4
"""src: amdgpu_discovery.c mmRCC_CONFIG_MEMSIZE, a dword of BAR5; the value is in MiB"""
# src: tinygrad 0.14.0 system.py: RemoteCmd, and '<BIIQQQ' and '<BQQ' of _rpc()
PROBE, MAP_BAR, CFG_READ, CFG_WRITE, RESET, MMIO_READ, MMIO_WRITE = 0, 1, 3, 4, 5, 6, 7
MAP_SYSMEM, SYSMEM_READ, SYSMEM_WRITE, RESIZE_BAR, PING = 8, 9, 10, 11, 12
LIMIT_S = 60.0


class Client:
    """The protocol as tinygrad speaks it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def send(self, command: int, *arguments: int, bar: int = 0, data: bytes = b"") -> None:
        three = (*arguments, 0, 0, 0)[:3]
        self.connection.sendall(struct.pack("<BIIQQQ", command, 0, bar, *three) + data)

    def ask(
        self, command: int, *arguments: int, bar: int = 0, data: bytes = b"", size: int = 0
    ) -> tuple[int, int, int, bytes]:
        self.send(command, *arguments, bar=bar, data=data)
        status, first, second = struct.unpack("<BQQ", self.exactly(17))
        return status, first, second, self.exactly(size if not status else first)

    def exactly(self, nbytes: int) -> bytes:
        got = b""
        while len(got) < nbytes:
            part = self.connection.recv(nbytes - len(got))
            check(part, "the server has gone")
            got += part
        return got


class Served:
    """A board, a client of it, and how the server ended."""

    def __init__(self, spin_reads: int = 1000) -> None:
        self.gpu: PciGpu = open_function(
            Hardware([], Options()), "gfx1100", vram_bytes=VRAM_MIB << 20
        )
        self.log = AccessLog("gfx1100", spin_reads=spin_reads)
        watch(self.gpu, self.log)
        ours, theirs = socket.socketpair()
        ours.settimeout(LIMIT_S)
        self.client, self.server = Client(ours), Server(self.gpu, scattered=True)
        self.ended: list[Exception | None] = []
        self._thread = threading.Thread(target=self._serve, args=(theirs,))
        self._thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self.server.serve(connection, self.log, LIMIT_S)
        except (Spin, TimeoutError) as error:
            self.ended.append(error)
        else:
            self.ended.append(None)

    def close(self) -> Exception | None:
        self.client.connection.close()
        self._thread.join()
        return self.ended[0]


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    check(made.close() is None, "the server ended by itself")


def test_a_probe_finds_the_gpu_and_no_other(served: Served) -> None:
    wanted = struct.pack("<4I", 0xFFFF, 0x744C, 0xFFFF, 0x7550)
    status, nbytes, count, name = served.client.ask(
        PROBE, 0, len(wanted), 0x1002, data=wanted, size=14
    )
    check((status, nbytes, count, name) == (0, 14, 1, b"0000:03:00.0:0"), name)
    other = struct.pack("<2I", 0xFFFF, 0x7550)
    status, _, _, why = served.client.ask(PROBE, 0, len(other), 0x1002, data=other)
    check(status == 1 and b"1002:744c" in why, why)


def test_registers_config_space_and_vram_are_the_boards(served: Served) -> None:
    ask = served.client.ask
    memsize = ask(MMIO_READ, MEMSIZE_OFF, 4, bar=5, size=4)[3]
    check(memsize == struct.pack("<I", VRAM_MIB), memsize)
    check(ask(CFG_READ, 0, 4)[1] == 0x744C_1002, "vendor and device")
    ask(CFG_WRITE, 4, 2, 0x6)
    check(ask(CFG_READ, 4, 2)[1] & 0x6 == 0x6, "memory and bus mastering are on")
    served.client.send(MMIO_WRITE, 0x1000, 5, bar=0, data=b"hello")
    check(ask(MMIO_READ, 0x1000, 5, bar=0, size=5)[3] == b"hello", "VRAM")
    check(served.gpu.board.vram.bytes[0x1000:0x1005].tobytes() == b"hello", "in the board, too")
    check(ask(MAP_BAR, bar=0)[2] == VRAM_MIB << 20, "a large BAR")
    check(ask(99)[0] == 1, "an unknown command is refused")


def test_system_memory_is_what_the_gpu_reaches_by_bus_address(served: Served) -> None:
    status, nbytes, handle, pages = served.client.ask(MAP_SYSMEM, 3 * 4096, size=24)
    addresses = struct.unpack("<3Q", pages)
    check((status, nbytes) == (0, 24), "three pages")
    data = bytes(range(256)) * 48
    served.client.send(SYSMEM_WRITE, 0, len(data), bar=handle, data=data)
    read = served.client.ask(SYSMEM_READ, 4096, 16, bar=handle, size=16)[3]
    check(read == data[4096:4112], "read back")
    for number, address in enumerate(addresses):
        pool, off = served.server.bus.decode(address + 8, 4, False) or (None, 0)
        found = pool.bytes[off : off + 4].tobytes() if pool else b""
        check(found == data[4096 * number + 8 : 4096 * number + 12], f"page {number}")
    last, first = min(addresses), max(addresses)
    check(addresses[0] == first, "scattered: the first page has the highest address")
    check(served.server.bus.decode(last + 4090, 16, False) is None, "pages that do not follow")
    check(served.server.bus.decode(first + 4096, 4, False) is None, "nobody's address")


def test_a_client_that_waits_in_vain_is_named_with_its_register() -> None:
    served = Served(spin_reads=50)
    off = 4 * served.gpu.board.block("MP0").address_dw("MP0_SMN_C2PMSG_81")
    try:
        for _ in range(52):
            served.client.send(MMIO_READ, off, 4, bar=5)
    except BrokenPipeError:
        pass
    served._thread.join()
    ended = served.close()
    check(isinstance(ended, Spin), f"{ended}")
    check("MP0[0].MP0_SMN_C2PMSG_81 = 0x0" in str(ended), f"{ended}")
