"""`python -m boards usbredir`: an enclosure with a GPU for a virtual machine, until a signal."""

from __future__ import annotations

import select
import socket
import sys
from pathlib import Path
from typing import TextIO

from boards.usb.port import Enclosed
from boards.usbredir.link import BrokenLink, Link
from boards.usbredir.server import Server
from boards.vfio_user.command import listen

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1e-3, 20e-3
QEMU_DEVICE = "-device qemu-xhci -chardev socket,id=gpu,path={path} -device usb-redir,chardev=gpu"
MAX_LINE = 64


class Panel:
    """Lines: "unplug", "unplug 40" (the 40th transfer from now), "plug", "killed" (a program)."""

    def __init__(self, connection: socket.socket, server: Server) -> None:
        self._socket, self._server = connection, server
        self._line = b""

    def fileno(self) -> int:
        """For poll(2)."""
        return self._socket.fileno()

    def read(self) -> bool:
        """Do what came, and answer each line; whether the other side is still there."""
        try:
            data = self._socket.recv(MAX_LINE)
        except ConnectionError:
            return False
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            said = self._obey(line.decode(errors="replace").split())
            self._socket.sendall(said.encode() + b"\n")
        return bool(data) and len(self._line) <= MAX_LINE

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


def _session(server: Server, link: Link, listener: socket.socket | None) -> str:
    """Serve one client until it leaves; why it did."""
    panel: Panel | None = None
    ears: list[Link | Panel | socket.socket]
    pause_s = SHORTEST_PAUSE_S
    server.attach(link)
    try:
        while True:  # for as long as the client lives
            ears = [ear for ear in (link, listener, panel) if ear is not None]
            ready, _, _ = select.select(ears, [], [], pause_s)
            if link in ready:
                packet = link.receive()
                if packet is None:
                    return "the client left"
                server.take(packet)
                pause_s = 0.0
            if listener is not None and listener in ready:
                if panel is not None:
                    panel.close()
                panel = Panel(listener.accept()[0], server)
            elif panel is not None and panel in ready and not panel.read():
                panel.close()
                panel = None
            if link.waiting():
                continue
            pause_s = 0.0 if server.work() else min(
                max(2 * pause_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S
            )  # fmt: skip
    except BrokenLink as error:
        return str(error)
    finally:
        server.detach()
        if panel is not None:
            panel.close()


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
