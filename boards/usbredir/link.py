"""One client's socket: whole packets in and out, with bounds."""

from __future__ import annotations

import select
import socket
from dataclasses import dataclass

from boards.usbredir import wire
from boards.usbredir.wire import Kind

STALL_S = 10.0
"""A packet that has begun is complete by then, or the client is given up."""


class BrokenLink(Exception):
    """Bytes after which it is unknown where the next packet begins, or a client that stalls."""


@dataclass(frozen=True, slots=True)
class Packet:
    """What a client sent: the fields of its struct, and the data behind it."""

    kind: Kind
    number: int
    fields: tuple[int, ...]
    data: bytes


class Link:
    """A connected socket. Raises: BrokenLink, OSError of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(STALL_S)
        self._socket = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._header = wire.FIRST_HEADER

    def fileno(self) -> int:
        """For poll(2)."""
        return self._socket.fileno()

    def waiting(self) -> bool:
        """Whether something has come, or the end has."""
        return bool(self._poll.poll(0))

    def greet(self) -> None:
        """Say what this side can do: the first packet."""
        self.send(Kind.HELLO, 0, wire.HELLO.pack(wire.VERSION, wire.CAPS))

    def receive(self) -> Packet | None:
        """The next packet; None when the client has gone."""
        head = self._read(self._header.size)
        if not head:
            return None
        if len(head) != self._header.size:
            raise BrokenLink(f"a header ends after {len(head)} of {self._header.size} bytes")
        number, nbytes, identity = self._header.unpack(head)
        first = self._header is wire.FIRST_HEADER
        if number not in set(Kind) or (kind := Kind(number)) not in wire.HEADS:
            raise BrokenLink(f"packet of type {number}, {nbytes} bytes")
        if first != (kind is Kind.HELLO):
            raise BrokenLink(f"{kind.name} {'before' if first else 'after'} the hello")
        form = wire.HEADS[kind]
        if not form.size <= nbytes <= form.size + wire.MAX_DATA_BYTES:
            raise BrokenLink(f"{kind.name} of {nbytes} bytes")
        body = self._read(nbytes)
        if len(body) != nbytes:
            raise BrokenLink(f"{kind.name} ends after {len(body)} of {nbytes} bytes")
        fields = form.unpack(body[: form.size])
        if kind is Kind.HELLO:
            self._greeted(fields[1])
            fields = fields[1:]
        return Packet(kind, identity, fields, body[form.size :])

    def _greeted(self, capabilities: int) -> None:
        if capabilities & wire.CAPS != wire.CAPS:
            raise BrokenLink(f"the client's capabilities {capabilities:#x} lack some we need")
        self._header = wire.HEADER

    def _read(self, nbytes: int) -> bytes:
        """All of it, or what came before the end."""
        parts = bytearray()
        try:
            while len(parts) < nbytes and (part := self._socket.recv(nbytes - len(parts))):
                parts += part
        except TimeoutError as error:
            raise BrokenLink(f"{len(parts)} of {nbytes} bytes, then silence") from error
        except ConnectionError:
            return b""
        return bytes(parts)

    def send(self, kind: Kind, number: int, body: bytes) -> None:
        """One packet."""
        try:
            self._socket.sendall(self._header.pack(kind, len(body), number) + body)
        except TimeoutError as error:
            raise BrokenLink(f"the client takes no {kind.name}") from error
        except ConnectionError as error:
            raise BrokenLink("the client left") from error

    def close(self) -> None:
        self._socket.close()
