"""A client's socket that never blocks: what has come of a packet, and what it has not taken yet.

Whoever serves one client goes on with everything else while a packet is on its way, in or out. Each
has a deadline as a whole: a client that drips bytes is given up as one that sends none.
"""

from __future__ import annotations

import array
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence

STALL_S = 10.0
"""A packet that has begun is complete by then, or the client is given up; so it is where it takes
no byte of an answer for as long."""
FULL_BYTES = 1 << 20
"""So many bytes that a client has not taken are enough: it is asked and answered nothing more."""


class BrokenLink(Exception):
    """Bytes after which it is unknown where the next packet begins, or a client that stalls."""


class Stream:
    """A connected socket. `most_descriptors` may come with a packet. Raises: BrokenLink."""

    def __init__(
        self, connection: socket.socket, most_descriptors: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        connection.setblocking(False)
        self._socket, self._most, self._clock = connection, most_descriptors, clock
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(connection, select.POLLIN)
        self._writable.register(connection, select.POLLOUT)
        self._room = socket.CMSG_SPACE((most_descriptors or 1) * array.array("i").itemsize)
        self._got = bytearray()
        self.descriptors: list[int] = []
        """What came beside the bytes of the packet that is under way; whoever takes it clears."""
        self._begun_s: float | None = None
        self._out: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._moved_s = 0.0
        self.unsent = 0
        self.ended = False
        """Whether the client sends nothing more."""

    def fileno(self) -> int:
        """For poll(2)."""
        return self._socket.fileno()

    @property
    def full(self) -> bool:
        """Whether the client has much to take before it is answered again."""
        return self.unsent >= FULL_BYTES

    def wait(self, timeout_s: float) -> None:
        """Until something can be read, or the rest of an answer be written, or some time."""
        (self._writable if self.unsent else self._readable).poll(timeout_s * 1e3)

    def waiting(self) -> bool:
        """Whether something has come, or the end has."""
        return bool(self._readable.poll(0))

    # In

    def fill(self, nbytes: int) -> bool:
        """Read until `nbytes` are there; False where they have not come yet, or the end has."""
        for _ in range(nbytes):  # each turn brings at least a byte
            if len(self._got) >= nbytes or not self._read(nbytes - len(self._got)):
                break
        if len(self._got) >= nbytes:
            return True
        begun_s = self._begun_s
        if begun_s is not None and self._clock() - begun_s > STALL_S:
            raise BrokenLink(f"{len(self._got)} of {nbytes} bytes in {STALL_S:g} s, then silence")
        return False

    @property
    def got(self) -> int:
        """Bytes that have come and are not taken."""
        return len(self._got)

    def _read(self, nbytes: int) -> bool:
        """Whether something came. Not a byte more is read: descriptors belong to their packet."""
        try:
            part, beside, flags, _ = self._socket.recvmsg(
                nbytes, self._room, socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:  # it died with answers that it had not read
            self.ended = True
            raise BrokenLink("the client has gone") from error
        for level, kind, data in beside:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.descriptors.extend(_descriptors(data))
        if flags & socket.MSG_CTRUNC or len(self.descriptors) > self._most:
            raise BrokenLink(f"more than {self._most} descriptors with a message")
        if not part:
            self.ended = True
            return False
        if self._begun_s is None:
            self._begun_s = self._clock()
        self._got += part
        return True

    def take(self, nbytes: int, *, whole: bool) -> bytes:
        """Bytes that are there; `whole`: with them a packet is complete, and has no deadline."""
        taken = bytes(self._got[:nbytes])
        del self._got[:nbytes]
        if whole:
            self._begun_s = None
        return taken

    def take_descriptors(self) -> list[int]:
        """The descriptors of a whole packet, now the caller's to close."""
        taken, self.descriptors = self.descriptors, []
        return taken

    # Out

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Queue bytes, and write what the client takes now."""
        if not self._out:
            self._moved_s = self._clock()
        self._out.append((memoryview(data), descriptors))
        self.unsent += len(data)
        self.flush()

    def flush(self) -> None:
        """Write what the client takes now. Raises: BrokenLink where it has taken none for long."""
        for _ in range(len(self._out) + 1):
            if not self._out:
                return
            data, descriptors = self._out.popleft()
            sent = self._write(data, descriptors)
            self.unsent -= sent
            if sent:
                self._moved_s = self._clock()
            if sent < len(data):
                self._out.appendleft((data[sent:], () if sent else descriptors))
                break
        if self._clock() - self._moved_s > STALL_S:
            raise BrokenLink("the client does not read its replies")

    def _write(self, data: memoryview, descriptors: Sequence[int]) -> int:
        rights = array.array("i", descriptors).tobytes()
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
        try:
            return self._socket.sendmsg([data], beside)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise BrokenLink("the client has gone") from error

    def close(self) -> None:
        """End the connection, and close what came with half a packet."""
        close_all(self.descriptors)
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
