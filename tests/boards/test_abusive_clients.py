"""Clients of `boards usbredir` and `boards vfio-user` that leave, flood, drip, or never read."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boards.machine.chassis import Chassis
from boards.usb.port import Enclosed
from boards.usbredir import command
from boards.usbredir import server as usb_server
from boards.usbredir.link import Link as UsbLink
from boards.vfio_user.command import listen
from boards.vfio_user.link import Link
from boards.vfio_user.server import MOST_IN_A_ROW, Server
from boards.vfio_user.stream import FULL_BYTES, STALL_S, BrokenLink, Stream
from boards.vfio_user.wire import Message
from tests.boards.test_usbredir import BULK, CONTROL, GREETING, OK, RESET, Client, Echo, served
from tests.boards.vfu_toy import HEADER, Toy
from tests.boards.vfu_toy import served as vfio_served
from tests.support import check

LINES = b"plug\n" * 10
LIMIT_S = 20
TURNS = 2000


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def answers(client: Client, number: int) -> None:
    """The server does what it is for."""
    client.control(number, 0xC0, 3, 0x1234, 4)
    check(client.ended()[:3] == (CONTROL, number, OK))


def test_panels_that_leave_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as (client, _, switch):
        client.hello()
        switch.socket.close()
        for number in range(20):
            panel = Client(tmp_path / "panel")
            panel.socket.sendall(LINES)
            panel.socket.close()
            answers(client, number)


def test_a_panel_that_never_reads(tmp_path: Path) -> None:
    with served(tmp_path) as (client, _, switch):
        client.hello()
        switch.socket.setblocking(False)
        sent = 0
        for number in range(TURNS):
            try:
                sent += switch.socket.send(LINES * 10)
            except BlockingIOError:
                answers(client, number)
                break
        check(sent > 0)
        answers(client, 1 << 20)


def test_a_client_that_leaves_before_the_greeting() -> None:
    ours, theirs = pair()
    theirs.close()
    link = UsbLink(ours)
    said = command._session(usb_server.Server(Echo(), lambda: False), link, None)
    link.close()
    check(said in ("the client has gone", "the client left"), said)


def test_the_next_client_is_served(tmp_path: Path) -> None:
    """Whatever the ones before it did."""
    path = tmp_path / "usb"
    made = Enclosed(Chassis(), Echo(), lambda: False)
    ready, stop = threading.Event(), threading.Event()
    with listen(path) as listener:
        listener.settimeout(LIMIT_S)

        def serve() -> None:
            passes = usb_server.Server(made.function, made.pump)
            ready.set()
            for _ in range(4):
                link = UsbLink(listener.accept()[0])
                command._session(passes, link, None)
                link.close()
            stop.set()

        thread = threading.Thread(target=serve)
        thread.start()
        for text in (b"", GREETING[:7], b"\xff" * 99):
            one = socket.socket(socket.AF_UNIX)
            one.connect(str(path))
            one.sendall(text)
            one.close()
        last = Client(path)
        last.hello()
        answers(last, 1)
        last.socket.close()
        thread.join(LIMIT_S)
    check(stop.is_set())


@pytest.mark.parametrize("header", [GREETING[:5], GREETING[:12], GREETING[:40]])
def test_a_packet_that_drips_has_one_deadline(header: bytes) -> None:
    """A byte in each second does not move it."""
    ours, theirs = pair()
    with theirs:
        link, clock = UsbLink(ours), Clock()
        link._stream = Stream(ours, clock=clock)
        theirs.sendall(header)
        check(link.next() is None)
        for _ in range(int(STALL_S)):
            clock.now_s += 1
            theirs.sendall(b"\0")
            check(link.next() is None)
        clock.now_s += 1
        theirs.sendall(b"\0")
        with pytest.raises(BrokenLink, match="bytes in 10 s"):
            link.next()
        link.close()


def test_a_message_that_drips_has_one_deadline() -> None:
    ours, theirs = pair()
    with theirs:
        link, clock = Link(ours), Clock()
        link._stream = Stream(ours, 8, clock)
        whole = struct.pack(HEADER, 7, 9, 64, 0, 0) + bytes(48)
        for at in range(11):
            theirs.sendall(whole[2 * at : 2 * at + 2])
            check(link.next() is None)
            clock.now_s += 1
        with pytest.raises(BrokenLink, match="of 48 bytes in 10 s"):
            link.next()
        link.close()


def test_a_packet_in_time_starts_a_new_deadline() -> None:
    ours, theirs = pair()
    with theirs:
        link, clock = Link(ours), Clock()
        link._stream = Stream(ours, 8, clock)
        whole = struct.pack(HEADER, 7, 9, 24, 0, 0) + bytes(8)
        for _ in range(5):
            theirs.sendall(whole[:9])
            check(link.next() is None)
            clock.now_s += STALL_S - 1
            theirs.sendall(whole[9:])
            message = link.next()
            check(message is not None and message.body == bytes(8))
            clock.now_s += 2 * STALL_S  # nothing is under way
            check(link.next() is None)
        link.close()


def pumps(counted: list[int], begin: Callable[[], object]) -> None:
    """The card works on after `begin`."""
    begin()
    before = len(counted)
    ended = threading.Event()
    for _ in range(TURNS):
        if len(counted) > before + 3:
            return
        ended.wait(0.01)
    raise AssertionError(f"pumped {len(counted) - before} times")


def usb_session(counted: list[int], function: Any = None) -> tuple[socket.socket, Any]:
    """A client's socket, and the thread that serves it."""
    ours, theirs = pair()
    link = UsbLink(ours)
    passes = usb_server.Server(function or Echo(), lambda: bool(counted.append(1)))

    def run() -> None:
        command._session(passes, link, None)
        link.close()

    thread = threading.Thread(target=run)
    thread.start()
    return theirs, thread


