"""Buffers: blocks of the card's memory, and host memory that the card reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivers.base.buffer import FreedOnce
from drivers.base.contracts import Buffer, Device
from drivers.base.errors import Unsupported
from drivers.gpu.blocks import Block, Imported, Wrapped

if TYPE_CHECKING:
    from drivers.gpu.owner import Owner


class GpuBuffer(FreedOnce):
    """Memory on the card, or host memory that the card reaches (`wrap`).

    A buffer that is dropped without `free` is freed by its finaliser.
    """

    __slots__ = ("__weakref__", "_held", "device", "others", "readonly", "since")

    def __init__(
        self,
        device: Owner,
        nbytes: int,
        held: Block | Wrapped | Imported,
        *,
        readonly: bool = False,
    ) -> None:
        self._held: Block | Wrapped | Imported | None = held
        super().__init__(held.bo.gpu_va if isinstance(held, Wrapped) else held.gpu_va, nbytes)
        self.device, self.readonly = device, readonly
        self.since = device.heap.users.moment
        """When it was allocated."""
        self.others: tuple[Owner, ...] = ()
        """Other devices that reach it at the same address."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.nbytes} bytes of {self.device.name})"

    @property
    def block(self) -> Block | None:
        """Its block of the card's memory; None for lent memory."""
        return self._held if isinstance(self._held, Block) else None

    def narrow(self, off: int, nbytes: int) -> None:
        """Keep a part of lent memory alone, before anybody uses the buffer."""
        held = self._held
        if not isinstance(held, Block):
            self.gpu_va, self.nbytes = self.gpu_va + off, nbytes
        if isinstance(held, Wrapped):
            held.memory = held.memory[off : off + nbytes]

    @property
    def host(self) -> memoryview | None:
        """The bytes of wrapped memory, or, to read, of a GPU whose memory is the machine's.

        Kernels' results are visible after `synchronize`. Write with `copy_in`, after which
        the GPU's caches are invalidated. None for memory on a card. Raises: UseAfterFree.
        """
        held = self._held
        if held is None:
            raise self._gone()
        if isinstance(held, Wrapped):
            return held.memory.toreadonly() if self.readonly else held.memory
        if self.device.heap.unified and isinstance(held, Block):
            return self._bytes(held).toreadonly()
        return None

    def view(self) -> memoryview:
        """The same. Raises: Unsupported for memory on a card."""
        found = self.host
        if found is None:
            raise Unsupported(f"{self!r} is not visible to the host", hint="copy_out() it")
        return found

    def _bytes(self, held: Block) -> memoryview:
        off = self.gpu_va - held.bo.gpu_va
        return held.bo.view()[off : off + self.nbytes]

    def host_bytes(self) -> memoryview | None:
        """A view for host copies without a copy engine; None where they need one."""
        held = self._held
        if not self.device.heap.unified or not isinstance(held, Block):
            return None
        return self._bytes(held)

    def before_read(self, nbytes: int) -> None:
        """The host is about to read its first bytes; the owner has waited for the GPU."""

    def before_store(self, nbytes: int) -> None:
        """The host is about to store to its first bytes; the owner has waited for the GPU."""

    def after_store(self, nbytes: int) -> None:
        """The host has stored to its first bytes: the GPU is to see them."""

    def map_to(self, other: Device) -> int:
        """Let another GPU of this process reach it; the address is the same there."""
        held = self._held
        if held is None:
            raise self._gone()
        if not isinstance(other, type(self.device)) or not self.device.iface.shares(other.iface):
            raise Unsupported(
                f"memory of {self.device.name} cannot be mapped to {other.name}",
                hint="copy it through the host",
            )
        if other is not self.device:
            held.bo.map_to(other.iface)
            self.device.share_with(other)
            self.others = (*self.others, other)
        return self.gpu_va

    def free(self) -> None:
        """Give the memory back. Raises: UseAfterFree the second time."""
        self._end()
        held, self._held = self._held, None
        if held is not None:
            self.device.give_back(held)

    def __del__(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self.device.give_back(held)


def stored(buffer: Buffer, data: memoryview) -> bool:
    """Store the host's bytes at a buffer's start; False: that needs a copy engine."""
    seen = buffer.host_bytes() if isinstance(buffer, GpuBuffer) else None
    if seen is None or not isinstance(buffer, GpuBuffer):
        return False
    buffer.before_store(data.nbytes)
    seen[: data.nbytes] = data
    buffer.after_store(data.nbytes)
    return True


def read(buffer: Buffer, out: memoryview) -> bool:
    """Read a buffer's start to the host's bytes; False: that needs a copy engine."""
    seen = buffer.host_bytes() if isinstance(buffer, GpuBuffer) else None
    if seen is None or not isinstance(buffer, GpuBuffer):
        return False
    buffer.before_read(out.nbytes)
    out[:] = seen[: out.nbytes]
    return True
