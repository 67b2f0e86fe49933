"""tinygrad's REMOTE protocol: a PCI function over a TCP socket, one request after another.

# src: tinygrad 0.14.0 tinygrad/runtime/support/system.py, RemoteCmd and RemotePCIDevice
"""

from __future__ import annotations

import socket
import struct
from enum import IntEnum
from typing import NamedTuple

_REQUEST = struct.Struct("<BIIQQQ")
"""Command, device, BAR or handle, three arguments; data of a write follow."""
_REPLY = struct.Struct("<BQQ")
"""Status, two values; data of a read follow. Writes have no reply."""
MAX_BYTES = 1 << 30


class Command(IntEnum):
    """What a client asks for."""

    PROBE = 0
    MAP_BAR = 1
    MAP_SYSMEM_FD = 2
    CFG_READ = 3
    CFG_WRITE = 4
    RESET = 5
    MMIO_READ = 6
    MMIO_WRITE = 7
    MAP_SYSMEM = 8
    SYSMEM_READ = 9
    SYSMEM_WRITE = 10
    RESIZE_BAR = 11
    PING = 12


class Request(NamedTuple):
    """One request; `data` is what a write brought, or the payload of a probe."""

    command: int
    place: int
    """BAR, or handle of system memory."""
    arguments: tuple[int, int, int]
    data: bytes


class ClientGone(Exception):
    """The client closed its socket."""


def _exactly(connection: socket.socket, nbytes: int) -> bytes:
    got = bytearray()
    while len(got) < nbytes:
        part = connection.recv(min(nbytes - len(got), 1 << 20))
        if not part:
            raise ClientGone
        got += part
    return bytes(got)


def receive(connection: socket.socket) -> Request:
    """The next request. Raises: ClientGone, ValueError for one that is too long."""
    command, _, place, *arguments = _REQUEST.unpack(_exactly(connection, _REQUEST.size))
    brings = (Command.PROBE, Command.MMIO_WRITE, Command.SYSMEM_WRITE)
    nbytes = arguments[1] if command in brings else 0
    if nbytes > MAX_BYTES:
        raise ValueError(f"a request with {nbytes} bytes")
    first, second, third = arguments
    return Request(command, place, (first, second, third), _exactly(connection, nbytes))


def reply(connection: socket.socket, first: int = 0, second: int = 0, data: bytes = b"") -> None:
    """Answer a request."""
    connection.sendall(_REPLY.pack(0, first, second) + data)


def refuse(connection: socket.socket, why: str) -> None:
    """Answer with an error, which the client raises."""
    text = why.encode()
    connection.sendall(_REPLY.pack(1, len(text), 0) + text)
