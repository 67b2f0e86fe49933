"""Copies between the host's memory and the card, and their order with the two queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic

from drivers.base.buffer import flat
from drivers.base.contracts import Buffer
from drivers.gpu.buffer import GpuBuffer, read, stored
from drivers.gpu.iface import GpuIface, Memory
from drivers.gpu.pair import C, M, RingPair
from drivers.gpu.staging import Stager, Staging
from drivers.gpu.waits import Waits


class Transfers(Generic[C, M]):
    """Host copies of one device; `give_back` takes staging memory that is no longer needed."""

    def __init__(
        self,
        iface: GpuIface,
        pair: RingPair[C, M],
        waits: Waits[C, M],
        give_back: Callable[[Memory], object],
        stager: Callable[[], Stager] | None = None,
    ) -> None:
        """`stager` makes what host copies go through, where memory of the host is not reached."""
        self._new_stager: Callable[[], Stager] = stager or partial(Staging, iface)
        self._iface, self._pair, self._waits, self._give_back = iface, pair, waits, give_back
        self.staging: Stager | None = None

    def upload(self, memory: Memory, data: bytes) -> None:
        """Copy code to the card; the compute queue sees it from its next work on."""
        if not self._iface.write_code(memory, data):
            with self._stager() as staging:
                place, code = memory.gpu_va, memoryview(data)
                staging.copy_in(self._pair.copies, place, code, self._waits.wait_ring)
        self._pair.compute.stale = True

    @contextmanager
    def _stager(self) -> Iterator[Stager]:
        """The memory that host copies go through, for one thread at a time.

        A signal handler that copies in the middle of a copy of its thread gets memory of its own.
        """
        with self._pair.lock:
            if self.staging is None:
                self.staging = self._new_stager()
        shared = self.staging
        with shared.lock:
            staging = self._new_stager() if shared.busy else shared
            staging.busy = True
            try:
                yield staging
            finally:
                staging.busy = False
                if staging is not shared:
                    self._give_back(staging.let_go())

    def copy_in(self, dst: Buffer, va: int, src: memoryview) -> None:
        """Copy host memory to `va`, the start of `dst`, after everything submitted before."""
        if self._untouched(dst):
            self._waits.check_runs()
        else:
            self._waits.synchronize()
        if src.nbytes:
            if not stored(dst, flat(src)):
                with self._stager() as staging:
                    staging.copy_in(self._pair.copies, va, flat(src), self._waits.wait_ring)
            self._pair.compute.stale = True
            self._pair.invalidate_sharers()

    def _untouched(self, dst: Buffer) -> bool:
        """Whether no queued work uses a buffer, and no cache holds lines that its last owner wrote.

        True of one allocated after the last launch, of memory that is new, or whose former users
        came before a flush that is done. A copy to it need not wait for the compute queue.
        """
        if not isinstance(dst, GpuBuffer) or dst.others:
            return False
        block, ring = dst.block, self._pair.compute
        if block is None or dst.since != (ring, ring.put) or not self._pair.copies.idle:
            return False
        if block.used is None:
            return True
        where, used = block.used
        return where is ring and used <= ring.clean <= ring.done

    def copy_out(self, dst: memoryview, src: Buffer, va: int) -> None:
        """Copy `va`, the start of `src`, to host memory, after everything submitted before."""
        self._waits.synchronize()
        if dst.nbytes and not read(src, dst.cast("B")):
            with self._stager() as staging:
                staging.copy_out(self._pair.copies, dst.cast("B"), va, self._waits.wait_ring)

    def close(self) -> None:
        """Free the staging memory; no copy is under way."""
        if self.staging is not None:
            self.staging.close()
