"""Copies of any number of bytes, where WebGPU copies whole words.

The last bytes of a copy that ends inside a word, and not at the end of the buffer, are put into
their word by the host.
# src: WebGPU, GPUCommandEncoder.copyBufferToBuffer, GPUQueue.writeBuffer: multiples of 4
"""

from __future__ import annotations

from drivers.webgpu.memory import Block
from drivers.webgpu.stream import WORD_BYTES, Stream


class Copies:
    """Copies of one stream, in its order."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def copy(self, dst: Block, src: Block, nbytes: int, room: int) -> None:
        """The first bytes of a block to the first of another, of which a buffer has `room`."""
        whole = _whole(nbytes, room)
        if whole:
            self._stream.copy(dst.handle, src.handle, whole)
        if whole < nbytes:
            word = bytearray(WORD_BYTES)
            self._stream.read(src.handle, whole, memoryview(word))
            self._patch(dst, whole, memoryview(word)[: nbytes - whole])

    def write(self, dst: Block, data: memoryview, room: int) -> None:
        """The host's bytes to the first of a block, of which a buffer has `room`."""
        whole = _whole(data.nbytes, room)
        inside = min(whole, data.nbytes & -WORD_BYTES)
        if inside:
            self._stream.write(dst.handle, 0, data[:inside])
        if inside < whole:  # a last word with nothing else in it
            word = bytes(data[inside:]).ljust(WORD_BYTES, b"\0")
            self._stream.write(dst.handle, inside, memoryview(word))
        elif inside < data.nbytes:
            self._patch(dst, inside, data[inside:])

    def _patch(self, dst: Block, at: int, data: memoryview) -> None:
        word = bytearray(WORD_BYTES)
        self._stream.read(dst.handle, at, memoryview(word))
        word[: data.nbytes] = data
        self._stream.write(dst.handle, at, memoryview(word))


def _whole(nbytes: int, room: int) -> int:
    """Bytes that are copied as whole words."""
    return nbytes + -nbytes % WORD_BYTES if nbytes == room else nbytes & -WORD_BYTES
