"""Copies between the host's memory and the card, and their order with the two queues."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from drivers.amd.iface import Apertures, Iface, Memory
from drivers.amd.memory import AmdBuffer, Moment, host_bytes
from drivers.amd.queues import Queues
from drivers.amd.staging import Staging
from drivers.base.buffer import flat
from drivers.base.contracts import Buffer
from drivers.base.errors import BadArgument
from queues.amd.pm4_launch import Target


class HostCopies(Queues):
    """The copy half of the device."""

    def __init__(
        self,
        name: str,
        iface: Iface,
        target: Target,
        apertures: Apertures | None,
        limit_bytes: int,
        hang_s: float,
    ) -> None:
        super().__init__(name, iface, target, apertures, limit_bytes, hang_s)
        self._staging: Staging | None = None
        self._copied = False
        """Whether a copy queue wrote past the compute queue's caches since their last acquire."""

    def upload(self, memory: Memory, data: bytes) -> None:
        """Copy code to the card; the compute queue sees it from its next work on."""
        if not self.iface.write_code(memory, data):
            with self._stager() as staging:
                staging.copy_in(self.copies, memory.gpu_va, memoryview(data), self.wait_ring)
        self.stale = True

    @contextmanager
    def _stager(self) -> Iterator[Staging]:
        """The memory that host copies go through, for one thread at a time.

        A signal handler that copies in the middle of a copy of its thread gets memory of its own.
        """
        with self.lock:
            if self._staging is None:
                self._staging = Staging(self.iface)
        shared = self._staging
        with shared.lock:
            staging = Staging(self.iface) if shared.busy else shared
            staging.busy = True
            try:
                yield staging
            finally:
                staging.busy = False
                if staging is not shared:
                    self.give_back(staging.let_go())

    def copy_in(self, dst: Buffer, src: memoryview) -> None:
        """Copy host memory to the start of `dst`, after everything submitted before."""
        va = self.copy_word(dst, src.nbytes, write=True)
        if self._untouched(dst):
            self._check_runs()
        else:
            self.synchronize()
        if src.nbytes:
            seen = host_bytes(dst)
            if seen is not None:
                seen[: src.nbytes] = flat(src)
            else:
                with self._stager() as staging:
                    staging.copy_in(self.copies, va, flat(src), self.wait_ring)
            self.stale = True
            self.invalidate_sharers()

    @property
    def moment(self) -> Moment:
        """The compute queue, and the position of its last work."""
        ring = self.compute
        return ring, ring.put

    def _untouched(self, dst: Buffer) -> bool:
        """Whether no queued work uses a buffer, and no cache holds lines that its last owner wrote.

        True of one allocated after the last launch, of memory that is new, or whose former users
        came before a flush that is done. A copy to it need not wait for the compute queue.
        """
        if not isinstance(dst, AmdBuffer) or dst.others:
            return False
        block, ring = dst.block, self.compute
        if block is None or dst.since != (ring, ring.put) or not self.copies.idle:
            return False
        if block.used is None:
            return True
        where, used = block.used
        return where is ring and used <= self._clean <= ring.done

    def _check_runs(self) -> None:
        """Without waiting. Raises: UseAfterFree; DeviceFault; why the queue stopped."""
        if self._closed:
            self._refuse()
        if self.compute.broken is not None:
            raise self.compute.broken.with_traceback(None)
        self.sleep(0)

    def invalidate_sharers(self) -> None:
        """After a wait: caches of other GPUs, and of the compute queue here, may be stale."""
        super().invalidate_sharers()
        if self._copied:
            self.stale, self._copied = True, not self.copies.idle

    def copy_out(self, dst: memoryview, src: Buffer) -> None:
        """Copy the start of `src` to host memory, after everything submitted before."""
        va = self.copy_word(src, dst.nbytes, write=False)
        if dst.readonly or not dst.c_contiguous:
            raise BadArgument(
                "the destination is read-only or not contiguous", hint="pass writable memory"
            )
        self.synchronize()
        seen = host_bytes(src)
        if dst.nbytes and seen is not None:
            dst.cast("B")[:] = seen[: dst.nbytes]
        elif dst.nbytes:
            with self._stager() as staging:
                staging.copy_out(self.copies, dst.cast("B"), va, self.wait_ring)

    def run_copies(self, packets: Iterable[Sequence[int]], check: Callable[[], None]) -> None:
        """Give packets to the copy queue, in order."""
        ring = self.copies
        with ring.lock:
            check()
            self._copied = True
            ring.emit(packets)

    @abstractmethod
    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> int:
        """The address of a buffer that `nbytes` are copied from or to."""
