"""Threads that copy host memory while a copy engine works; they live as long as one copy."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final, Self, TypeAlias

from drivers.base.interrupts import deferred

Move: TypeAlias = Callable[[int, int, int], int]
"""memcpy(3): (destination, source, bytes), the GIL released inside."""
THREADS: Final = 3
"""PCIe 4.0 x16 carries some 26 GB/s, one thread copies some 10 GB/s (estimates)."""
LEAST_BYTES: Final = 8 << 20
"""Smallest copy that starts threads. They cost some 0.2 ms: one thread's copy of 2 MiB."""


class Job:
    """One piece of host memory to copy."""

    __slots__ = ("_done", "dst", "finished", "nbytes", "src")

    def __init__(self, dst: int, src: int, nbytes: int) -> None:
        self.dst, self.src, self.nbytes = dst, src, nbytes
        self.finished = False
        self._done = Lock()
        self._done.acquire()

    def run(self, move: Move) -> None:
        """Copy it. Hardware: the lock's own instruction drains write-combining buffers, too.

        # src: Intel SDM 3A, 12.3.1 "Buffering of Write Combining Memory Locations"
        """
        move(self.dst, self.src, self.nbytes)
        self._done.release()
        self.finished = True

    def wait(self) -> None:
        """Return once it is copied. A second call returns at once.

        A ^C may leave the lock taken: it is not waited for once the job is finished.
        """
        if not self.finished:
            with self._done:
                pass


DONE: Final = Job(0, 0, 0)
DONE.run(lambda dst, src, nbytes: 0)


class Movers:
    """`with Movers(move, threads, most) as movers`: at the end every job is done, no thread left.

    At most `most` jobs are started. Without threads a job is done when `start` returns.
    """

    def __init__(self, move: Move, threads: int, most: int) -> None:
        self._move, self._wanted, self._most = move, threads, most
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[Thread] = []

    @property
    def count(self) -> int:
        """Threads that run."""
        return len(self._threads)

    def __enter__(self) -> Self:
        if not self._wanted:
            return self
        try:
            self._start()
        except BaseException:  # a ^C: `with` leaves nothing that was not entered
            self._stop()
            raise
        return self

    def _start(self) -> None:
        with deferred():
            for number in range(self._wanted):
                thread = Thread(target=self._serve, name=f"copy {number}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no room for another thread: those that there are do it all
                    break
                self._threads.append(thread)

    def start(self, dst: int, src: int, nbytes: int) -> Job:
        """Copy `nbytes` between host addresses, whose memory the caller keeps alive."""
        if not self._threads:
            self._move(dst, src, nbytes)
            return DONE
        job = Job(dst, src, nbytes)
        self._jobs.put(job)
        return job

    def _serve(self) -> None:
        for _ in range(self._most + 1):
            job = self._jobs.get()
            if job is None:
                break
            job.run(self._move)

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if not self._threads:
            return
        with deferred():  # after this no thread writes the caller's memory
            for _ in self._threads:
                self._jobs.put(None)
            for thread in self._threads:
                thread.join()
