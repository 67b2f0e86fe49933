"""Buffers of the CPU device: blocks of its memory, and wrapped host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivers.base.buffer import FreedOnce
from drivers.base.contracts import Device
from drivers.base.errors import Unsupported
from drivers.cpu.memory import Storage

if TYPE_CHECKING:
    from drivers.cpu.owner import Owner


class CpuBuffer(FreedOnce):
    """Memory of the CPU device, or wrapped host memory. `gpu_va` is its host address.

    A buffer that is dropped without `free` is freed by its finaliser.
    """

    __slots__ = ("__weakref__", "_held", "device", "readonly")

    def __init__(
        self,
        device: Owner,
        nbytes: int,
        gpu_va: int,
        held: Storage | memoryview,
        readonly: bool,
    ) -> None:
        self._held: Storage | memoryview | None = held
        super().__init__(gpu_va, nbytes)
        self.device, self.readonly = device, readonly

    def __repr__(self) -> str:
        return f"CpuBuffer({self.nbytes} bytes{', read-only' if self.readonly else ''})"

    @property
    def host(self) -> memoryview:
        """The bytes themselves; read-only for wrapped read-only memory."""
        held = self._held
        if held is None:
            raise self._gone()
        view = (held.view if isinstance(held, Storage) else held)[: self.nbytes]
        return view.toreadonly() if self.readonly else view

    def view(self) -> memoryview:
        """The same."""
        return self.host

    def map_to(self, other: Device) -> int:
        """CPU devices share one address space. Raises: Unsupported for any other device."""
        if not isinstance(other, type(self.device)):
            raise Unsupported(
                f"memory of {self.device.name} cannot be mapped to {other.name}",
                hint="copy it through the host",
            )
        return self.gpu_va

    def free(self) -> None:
        """Give the memory back once parked work is done. Raises: UseAfterFree the second time."""
        self._end()
        held, self._held = self._held, None
        if held is not None:
            self.device.released(held)

    def __del__(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self.device.freed(held)
