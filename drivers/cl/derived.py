"""Objects that OpenCL makes of memory that a buffer already has: sub-buffers and images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

from drivers.base.errors import Unsupported
from drivers.base.undo import Step
from drivers.cl.api import Api
from drivers.cl.memory import Block


class DerivedOwner(Protocol):
    """The device, as far as these objects need it."""

    api: Api

    def drop(self, releases: Iterable[Step]) -> None:
        """Finalisers call this at any moment: release objects later, with the lock held."""


class Derived:
    """cl_mem objects of one part or image: released with its buffer, or with the device.

    Commands that use one keep it. # src: OpenCL API 3.0, clReleaseMemObject
    """

    def __init__(self, device: DerivedOwner, handles: Sequence[int]) -> None:
        self._device, self._handles = device, handles
        self.closed = False

    def close(self) -> None:
        """Finalisers call this at any moment; a second call does nothing."""
        if not self.closed:
            self.closed = True
            release = self._device.api.do
            self._device.drop(partial(release, "clReleaseMemObject", one) for one in self._handles)


def plain(block: Block) -> Block:
    """Memory that is copied byte by byte. Raises: Unsupported for an image."""
    if block.image:
        raise Unsupported("an image is not copied as bytes", hint="copy the buffer that it shows")
    return block
