"""Buffers over blocks that a library gave: freed by name, once, or by the finaliser."""

from __future__ import annotations

from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from drivers.base.buffer import FreedOnce
from drivers.base.contracts import Device
from drivers.base.errors import BadArgument, Unsupported
from drivers.base.undo import Step


class HasAddress(Protocol):
    """A block, as far as every buffer needs it."""

    @property
    def gpu_va(self) -> int:
        """Its address, or the number that stands for one."""


class Home(Device, Protocol):
    """The device, as far as a buffer needs it."""

    def give_back(self, block: Any) -> None:
        """Finalisers call this at any moment: it only appends."""

    def seen(self, buffer: Any) -> memoryview | None:
        """What the host sees of a live buffer; None: nothing."""


HomeT = TypeVar("HomeT", bound=Home)
BlockT = TypeVar("BlockT", bound=HasAddress)


class HostedBuffer(FreedOnce, Generic[HomeT, BlockT]):
    """A block of a device. `give_back` takes it when the buffer ends; else the device does."""

    __slots__ = ("__weakref__", "_block", "_give_back", "device", "over", "readonly")

    def __init__(
        self, device: HomeT, block: BlockT, nbytes: int, give_back: Step | None = None,
        over: HostedBuffer[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.device, self._block, self.readonly, self.over = device, block, False, over
        """`over`: the buffer whose memory this is a part of, which it does not outlive."""
        self._give_back = give_back or partial(device.give_back, block)
        super().__init__(block.gpu_va, nbytes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.nbytes} bytes of {self.device.name})"

    @property
    def block(self) -> BlockT:
        """Its memory. Raises: UseAfterFree, also where what it is a part of was freed."""
        _ = self.gpu_va
        if self.over is not None:
            _ = self.over.block
        return self._block

    @property
    def host(self) -> memoryview | None:
        """What the host sees; None: nothing. Raises: UseAfterFree."""
        _ = self.block
        return self.device.seen(self)

    def view(self) -> memoryview:
        """The same. Raises: Unsupported where the host sees nothing."""
        found = self.host
        if found is None:
            raise Unsupported(
                f"the host does not see memory of {self.device.name}", hint="use copy_out()"
            )
        return found

    def map_to(self, other: Device) -> int:
        va = self.gpu_va
        if other is not self.device:
            raise Unsupported(f"memory of {self.device.name} stays there", hint="copy it")
        return va

    def free(self) -> None:
        self._end()
        self._give_back()

    def __del__(self) -> None:
        try:
            del self.gpu_va
        except AttributeError:
            return  # freed by name
        self._give_back()


def check_destination(dst: memoryview) -> None:
    """Raises: BadArgument for host memory that copy_out() cannot fill."""
    if dst.readonly or not dst.c_contiguous:
        raise BadArgument("the destination is read-only or not contiguous", hint="another one")
