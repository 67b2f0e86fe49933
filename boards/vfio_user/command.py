"""`python -m boards vfio-user`: a board's GPU for a virtual machine, until a signal stops it."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, TypeAlias

from boards.machine.chassis import Chassis
from boards.machine.pci.function import PciFunction
from boards.output import new_text
from boards.vfio_user.journal import Journal
from boards.vfio_user.link import Link
from boards.vfio_user.server import Server

WAITS, GOES_ON = "the guest waits for", "the guest goes on"
"""What is printed as soon as a guest has read a register often with one answer, and then."""
Observe: TypeAlias = Callable[[PciFunction, Journal], None]
"""Lets a journal hear of every register access of a vendor's function."""
QEMU_DEVICE = '-device {{"driver":"vfio-user-pci","socket":{{"path":"{path}","type":"unix"}}}}'


def listen(path: Path) -> socket.socket:
    """A listening socket that this user alone may connect to. Raises: OSError."""
    if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        os.fchmod(listener.fileno(), 0o600)  # the node gets the socket's own mode
        listener.bind(str(path))
        listener.listen(1)
    except OSError:
        listener.close()
        raise
    return listener


def _kept(name: str, function: PciFunction, path: Path, observe: Observe) -> Journal:
    """A journal of a function, in a file. Raises: OSError."""
    journal = Journal(name, new_text(path))
    observe(function, journal)
    journal.attach(function)
    return journal


def serve(
    name: str, path: Path, made: tuple[Chassis, PciFunction], observe: Observe, *, once: bool,
    out: TextIO | None = None, journal: Path | None = None,
) -> int:  # fmt: skip
    """Serve one client after another; 1 when the board found anything. The GPU stays powered.

    `journal` gets every register access; its report says who broke which rule.
    """
    said = out or sys.stdout
    hardware, function = made
    kept = _kept(name, function, journal, observe) if journal is not None else None
    if kept is not None:
        kept.waits = lambda register: print(
            f"{name}: {WAITS} {register}" if register else f"{name}: {GOES_ON}",
            file=said, flush=True,
        )  # fmt: skip
    server = Server(function)
    listener = listen(path)
    print(f"{name}: waiting at {path}; for QEMU 10.1 or later:", file=said)
    print(QEMU_DEVICE.format(path=path), file=said, flush=True)
    try:
        while True:  # until a signal, or after the first client
            connection, _ = listener.accept()
            link = Link(connection)
            try:
                reason = server.serve(link)
            finally:
                link.close()
            counts = ", ".join(f"{key} {count}" for key, count in sorted(server.counts.items()))
            print(
                f"{name}: {reason}; {counts}; MSI {server.interrupts.sent}", file=said, flush=True
            )
            if once:
                break
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=said)
    finally:
        listener.close()
        path.unlink(missing_ok=True)
    if kept is not None:
        for line in kept.report() + kept.blame():
            print(line, file=said)
        kept.close()
    for violation in hardware.violations:
        print(f"violation: {violation}", file=said)
    print(f"{name}: {len(hardware.violations) or 'no'} violations", file=said, flush=True)
    return int(bool(hardware.violations))
