"""Copies between buffers: large ones by a kernel, the rest by the command processor, word by word.

The kernel's code is loaded with the first large copy. Each of its launches is a submission of its
own: what the command processor copied before is in memory then, and what it writes is, after.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import RLock
from typing import Final

from drivers.base import forks
from drivers.gpu.iface import GpuIface, Memory, Use
from queues.qcom import copy_code
from queues.qcom import words as qcom_words
from queues.qcom.bound import BoundLaunch
from queues.qcom.chips import Chip
from queues.qcom.copy_code import BLOCK, UNIT_BYTES
from queues.qcom.launch import Kernel
from queues.qcom.words import Packets

LEAST_BYTES: Final = 64 << 10
"""Of a copy by a kernel; its launch costs some 100 packets."""
MOST_GROUPS: Final = 1 << 14
"""Of a launch: 16 MiB, 16 ms at 1 GB/s each way. Not measured."""


class Copier:
    """What copies on one GPU."""

    def __init__(self, iface: GpuIface, chip: Chip) -> None:
        self._iface, self._chip = iface, chip
        self._held: Memory | None = None
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self._lock = RLock()

    def parts(self, dst: int, src: int, nbytes: int) -> Iterator[Packets]:
        """Packets that copy whole words. Raises: BadArgument for others; OutOfMemory."""
        whole = nbytes - nbytes % UNIT_BYTES
        apart = dst + nbytes <= src or src + nbytes <= dst
        if nbytes < LEAST_BYTES or (dst | src) % UNIT_BYTES or not apart:
            whole = 0
        step = MOST_GROUPS * BLOCK * UNIT_BYTES
        for off in range(0, whole, step):
            yield self._launch(dst + off, src + off, min(step, whole - off))
        if nbytes > whole:
            yield from qcom_words.copies(dst + whole, src + whole, nbytes - whole)

    def _launch(self, dst: int, src: int, nbytes: int) -> Packets:
        units = nbytes // UNIT_BYTES
        launch = BoundLaunch(
            chip=self._chip, kernel=self._kernel(), block=(BLOCK, 1, 1),
            grid=(-(-units // BLOCK), 1, 1), args=(dst, src, units), number=0,
        )  # fmt: skip
        return Packets(launch.words(), copied=qcom_words.MOST_COPIED_WORDS)

    def _kernel(self) -> Kernel:
        generation = self._chip.generation
        with self._lock:
            if self._held is None:
                data = copy_code.image(generation)
                held = self._iface.allocate(len(data), Use.CODE, "code of copies", host=True)
                self._iface.write_code(held, data)
                self._held = held
            return copy_code.kernel(generation, self._held.gpu_va)

    def close(self) -> None:
        """Free the code. A second close does nothing."""
        held, self._held = self._held, None
        if held is not None:
            held.free()
