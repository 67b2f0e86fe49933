"""One client's socket: whole messages in, whole replies out, descriptors with the right ones.

Header and body are read with their exact lengths, because the kernel hands over descriptors with
the first byte they were sent with. Nothing blocks.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from boards.vfio_user import wire
from boards.vfio_user.stream import BrokenLink, Stream
from boards.vfio_user.wire import Message


class Link:
    """A connected socket. Raises: BrokenLink."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = Stream(connection, wire.MAX_DESCRIPTORS)
        self._head: tuple[int, int, int, int, int] | None = None
        """The header of a message whose body is under way."""
        self.gone = False
        """Whether the client has left after a whole message."""

    def wait(self, timeout_s: float) -> None:
        """Until something comes, the rest of a reply can be written, or some time."""
        self._stream.wait(timeout_s)

    def waiting(self) -> bool:
        """Whether something has come, or the end has."""
        return self._stream.waiting()

    def next(self) -> Message | None:
        """The next command that is there as a whole; none before the last reply is taken."""
        stream = self._stream
        if stream.unsent:
            stream.flush()
            if stream.unsent:
                return None
        if self._head is None:
            if not self._filled(wire.HEADER.size):
                self.gone = stream.ended
                return None
            self._head = wire.HEADER.unpack(stream.take(wire.HEADER.size, whole=False))
        number, command, nbytes, flags, _ = self._head
        if flags & wire.TYPE_MASK:
            raise BrokenLink(f"a message of type {flags & wire.TYPE_MASK} is no command")
        body_bytes = nbytes - wire.HEADER.size
        if not 0 <= body_bytes <= wire.MAX_BODY_BYTES:
            self.reply_error(Message(number, command, True, b""), errno.EMSGSIZE)
            raise BrokenLink(f"a message of {nbytes} bytes")
        if not self._filled(body_bytes, begun=True):
            return None
        self._head = None
        body = stream.take(body_bytes, whole=True)
        descriptors = stream.take_descriptors()
        return Message(number, command, not flags & wire.NO_REPLY, body, descriptors)

    def _filled(self, nbytes: int, *, begun: bool = False) -> bool:
        """Whether so many bytes are there. Raises: BrokenLink where the end came between."""
        stream = self._stream
        if stream.fill(nbytes):
            return True
        if stream.ended and (begun or stream.got):
            raise BrokenLink(f"the client left after {stream.got} of {nbytes} bytes")
        return False

    def reply(self, message: Message, payload: bytes, descriptors: Sequence[int] = ()) -> None:
        """Answer a command that wants an answer."""
        if message.wants_reply:
            self._send(message, wire.TYPE_REPLY, 0, payload, descriptors)

    def reply_error(self, message: Message, number: int) -> None:
        """Refuse a command; a reply with an error has no payload."""
        if message.wants_reply:
            self._send(message, wire.TYPE_REPLY | wire.ERROR, number, b"", ())

    def _send(
        self, to: Message, flags: int, error: int, payload: bytes, descriptors: Sequence[int]
    ) -> None:
        size = wire.HEADER.size + len(payload)
        head = wire.HEADER.pack(to.message_id, to.command, size, flags, error)
        self._stream.send(head + payload, descriptors)

    def close(self) -> None:
        """End the connection."""
        self._stream.close()
