"""One client's socket: whole packets in and out, with bounds. Nothing blocks but `receive`."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from boards.usbredir import wire
from boards.usbredir.wire import Kind
from boards.vfio_user.stream import BrokenLink, Stream

__all__ = ["BrokenLink", "Link", "Packet"]
_LONG_S = 1.0
"""How long `receive` waits at once; packets have a deadline of their own."""


@dataclass(frozen=True, slots=True)
class Packet:
    """What a client sent: the fields of its struct, and the data behind it."""

    kind: Kind
    number: int
    fields: tuple[int, ...]
    data: bytes


class Link:
    """A connected socket. Raises: BrokenLink."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = Stream(connection)
        self._header = wire.FIRST_HEADER
        self._head: tuple[Kind, struct.Struct, int, int] | None = None
        """Of a packet whose body is under way: its kind and struct, bytes and number."""
        self.gone = False
        """Whether the client has left after a whole packet."""

    def fileno(self) -> int:
        """For poll(2)."""
        return self._stream.fileno()

    def waiting(self) -> bool:
        """Whether something has come, or the end has."""
        return self._stream.waiting()

    @property
    def full(self) -> bool:
        """Whether the client has much to take: it gets nothing more, and is not listened to."""
        return self._stream.full

    @property
    def unsent(self) -> bool:
        """Whether the client has not taken all that was sent."""
        return self._stream.unsent > 0

    def flush(self) -> None:
        """Write what the client takes now."""
        self._stream.flush()

    def greet(self) -> None:
        """Say what this side can do: the first packet."""
        self.send(Kind.HELLO, 0, wire.HELLO.pack(wire.VERSION, wire.CAPS))

    def receive(self) -> Packet | None:
        """Wait for the next packet; None when the client has gone."""
        packet = self.next()
        while packet is None and not self.gone:  # for as long as the client lives
            self._stream.wait(_LONG_S)
            packet = self.next()
        return packet

    def next(self) -> Packet | None:
        """The next packet that is there as a whole."""
        if self._head is None:
            size = self._header.size
            if not self._stream.fill(size):
                if self._stream.ended and self._stream.got:
                    raise BrokenLink(f"a header ends after {self._stream.got} of {size} bytes")
                self.gone = self._stream.ended
                return None
            self._head = self._parsed(self._stream.take(size, whole=False))
        kind, form, nbytes, identity = self._head
        if not self._stream.fill(nbytes):
            if self._stream.ended:
                raise BrokenLink(f"{kind.name} ends after {self._stream.got} of {nbytes} bytes")
            return None
        self._head = None
        body = self._stream.take(nbytes, whole=True)
        fields = form.unpack(body[: form.size])
        if kind is Kind.HELLO:
            self._greeted(fields[1])
            fields = fields[1:]
        return Packet(kind, identity, fields, body[form.size :])

    def _parsed(self, head: bytes) -> tuple[Kind, struct.Struct, int, int]:
        """What a header announces."""
        number, nbytes, identity = self._header.unpack(head)
        first = self._header is wire.FIRST_HEADER
        if number not in set(Kind) or (kind := Kind(number)) not in wire.HEADS:
            raise BrokenLink(f"packet of type {number}, {nbytes} bytes")
        if first != (kind is Kind.HELLO):
            raise BrokenLink(f"{kind.name} {'before' if first else 'after'} the hello")
        form = wire.HEADS[kind]
        if not form.size <= nbytes <= form.size + wire.MAX_DATA_BYTES:
            raise BrokenLink(f"{kind.name} of {nbytes} bytes")
        return kind, form, nbytes, identity

    def _greeted(self, capabilities: int) -> None:
        if capabilities & wire.CAPS != wire.CAPS:
            raise BrokenLink(f"the client's capabilities {capabilities:#x} lack some we need")
        self._header = wire.HEADER

    def send(self, kind: Kind, number: int, body: bytes) -> None:
        """Queue one packet, and write what the client takes now."""
        self._stream.send(self._header.pack(kind, len(body), number) + body)

    def close(self) -> None:
        self._stream.close()
