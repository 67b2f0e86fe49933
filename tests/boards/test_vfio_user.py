"""The vfio-user server, asked by a small client that was written from the protocol's page."""

from __future__ import annotations

import errno
import json
import mmap
import os
import struct
import time

import numpy as np
import pytest

from tests.boards.vfu_toy import (
    COPY_REGISTER,
    REGISTER_BYTES,
    VRAM_BYTES,
    Toy,
    guest_memory,
    served,
)
from tests.support import check

PAGE = 4096
EVENTFD_TRIGGER = 4 | 32


def close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def equal(got: object, wanted: object) -> None:
    check(got == wanted, f"{got!r}, wanted {wanted!r}")


def until(condition, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    check(condition(), "it did not come")


def test_version_is_negotiated_before_anything_else() -> None:
    with served(greet=False) as bench:
        equal(bench.client.read(7, 0, 4).error, errno.EINVAL)
        reply = bench.client.hello()
        equal(struct.unpack_from("<HH", reply.payload), (0, 1))
        check(reply.payload.endswith(b"\0"))
        said = json.loads(reply.payload[4:-1])["capabilities"]
        equal((said["pgsizes"], said["write_multiple"]), (4096, True))
        equal(bench.client.read(7, 0, 4).payload[16:], bytes.fromhex("02104c74"))


def test_another_major_version_ends_the_connection() -> None:
    with served(greet=False) as bench:
        bench.client.send(1, struct.pack("<HH", 1, 0))
        check(bench.client.hung_up())
    check("version" in bench.ended[0], bench.ended[0])


@pytest.mark.parametrize(
    "data", [b"{", b"[1]", b"\xff\xfe\0", b"[" * 4000, b"{" + b" " * 5000 + b"}"]
)
def test_capabilities_that_are_none(data: bytes) -> None:
    with served(greet=False) as bench:
        equal(bench.client.ask(1, struct.pack("<HH", 0, 1) + data).error, errno.EINVAL)
        equal(bench.client.hello().error, 0)


def test_the_device_and_its_regions() -> None:
    with served() as bench:
        ask = bench.client.ask
        info = ask(4, struct.pack("<IIII", 16, 0, 0, 0)).payload
        equal(struct.unpack("<IIII", info), (16, 3, 9, 5))
        wanted = {0: (7, VRAM_BYTES), 2: (3, 1 << 16), 5: (3, REGISTER_BYTES), 7: (3, 4096)}
        for index in range(9):
            reply = ask(5, struct.pack("<IIIIQQ", 32, 0, index, 0, 0, 0))
            argsz, flags, got, caps, size, offset = struct.unpack("<IIIIQQ", reply.payload)
            equal((argsz, got, caps, offset), (32, index, 0, 0))
            equal((flags, size), wanted.get(index, (0, 0)))
            equal(len(reply.descriptors), int(index == 0))
            close(*reply.descriptors)
        equal(ask(5, struct.pack("<IIIIQQ", 32, 0, 9, 0, 0, 0)).error, errno.EINVAL)


def test_a_bar_with_less_memory_than_room_says_what_can_be_mapped() -> None:
    with served(Toy(4 * VRAM_BYTES)) as bench:
        for argsz in (32, 64):
            reply = bench.client.ask(5, struct.pack("<IIIIQQ", argsz, 0, 0, 0, 0, 0))
            needed, flags, _, caps, size, _ = struct.unpack_from("<IIIIQQ", reply.payload)
            equal((needed, flags, size), (64, 0xF, 4 * VRAM_BYTES))
            close(*reply.descriptors)
        equal(caps, 32)
        # src: linux/vfio.h struct vfio_region_info_cap_sparse_mmap
        equal(struct.unpack_from("<HHIIIQQ", reply.payload, caps), (1, 1, 0, 1, 0, 0, VRAM_BYTES))
        equal(bench.client.read(0, VRAM_BYTES - 2, 4).payload[18:], b"\xff\xff")
        equal(bench.client.write(0, VRAM_BYTES, b"lost").error, 0)
        equal(bench.client.read(0, 2 * VRAM_BYTES, 2).payload[16:], b"\xff\xff")


def test_mapped_memory_is_the_functions_own() -> None:
    with served() as bench:
        reply = bench.client.ask(5, struct.pack("<IIIIQQ", 32, 0, 0, 0, 0, 0))
        with mmap.mmap(reply.descriptors[0], VRAM_BYTES) as memory:
            memory[8:12] = b"guest"[:4]
            equal(bench.toy.vram.bytes[8:12].tobytes(), b"gues")
            equal(bench.client.read(0, 8, 4).payload[16:], b"gues")
            equal(bench.client.write(0, 100, b"x" * 5000).error, 0)
            equal(memory[100:5100], b"x" * 5000)
        close(*reply.descriptors)


def test_registers_are_asked_about() -> None:
    with served() as bench:
        equal(bench.client.write(5, 0x20, bytes.fromhex("78563412")).error, 0)
        equal(bench.toy.registers, {(5, 0x20): 0x12345678})
        equal(bench.client.read(5, 0x20, 2).payload, struct.pack("<QIIH", 0x20, 5, 2, 0x5678))
        for off, nbytes in ((0, 3), (0, 16), (0, 0), (REGISTER_BYTES - 2, 4), (1 << 63, 4)):
            equal(bench.client.read(5, off, nbytes).error, errno.EINVAL)
        equal(bench.client.read(1, 0, 4).error, errno.EINVAL)
        equal(bench.client.write(7, 4095, b"ab").error, errno.EINVAL)
        said_four = struct.pack("<QII", 0x20, 5, 4) + b"abc"
        equal(bench.client.ask(10, said_four).error, errno.EINVAL)


def test_many_writes_in_one_message() -> None:
    with served() as bench:
        one = struct.pack("<QII", 4, 5, 4) + struct.pack("<Q", 7)
        two = struct.pack("<QII", 8, 5, 8) + struct.pack("<Q", 1 << 40)
        reply = bench.client.ask(15, struct.pack("<Q", 2) + one + two)
        equal((reply.error, reply.payload), (0, struct.pack("<Q", 2)))
        equal(bench.toy.registers, {(5, 4): 7, (5, 8): 1 << 40})
        for count, entries in ((3, one + two), (1 << 63, one), (1, one[:-1])):
            equal(bench.client.ask(15, struct.pack("<Q", count) + entries).error, errno.EINVAL)
        long = struct.pack("<QII", 4, 5, 9) + bytes(8)
        equal(bench.client.ask(15, struct.pack("<Q", 1) + long).error, errno.EINVAL)


def test_a_command_that_wants_no_reply_gets_none() -> None:
    with served() as bench:
        body = struct.pack("<QII", 0x30, 5, 4) + struct.pack("<I", 9)
        bench.client.send(10, body, flags=1 << 4)
        bench.client.send(99, flags=1 << 4)  # refused, and silent too
        equal(bench.client.read(5, 0x30, 4).payload[16:], struct.pack("<I", 9))


def test_unknown_commands_and_resets() -> None:
    with served() as bench:
        for command in (0, 6, 11, 14, 16, 0xFFFF):
            equal(bench.client.ask(command).error, errno.ENOTSUP)
        equal((bench.client.ask(13).error, bench.toy.resets), (0, 1))


def test_dma_reaches_guest_memory_and_interrupts() -> None:
    memory, event = guest_memory(4 * PAGE), os.eventfd(0, os.EFD_NONBLOCK)
    guest = mmap.mmap(memory, 4 * PAGE)
    with served() as bench:
        bench.toy.vram.bytes[:16] = np.frombuffer(b"sixteen bytes of", np.uint8)
        equal(bench.client.map(0x10_0000, 2 * PAGE, memory, offset=2 * PAGE).error, 0)
        equal(bench.client.set_irqs(EVENTFD_TRIGGER, 0, 1, fds=[event]).error, 0)
        bench.client.write(5, COPY_REGISTER, struct.pack("<Q", 0x10_0000 + PAGE + 32))
        until(lambda: bench.server.interrupts.sent == 1)
        equal(os.read(event, 8), struct.pack("<Q", 1))
        equal(guest[3 * PAGE + 32 : 3 * PAGE + 48], b"sixteen bytes of")
        # past the window's end, and where none is: nothing is written
        for address in (0x10_0000 + 2 * PAGE - 8, 0x20_0000):
            bench.client.write(5, COPY_REGISTER, struct.pack("<Q", address))
        until(lambda: bench.toy.lost == 2)
        equal(guest[4 * PAGE - 8 :], bytes(8))
    equal((len(bench.server.memory), bench.server.memory.mapped_files), (0, 0))
    guest.close()
    close(memory, event)


def test_windows_have_rights() -> None:
    memory = guest_memory(4 * PAGE)
    with served() as bench:
        decode = bench.server.memory.decode
        bench.client.map(0, PAGE, memory, flags=1)
        bench.client.map(PAGE, PAGE, memory, flags=2, offset=PAGE)
        bench.client.map(2 * PAGE, PAGE, None)  # a ROM: there, and out of reach
        check(decode(0, 4, False) and not decode(0, 4, True))
        check(decode(PAGE, 4, True) and not decode(PAGE, 4, False))
        check(decode(2 * PAGE, 4, False) is None)
        check(decode(PAGE - 2, 4, False) is None, "an access over two windows is two accesses")
    close(memory)


def test_windows_of_one_file_are_one_memory() -> None:
    memory = guest_memory(4 * PAGE)
    with served() as bench:
        equal(bench.client.map(0, 2 * PAGE, memory).error, 0)
        equal(bench.client.map(1 << 40, PAGE, memory, offset=PAGE).error, 0)
        equal(bench.server.memory.mapped_files, 1)
        low, high = (bench.server.memory.decode(va, 4, True) for va in (PAGE, 1 << 40))
        check(low is not None and high is not None)
        equal((low[0] is high[0], low[1], high[1]), (True, PAGE, PAGE))
        equal(bench.client.unmap(0, 2 * PAGE).error, 0)
        equal(bench.server.memory.mapped_files, 1)
        equal(bench.client.unmap(0, 0, flags=2).error, 0)
        equal((bench.server.memory.mapped_files, len(bench.server.memory)), (0, 0))
        low[0].bytes[0] = 1  # a view that an engine kept stays valid
        fd = bench.client.ask(5, struct.pack("<IIIIQQ", 32, 0, 0, 0, 0, 0)).descriptors[0]
        equal(bench.client.map(0, VRAM_BYTES, fd).error, 0)
        check(bench.server.memory.decode(8, 4, True)[0] is bench.toy.vram, "its own BAR, mapped")
    close(memory, fd)


def test_windows_that_are_refused() -> None:
    memory, loose = guest_memory(4 * PAGE), guest_memory(PAGE, sealed=False)
    read_end, write_end = os.pipe()
    with served() as bench:
        mapped = bench.client.map
        equal(mapped(0x1000, 2 * PAGE, memory).error, 0)
        for address, nbytes in ((0x1000, PAGE), (0x2000, 2 * PAGE), (0, 2 * PAGE), (0, 9 * PAGE)):
            equal(mapped(address, nbytes, memory).error, errno.EEXIST)
        high = (1 << 64) - PAGE
        for address, nbytes in ((0x8001, PAGE), (0x8000, 0), (0x8000, 7), (high, 2 * PAGE)):
            equal(mapped(address, nbytes, memory).error, errno.EINVAL)
        equal(mapped(0x8000, PAGE, memory, offset=4 * PAGE).error, errno.EINVAL)
        equal(mapped(0x8000, PAGE, memory, offset=12).error, errno.EINVAL)
        equal(mapped(0x8000, PAGE, memory, flags=8).error, errno.EINVAL)
        equal(mapped(0x8000, PAGE, loose).error, errno.EINVAL)  # it could shrink under us
        equal(mapped(0x8000, PAGE, read_end).error, errno.EINVAL)
        halves = ((0x1000, PAGE), (0x2000, PAGE), (0, 2 * PAGE), (0x2000, 9 * PAGE))
        for address, nbytes in (*halves, (0, 0), ((1 << 64) - PAGE, 2 * PAGE)):
            equal(bench.client.unmap(address, nbytes).error, errno.EINVAL)
        equal(bench.client.unmap(0x9000, PAGE).error, 0)  # there is nothing
        equal(bench.client.unmap(0, PAGE, flags=2).error, errno.EINVAL)
        equal((len(bench.server.memory), bench.server.memory.mapped_files), (1, 1))
    close(memory, loose, read_end, write_end)


def test_a_range_takes_all_its_windows() -> None:
    memory = guest_memory(4 * PAGE)
    with served() as bench:
        for page in (1, 2, 4, 9):
            equal(bench.client.map(page * PAGE, PAGE, memory).error, 0)
        equal(bench.client.unmap(2 * PAGE, 7 * PAGE).error, 0)
        left = [page for page in range(12) if bench.server.memory.decode(page * PAGE, 4, True)]
        equal(left, [1, 9])
    close(memory)


def test_interrupts_are_masked_counted_and_dropped() -> None:
    events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(4)]
    with served() as bench:
        for index, wanted in enumerate(((7, 1), (9, 4), (0, 0), (0, 0), (0, 0))):
            reply = bench.client.ask(7, struct.pack("<IIII", 16, 0, index, 0))
            equal(struct.unpack("<IIII", reply.payload)[1::2], wanted)
        irqs = bench.client.set_irqs
        equal(irqs(EVENTFD_TRIGGER, 0, 4, fds=events).error, 0)
        equal(irqs(1 | 8, 2, 1).error, 0)  # mask vector 2
        equal(irqs(2 | 32, 0, 4, data=b"\0\1\1\0").error, 0)  # trigger 1 and 2
        equal(os.read(events[1], 8), struct.pack("<Q", 1))
        with pytest.raises(BlockingIOError):
            os.read(events[2], 8)
        equal(irqs(1 | 16, 2, 1).error, 0)  # what came while it was masked comes now
        equal(os.read(events[2], 8), struct.pack("<Q", 1))
        os.write(events[3], struct.pack("<Q", (1 << 64) - 2))  # full: a writer would block
        equal(irqs(1 | 32, 3, 1).error, 0)
        equal(irqs(EVENTFD_TRIGGER, 1, 1).error, 0)  # no descriptor: nobody listens
        equal(len(bench.server.interrupts), 3)
        equal(irqs(EVENTFD_TRIGGER, 0, 1, index=0, fds=[events[1]]).error, 0)  # the INTx line
        equal(irqs(1 | 32, 0, 0).error, 0)  # all of MSI, and not the line
        equal(len(bench.server.interrupts), 1)
        equal(irqs(1 | 32, 0, 0, index=0).error, 0)
        equal(len(bench.server.interrupts), 0)
    close(*events)


def test_interrupts_that_are_refused() -> None:
    event, memory = os.eventfd(0), guest_memory(PAGE)
    with served() as bench:
        irqs = bench.client.set_irqs
        wrong = (
            irqs(0, 0, 1), irqs(1 | 2 | 32, 0, 1), irqs(1 | 8 | 16, 0, 1), irqs(1 << 9, 0, 1),
            irqs(1 | 32, 4, 1), irqs(1 | 32, 0, 5), irqs(1 | 32, 0xFFFFFFFF, 2),
            irqs(1 | 32, 1, 1, index=0), irqs(1 | 32, 0, 1, index=2), irqs(1 | 32, 0, 0, index=9),
            irqs(2 | 32, 0, 2, data=b"\1"), irqs(4 | 8, 0, 1, fds=[event]),
            irqs(EVENTFD_TRIGGER, 0, 2, fds=[event]), irqs(EVENTFD_TRIGGER, 0, 1, fds=[memory]),
        )  # fmt: skip
        equal([reply.error for reply in wrong], [errno.EINVAL] * len(wrong))
        equal(len(bench.server.interrupts), 0)
    close(event, memory)
