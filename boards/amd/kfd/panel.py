"""The fault panel: what goes wrong on a board when a test says so."""

from __future__ import annotations

import errno
from collections.abc import Callable

from boards.amd.hardware import Hardware
from boards.amd.kfd import types as k
from boards.amd.kfd.process import Process

NUMBERS = {name: number for number, (name, _) in k.IOCTLS.items()}


class Panel:
    """Faults of one process's board. Queue ids are CREATE_QUEUE's, `gpu` counts from 0."""

    def __init__(
        self, hardware: Hardware, process: Callable[[], Process], kill: Callable[[], None]
    ):
        self._hardware, self._process, self._kill = hardware, process, kill
        self._fail: dict[int, list[tuple[int, int]]] = {}
        self._allocations: list[tuple[int, int]] = []
        self.seen: list[int] = []
        """Numbers of all ioctls since the board was opened."""

    # Failing calls

    def fail_ioctl(self, name: str, number: int, *, at: int = 1) -> None:
        """The `at`-th `name` ("create_queue") from now on fails with errno `number`."""
        self._fail.setdefault(NUMBERS[name], []).append((at, number))

    def fail_alloc(self, *, at: int = 1, number: int = errno.ENOMEM) -> None:
        """The `at`-th allocation from now on fails."""
        self._allocations.append((at, number))

    def before_ioctl(self, number: int) -> None:
        """Called by the world. Raises: the OSError that is due."""
        self.seen.append(number)
        due, left = _count_down(self._fail.get(number, []))
        self._fail[number] = left
        if due:
            raise OSError(due, "the fault panel says so")

    def before_alloc(self, nbytes: int) -> None:
        """The same for an allocation."""
        due, self._allocations = _count_down(self._allocations)
        if due:
            raise OSError(due, f"the fault panel allows no {nbytes:#x} bytes")

    # Faults of queues and GPUs

    def hang(self, queue_id: int) -> None:
        """A queue makes no progress from now on."""
        queue = self._process().queues.find(queue_id)
        queue.device.engines.hung.add(queue_id)

    def mute(self, queue_id: int) -> None:
        """A queue's doorbells are lost from now on."""
        self._process().muted.add(self._process().queues.find(queue_id))

    def unmute(self, queue_id: int) -> None:
        """Doorbells reach the queue again; lost ones stay lost."""
        self._process().muted.discard(self._process().queues.find(queue_id))

    def page_fault(
        self, va: int, *, kind: str = "unmapped", access: str = "read", gpu: int = 0
    ) -> None:
        """The kernel reports a page fault, whatever really happened."""
        process = self._process()
        device = process.device(self._hardware.gpus[gpu].gpu_id)
        process.memory_fault(device, va, kind, access)

    def ecc(self, gpu: int = 0) -> None:
        """An uncorrectable memory error: the GPU is reset, and both exceptions are raised."""
        self._reset(gpu, k.CAUSE_ECC)

    def gpu_reset(self, gpu: int = 0) -> None:
        """The whole GPU hangs and is reset: queues stop for good, VRAM is lost."""
        self._reset(gpu, k.CAUSE_GPU_HANG)

    def _reset(self, number: int, cause: int) -> None:
        self._process().reset_gpu(self._hardware.gpus[number], cause)

    def stale_tlb(self, *, on: bool = True) -> None:
        """The kernel forgets to flush TLBs after it changed page tables."""
        for device in self._process().devices.values():
            device.stale_tlb = on
            device.flush()

    def kill_process(self) -> None:
        """SIGKILL: all its descriptors and memory are gone, the kernel cleans up."""
        self._kill()


def _count_down(waiting: list[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    """(errno that is due now or 0, what still waits)."""
    due = next((number for at, number in waiting if at == 1), 0)
    return due, [(at - 1, number) for at, number in waiting if at > 1]
