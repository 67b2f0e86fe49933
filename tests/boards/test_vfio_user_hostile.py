"""Clients that break the protocol: the server answers or hangs up, and is none the worse."""

from __future__ import annotations

import array
import errno
import gc
import os
import random
import select
import socket
import stat
import struct
from pathlib import Path

import numpy as np
import pytest

from boards.vfio_user.command import listen
from tests.boards.vfu_toy import HEADER, Toy, guest_memory, served
from tests.support import check

PAGE = 4096
MUTATIONS = 4000


def open_descriptors() -> int:
    """Without those of earlier tests' boards, which go when they are collected."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("size", [0, 15, 16 + (1 << 20) + 4097, 0xFFFFFFFF])
def test_sizes_after_which_nothing_can_be_found(size: int) -> None:
    with served() as bench:
        bench.client.socket.sendall(struct.pack(HEADER, 7, 9, size, 0, 0))
        reply = bench.client.receive(7, 9)
        check(reply.error == errno.EMSGSIZE, str(reply))
        check(bench.client.hung_up())
    check(str(size) in bench.ended[0], bench.ended[0])


def test_a_reply_is_no_command_and_half_a_message_is_none() -> None:
    with served() as bench:
        bench.client.socket.sendall(struct.pack(HEADER, 7, 9, 16, 1, 0))
        check(bench.client.hung_up())
    check("type 1" in bench.ended[0], bench.ended[0])
    for part in (b"abc", struct.pack(HEADER, 7, 9, 32, 0, 0) + b"half"):
        with served() as bench:
            bench.client.socket.sendall(part)
            bench.client.socket.shutdown(socket.SHUT_WR)
            check(bench.client.hung_up())
        check("left after" in bench.ended[0], bench.ended[0])


def test_a_client_that_dies_with_unread_replies() -> None:
    with served() as bench:
        bench.client.send(4)
        check(bool(select.select([bench.client.socket], [], [], 10)[0]), "no reply came")
    check(bench.ended[0] == "the client has gone", bench.ended[0])


def test_descriptors_go_to_the_message_they_came_with() -> None:
    """Two messages in one write, the second with the descriptor: the kernel keeps them apart."""
    memory = guest_memory(PAGE)
    with served() as bench:
        window = struct.pack("<IIQQQ", 32, 3, 0, 0, PAGE)
        plain = struct.pack("<IIQQQ", 32, 3, 0, PAGE, PAGE)
        first, second = (struct.pack(HEADER, n, 2, 48, 0, 0) for n in (1, 2))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))]
        bench.client.socket.sendall(first + plain)
        bench.client.socket.sendmsg([second + window], rights)
        check([bench.client.receive(n, 2).error for n in (1, 2)] == [0, 0])
        check(bench.server.memory.decode(PAGE, 4, True) is None, "the first had none")
        check(bench.server.memory.decode(0, 4, True) is not None)
    os.close(memory)


def test_too_many_descriptors_end_the_connection() -> None:
    before = open_descriptors()
    memory = guest_memory(PAGE)
    with served() as bench:
        bench.client.send(2, struct.pack("<IIQQQ", 32, 3, 0, 0, PAGE), [memory] * 9)
        check(bench.client.hung_up())
    check("descriptors" in bench.ended[0], bench.ended[0])
    with served() as bench:
        check(bench.client.map(0, PAGE, memory).error == 0)
        two = bench.client.ask(2, struct.pack("<IIQQQ", 32, 3, 0, PAGE, PAGE), [memory, memory])
        check(two.error == errno.EINVAL)
        check(bench.client.ask(4, struct.pack("<IIII", 16, 0, 0, 0), [memory]).error == 0)
    os.close(memory)
    del bench
    check(open_descriptors() <= before + 2, "a toy's VRAM, at most, is still there")


def valid_bodies() -> list[tuple[int, bytes]]:
    """One good message of each command, to be damaged."""
    access = struct.pack("<QII", 0x40, 5, 4)
    return [
        (1, struct.pack("<HH", 0, 1) + b'{"capabilities":{"max_msg_fds":8}}\0'),
        (2, struct.pack("<IIQQQ", 32, 3, 0, 0x10000, PAGE)),
        (3, struct.pack("<IIQQ", 24, 0, 0x10000, PAGE)),
        (4, struct.pack("<IIII", 16, 0, 0, 0)),
        (5, struct.pack("<IIIIQQ", 32, 0, 0, 0, 0, 0)),
        (7, struct.pack("<IIII", 16, 0, 1, 0)),
        (8, struct.pack("<IIIII", 20, 1 | 32, 1, 0, 1)),
        (9, access),
        (10, access + b"abcd"),
        (13, b""),
        (15, struct.pack("<Q", 1) + access + bytes(8)),
    ]


def damaged(body: bytes, rng: random.Random) -> bytes:
    data = bytearray(body)
    for _ in range(rng.randrange(1, 4)):
        what = rng.randrange(4)
        if what == 0 and data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif what == 1 and data:
            del data[rng.randrange(len(data)) :]
        elif what == 2:
            data += rng.randbytes(rng.randrange(64))
        elif len(data) >= 4:
            at = rng.randrange(len(data) - 3)
            data[at : at + 4] = rng.choice((b"\xff" * 4, bytes(4), b"\0\0\0\x80", b"\x10\0\0\0"))
    return bytes(data)


def test_damaged_messages_are_answered() -> None:
    """Every reply is well-formed; afterwards the server does its work as before."""
    rng, toy = random.Random(20), Toy()
    before = open_descriptors()
    memory, event = guest_memory(PAGE), os.eventfd(0, os.EFD_NONBLOCK)
    with served(toy) as bench:
        errors = set()
        good = valid_bodies()
        for _ in range(MUTATIONS):
            command, body = rng.choice(good)
            body = damaged(body, rng)
            if command == 1 and body[:2] != b"\0\0" and len(body) >= 4:
                continue  # another major version is an end, which has its own test
            fds = rng.choice(([], [memory], [event], [memory, event]))
            reply = bench.client.ask(command, body, fds)
            errors.add(reply.error)
            for fd in reply.descriptors:
                os.close(fd)
        known = {0, errno.EINVAL, errno.ENOTSUP, errno.EEXIST, errno.EACCES, errno.ENODEV}
        check(errors <= known, f"{errors}")
        bench.client.unmap(0, 0, flags=2)
        check(bench.client.map(0, PAGE, memory).error == 0)
        toy.vram.bytes[:16] = np.arange(16, dtype=np.uint8)
        bench.client.write(5, 0x20, b"\1\2\3\4")
        check(bench.client.read(5, 0x20, 4).payload[16:] == b"\1\2\3\4")
    check(len(bench.server.memory) == 0 and len(bench.server.interrupts) == 0)
    os.close(memory)
    os.close(event)
    check(open_descriptors() == before, f"{open_descriptors() - before} descriptors stay open")


def test_nothing_of_a_client_that_left_is_kept() -> None:
    toy = Toy()
    before = open_descriptors()
    memory, event = guest_memory(PAGE), os.eventfd(0)
    with served(toy) as bench:
        check(bench.client.set_irqs(4 | 32, 0, 1, fds=[event]).error == 0)  # src: linux/vfio.h
        check(bench.client.set_irqs(4 | 32, 0, 1, fds=[event]).error == 0, "instead of the first")
        refused = bench.client.map(0, 2 * PAGE, memory)
        check(refused.error == errno.EINVAL and bench.server.memory.mapped_files == 0)
        check(bench.client.map(0, PAGE, memory).error == 0)
    check(len(bench.server.interrupts) == 0 and bench.server.memory.mapped_files == 0)
    os.close(memory)
    os.close(event)
    check(open_descriptors() == before, f"{open_descriptors() - before} descriptors stay open")


def test_the_socket_is_this_user_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "gpu.sock"
    with listen(path):
        check(stat.S_IMODE(path.stat().st_mode) == 0o600, oct(path.stat().st_mode))
