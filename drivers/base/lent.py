"""Memory that another library lends to a device: its address or handle, and whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from drivers.base.errors import BadArgument, Unsupported

ADDRESS: Final = "address"
"""Kind of memory that `pointer` is the host's address of."""
SVM: Final = "svm"
"""The same of OpenCL's shared virtual memory."""
DMABUF: Final = "dmabuf"
"""Kind of memory that `pointer` is a file descriptor of."""
_ADDRESSES: Final = (ADDRESS, SVM)
_POINTERS: Final = 1 << 64
_DESCRIPTORS: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """A range of bytes that a device reads; nothing is written to it."""

    pointer: int
    """An address, a handle of an interface ("cl_mem") or a descriptor, as `kind` says."""
    first: int
    """Bytes from what `pointer` names to the first one that is used; below 0 for addresses only."""
    nbytes: int
    """Used bytes, 1 or more."""
    align: int = 1
    """Bytes of which the first used one is a multiple."""
    kind: str = ""
    """"": the device's first kind."""
    readonly: bool = False
    """Whether the host may not write it."""
    bounds: tuple[int, int] | None = None
    """(address, bytes) of the lender's memory around it, where it says so."""
    owner: object = field(default=None, repr=False, compare=False)
    """Kept until no work uses the memory."""

    @property
    def address(self) -> int:
        """The first used byte of memory that has an address."""
        return self.pointer + self.first


class Streams(Protocol):
    """The order between a device's work and streams of other libraries, numbered as in DLPack."""

    def mine(self) -> int:
        """The stream whose work the device's kernels wait for from now on."""

    def follow(self, stream: int) -> None:
        """Work on a stream from now on waits for the device's. Raises: BufferError."""

    def precede(self, stream: int) -> None:
        """Kernels from now on wait for what is on a stream. Raises: BufferError."""


class Exported(NamedTuple):
    """Memory of ours as a dma-buf. The descriptor is the caller's to close."""

    fd: int
    offset: int
    """Bytes from the start of the dma-buf to the memory."""
    nbytes: int


def checked_kind(lent: Lent, kinds: Sequence[str], device: str) -> str:
    """The kind of a pointer that can be one.

    Raises: BadArgument for a null pointer, one that is not aligned, or outside of the lender's
    memory; Unsupported for a kind that the device does not share.
    """
    if lent.kind == DMABUF and DMABUF in kinds:
        if type(lent.pointer) is not int or not 0 <= lent.pointer < _DESCRIPTORS:
            raise BadArgument(f"{lent.pointer!r:.40} is not a descriptor", hint="pass its number")
    elif type(lent.pointer) is not int or not 0 < lent.pointer < _POINTERS:
        raise BadArgument(
            f"{lent.pointer!r:.40} is not a pointer", hint="pass it as an int above 0"
        )
    kind = lent.kind or kinds[0]
    if kind not in kinds:
        raise Unsupported(
            f"{device} shares no memory of kind {kind!r:.40}, only {' and '.join(kinds)}",
            hint=f"copy the elements: asarray(..., device={device!r})",
        )
    first = lent.first
    if kind in _ADDRESSES:
        first = lent.address
        start, size = lent.bounds or (0, _POINTERS)
        check_inside(first - start, lent.nbytes, size, start)
    if first % lent.align:
        raise BadArgument(
            f"byte {lent.first} of {lent.pointer:#x} is not aligned to {lent.align} bytes",
            hint="copy the elements, or share memory that begins at a whole element",
        )
    return kind


def check_address(lent: Lent) -> None:
    """Raises: BadArgument for bytes of which some have no address in 64 bits."""
    check_inside(lent.address, lent.nbytes, _POINTERS, 0)


def check_inside(first: int, span: int, nbytes: int, start: int) -> None:
    """Raises: BadArgument for `span` bytes that are not inside of `nbytes` from `start` on."""
    if not 0 <= first <= nbytes - span:
        raise BadArgument(
            f"bytes {first} ... {first + span} are outside of the {nbytes} at {start:#x}",
            hint="correct the shape, the strides or the offset, or pass the object that has them",
        )
