"""`python -m boards usbredir`: an enclosure with a GPU for a virtual machine, until a signal."""

from __future__ import annotations

import select
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO, TypeAlias

from boards.usb.port import Enclosed
from boards.usbredir.link import BrokenLink, Link
from boards.usbredir.server import Server
from boards.vfio_user.command import listen

MOST_IN_A_ROW = 64
"""Packets of a client that sends without end, after which the card works all the same."""
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1e-3, 20e-3
QEMU_DEVICE = "-device qemu-xhci -chardev socket,id=gpu,path={path} -device usb-redir,chardev=gpu"
MAX_LINE = 64


class Panel:
    """Lines: "unplug", "unplug 40" (the 40th transfer from now), "plug", "killed" (a program).

    Nothing blocks: while an answer is not taken, no line is read.
    """

    def __init__(self, connection: socket.socket, server: Server) -> None:
        connection.setblocking(False)
        self._socket, self._server = connection, server
        self._line = self.unsaid = b""
        """`unsaid`: answers that the other side has not taken."""

    def fileno(self) -> int:
        """For poll(2)."""
        return self._socket.fileno()

    def read(self) -> bool:
        """Do what came, and answer each line; whether the other side is still there."""
        if not self.say():
            return False
        if self.unsaid:
            return True
        try:
            data = self._socket.recv(MAX_LINE)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self.unsaid += self._obey(line.decode(errors="replace").split()).encode() + b"\n"
        return self.say() and bool(data) and len(self._line) <= MAX_LINE

    def say(self) -> bool:
        """Write answers as far as they are taken; whether the other side is still there."""
        try:
            if self.unsaid:
                self.unsaid = self.unsaid[self._socket.send(self.unsaid) :]
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return True

    def _obey(self, words: list[str]) -> str:
        match words:
            case ["plug"]:
                self._server.plug()
            case ["unplug"]:
                self._server.unplug()
            case ["killed"]:
                self._server.function.abandoned()
            case ["unplug", count] if count.isdecimal() and int(count):
                self._server.unplug(int(count))
            case _:
                return "error"
        return "ok"

    def close(self) -> None:
        self._socket.close()


Ear: TypeAlias = Link | Panel | socket.socket


class Desk:
    """The panel of one client, and the socket that makes new ones: the latest counts."""

    def __init__(self, listener: socket.socket | None, server: Server) -> None:
        self._listener, self._server = listener, server
        self._panel: Panel | None = None
        if listener is not None:
            listener.setblocking(False)

    def ears(self, *, full: bool) -> tuple[list[Ear], list[Ear]]:
        """What to listen to, and what is to take an answer.

        Not the panel while the client is `full`: what it does is said to the client.
        """
        hear: list[Ear] = [] if self._listener is None else [self._listener]
        if self._panel is None or full:
            return hear, []
        return (hear, [self._panel]) if self._panel.unsaid else ([*hear, self._panel], [])

    def turn(self, ready: list[Ear]) -> None:
        """Do what came. Raises: BrokenLink of the client."""
        if self._listener is not None and self._listener in ready:
            self.close()
            with suppress(OSError):  # whoever knocked has left
                self._panel = Panel(self._listener.accept()[0], self._server)
        elif self._panel is not None and self._panel in ready and not self._panel.read():
            self.close()

    def close(self) -> None:
        """End the panel there is."""
        if self._panel is not None:
            self._panel.close()
            self._panel = None


def _session(server: Server, link: Link, listener: socket.socket | None) -> str:
    """Serve one client until it leaves; why it did."""
    desk = Desk(listener, server)
    pause_s, in_a_row = SHORTEST_PAUSE_S, 0
    try:
        server.attach(link)
        while True:  # for as long as the client lives
            hear, say = desk.ears(full=link.full)
            if not link.full:
                hear.append(link)
            if link.unsent:
                say.append(link)
            heard, said, _ = select.select(hear, say, [], pause_s)
            link.flush()
            packet = None if link.full else link.next()
            if link.gone:
                return "the client left"
            if packet is not None:
                server.take(packet)
                pause_s, in_a_row = 0.0, in_a_row + 1
            desk.turn([*heard, *said])
            if packet is not None and in_a_row < MOST_IN_A_ROW and link.waiting():
                continue
            in_a_row = 0
            pause_s = 0.0 if server.work() else min(
                max(2 * pause_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S
            )  # fmt: skip
    except BrokenLink as error:
        return str(error)
    finally:
        server.detach()
        desk.close()


def serve(
    name: str, path: Path, made: Enclosed, *, panel: Path | None = None,
    once: bool = False, out: TextIO | None = None,
) -> int:  # fmt: skip
    """Serve one client after another; 1 when the board found anything. Raises: OSError."""
    said = out or sys.stdout
    server = Server(made.function, made.pump)
    switch = listen(panel) if panel is not None else None
    listener = listen(path)
    print(f"{name}: waiting at {path}; for QEMU:\n{QEMU_DEVICE.format(path=path)}", file=said,
          flush=True)  # fmt: skip
    try:
        while True:  # until a signal, or after the first client
            link = Link(listener.accept()[0])
            try:
                reason = _session(server, link, switch)
            finally:
                link.close()
            counts = ", ".join(f"{key} {count}" for key, count in sorted(server.counts.items()))
            print(f"{name}: {reason}; {counts}", file=said, flush=True)
            if once:
                break
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=said)
    finally:
        for ear, place in ((listener, path), (switch, panel)):
            if ear is not None and place is not None:
                ear.close()
                place.unlink(missing_ok=True)
    for violation in made.hardware.violations:
        print(f"violation: {violation}", file=said)
    print(f"{name}: {len(made.hardware.violations) or 'no'} violations", file=said, flush=True)
    return int(bool(made.hardware.violations))