def test_the_card_works_while_half_a_packet_is_there() -> None:
    counted: list[int] = []
    theirs, thread = usb_session(counted)
    pumps(counted, lambda: theirs.sendall(GREETING + b"\0\0"))
    theirs.close()
    thread.join(LIMIT_S)
    check(not thread.is_alive())


def test_the_card_works_while_a_client_floods() -> None:
    """A thousand packets are there at once."""
    counted: list[int] = []
    ours, theirs = pair()
    link = UsbLink(ours)
    passes = usb_server.Server(Echo(), lambda: bool(counted.append(1)))
    theirs.sendall(GREETING + struct.pack("<IIQ", RESET, 0, 5) * 1000)
    theirs.shutdown(socket.SHUT_WR)
    check(command._session(passes, link, None) == "the client left")
    check(len(counted) >= 1000 // command.MOST_IN_A_ROW, f"pumped {len(counted)} times")
    link.close()
    theirs.close()


class Source(Echo):
    """Gives 1 MiB for each transfer."""

    given = 0

    def ready(self, endpoint: int) -> str:
        return "stream"

    def bulk_in(self, endpoint: int, nbytes: int) -> bytes:
        self.given += 1
        return bytes(1 << 20)


def test_a_client_that_takes_no_data() -> None:
    """It gets no more than it takes, the card works, and later all of it comes."""
    counted: list[int] = []
    source = Source()
    theirs, thread = usb_session(counted, source)
    theirs.settimeout(LIMIT_S)
    theirs.sendall(GREETING)
    one = struct.pack("<BBHIH", 0x81, 0, 0, 0, 16)
    count = 20
    packets = (struct.pack("<IIQ", BULK, len(one), number) + one for number in range(count))
    pumps(counted, lambda: theirs.sendall(b"".join(packets)))
    check(1 <= source.given <= FULL_BYTES // (1 << 20) + 2, f"{source.given} of {count}")
    greeting = 12 + 68 + (16 + 160) + (16 + 132) + (16 + 10)
    wanted = greeting + count * (16 + 10 + (1 << 20))
    got = 0
    for _ in range(wanted):
        if got == wanted:
            break
        got += len(theirs.recv(1 << 20))
    check(got == wanted and source.given == count, f"{got} of {wanted} bytes")
    theirs.close()
    thread.join(LIMIT_S)
    check(not thread.is_alive())


def test_a_client_that_takes_nothing_for_long() -> None:
    ours, theirs = pair()
    with theirs:
        clock = Clock()
        out = Stream(ours, clock=clock)
        out.send(bytes(4 << 20))
        check(out.unsent > 0 and out.full)
        for _ in range(3):  # it takes some before each deadline
            clock.now_s += STALL_S
            theirs.recv(1 << 18)
            out.flush()
        clock.now_s += STALL_S + 1
        with pytest.raises(BrokenLink, match="does not read"):
            out.flush()
        out.close()


def test_a_guest_that_reads_no_reply() -> None:
    """The GPU works on, and the replies come in their order once they are read."""

    class Working(Toy):
        def pump(self) -> bool:
            counted.append(1)
            return False

    counted: list[int] = []
    with vfio_served(Working()) as bench:
        count = 4000
        one = struct.pack(HEADER, 3, 4, 32, 0, 0) + struct.pack("<IIII", 16, 0, 0, 0)
        sender = threading.Thread(target=lambda: bench.client.socket.sendall(one * count))
        pumps(counted, sender.start)
        for _ in range(count):
            check(bench.client.receive(3, 4).error == 0)
        sender.join(LIMIT_S)


def test_the_gpu_works_while_half_a_message_is_there() -> None:
    class Working(Toy):
        def pump(self) -> bool:
            counted.append(1)
            return False

    counted: list[int] = []
    with vfio_served(Working()) as bench:
        pumps(counted, lambda: bench.client.socket.sendall(b"half"))
    check("left after 4 of 16" in bench.ended[0], bench.ended[0])


class Flooding:
    """A link on which there is always one more command, up to the thousandth."""

    def __init__(self) -> None:
        self.left, self.gone = 1000, False

    def wait(self, timeout_s: float) -> None:
        """Something is there."""

    def waiting(self) -> bool:
        return self.left > 0

    def reply_error(self, message: Message, number: int) -> None:
        """None of its commands is answered."""

    def next(self) -> Message | None:
        self.left -= 1
        self.gone = self.left < 0
        return None if self.gone else Message(1, 4, False, bytes(16))


def test_the_gpu_works_while_a_guest_floods() -> None:
    counted: list[int] = []

    class Working(Toy):
        def pump(self) -> bool:
            counted.append(1)
            return False

    function: Any = Working()
    flood: Any = Flooding()
    check(Server(function).serve(flood) == "the client left")
    check(len(counted) >= 1000 // MOST_IN_A_ROW, f"pumped {len(counted)} times")
