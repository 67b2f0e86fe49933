"""One client's socket: whole messages in, whole replies out, descriptors with the right ones.

Header and body are read with their exact lengths, because the kernel hands over descriptors with
the first byte they were sent with.
"""

from __future__ import annotations

import array
import errno
import os
import select
import socket
from collections.abc import Sequence

from boards.vfio_user import wire
from boards.vfio_user.wire import Message

STALL_S = 10.0
"""A message that has begun is complete by then, or the client is given up."""


class BrokenLink(Exception):
    """Bytes after which it is unknown where the next message begins, or a client that stalls."""


class Link:
    """A connected socket. Raises: BrokenLink, OSError of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(STALL_S)
        self._socket = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def waiting(self, timeout_s: float) -> bool:
        """Whether something has come, or the end has, within some time."""
        return bool(self._poll.poll(timeout_s * 1e3))

    def receive(self) -> Message | None:
        """The next command; None when the client has gone."""
        descriptors: list[int] = []
        try:
            return self._receive(descriptors)
        except BaseException:
            close_all(descriptors)
            raise

    def _receive(self, descriptors: list[int]) -> Message | None:
        head = self._read(wire.HEADER.size, descriptors)
        if not head:
            close_all(descriptors)
            return None
        number, command, nbytes, flags, _ = wire.HEADER.unpack(head)
        if flags & wire.TYPE_MASK:
            raise BrokenLink(f"a message of type {flags & wire.TYPE_MASK} is no command")
        body_bytes = nbytes - wire.HEADER.size
        if not 0 <= body_bytes <= wire.MAX_BODY_BYTES:
            self.reply_error(Message(number, command, True, b""), errno.EMSGSIZE)
            raise BrokenLink(f"a message of {nbytes} bytes")
        body = self._read(body_bytes, descriptors)
        if len(body) != body_bytes:
            raise BrokenLink(f"the client left after {len(body)} of {body_bytes} bytes")
        return Message(number, command, not flags & wire.NO_REPLY, body, descriptors)

    def _read(self, nbytes: int, descriptors: list[int]) -> bytes:
        """Exactly `nbytes`; nothing when the client left before the first. Raises: BrokenLink."""
        got = bytearray()
        room = socket.CMSG_SPACE(wire.MAX_DESCRIPTORS * array.array("i").itemsize)
        for _ in range(nbytes):  # each turn brings at least a byte
            if len(got) == nbytes:
                break
            try:
                part, beside, flags, _ = self._socket.recvmsg(
                    nbytes - len(got), room, socket.MSG_CMSG_CLOEXEC
                )
            except TimeoutError as error:
                raise BrokenLink(f"{len(got)} of {nbytes} bytes, then nothing") from error
            except ConnectionResetError as error:  # it died with replies that it had not read
                raise BrokenLink("the client has gone") from error
            for level, kind, data in beside:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    descriptors.extend(_descriptors(data))
            if flags & socket.MSG_CTRUNC or len(descriptors) > wire.MAX_DESCRIPTORS:
                raise BrokenLink(f"more than {wire.MAX_DESCRIPTORS} descriptors with a message")
            if not part:
                if got:
                    raise BrokenLink(f"the client left after {len(got)} of {nbytes} bytes")
                break
            got += part
        return bytes(got)

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
        data = wire.HEADER.pack(to.message_id, to.command, size, flags, error) + payload
        rights = array.array("i", descriptors).tobytes()
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
        try:
            sent = self._socket.sendmsg([data], beside)
            if sent < len(data):
                self._socket.sendall(data[sent:])
        except TimeoutError as error_:
            raise BrokenLink("the client does not read its replies") from error_
        except (BrokenPipeError, ConnectionResetError) as error_:
            raise BrokenLink("the client has gone") from error_

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


def _descriptors(data: bytes) -> list[int]:
    found = array.array("i")
    found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return found.tolist()


def close_all(descriptors: list[int]) -> None:
    """Close descriptors that were not taken."""
    for descriptor in descriptors:
        os.close(descriptor)
    descriptors.clear()
