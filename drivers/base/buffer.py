"""Common to buffers of every device: freed once, unusable afterwards, checks of copies."""

from __future__ import annotations

from drivers.base.errors import BadArgument, UseAfterFree


class FreedOnce:
    """The attribute `gpu_va` is gone after `_end`, and reading it raises UseAfterFree.

    So launch paths only read it, without another check.
    """

    __slots__ = ("gpu_va", "nbytes")

    def __init__(self, gpu_va: int, nbytes: int) -> None:
        self.gpu_va, self.nbytes = gpu_va, nbytes

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise self._gone()
        raise AttributeError(name)

    def _gone(self) -> UseAfterFree:
        return UseAfterFree(
            f"a buffer of {self.nbytes} bytes was used after it was freed",
            hint="keep the buffer until the work that uses it is done",
        )

    def _end(self) -> None:
        """Raises: UseAfterFree the second time."""
        try:
            del self.gpu_va
        except AttributeError as error:
            raise UseAfterFree(
                f"a buffer of {self.nbytes} bytes was freed twice", hint="free each buffer once"
            ) from error


def checked_size(nbytes: object) -> int:
    """A size that can be allocated. Raises: BadArgument."""
    if type(nbytes) is not int or nbytes < 0:
        raise BadArgument(f"{nbytes!r} is not a size in bytes", hint="pass an int, 0 or more")
    return nbytes


def host_nbytes(memory: object) -> int:
    """Bytes of host memory that is copied from or to.

    Raises: BadArgument for anything but a memoryview, UseAfterFree for one that was released.
    """
    if not isinstance(memory, memoryview):
        raise BadArgument(
            f"{type(memory).__name__} is not a memoryview of host memory", hint="pass memoryview(x)"
        )
    try:
        return memory.nbytes
    except ValueError as error:
        raise UseAfterFree(
            f"the memoryview of host memory is gone: {error}", hint="copy before it is released"
        ) from error


def wrapped_bytes(memory: object) -> memoryview:
    """The bytes of host memory that becomes a buffer. Raises: BadArgument, UseAfterFree."""
    nbytes = host_nbytes(memory)
    if not isinstance(memory, memoryview) or not memory.c_contiguous:
        raise BadArgument("only a C-contiguous memoryview can be wrapped", hint="copy it first")
    return memory.cast("B") if nbytes else memoryview(b"")


def flat(memory: memoryview) -> memoryview:
    """The bytes in C order; a copy only when they are not contiguous."""
    if not memory.nbytes:
        return memoryview(b"")
    return memory.cast("B") if memory.c_contiguous else memoryview(memory.tobytes())
