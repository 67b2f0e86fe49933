"""The fault panel: what goes wrong on a board when a test says so."""

from __future__ import annotations

import errno
from collections.abc import Callable

from boards.nv import faults
from boards.nv.faults import MmuReport, RcError, SmReport
from boards.nv.hardware import NvHardware
from boards.nv.work import Queued

_NUMBERS = {
    "alloc": 0x2B, "free": 0x29, "control": 0x2A, "alloc_memory": 0x27, "map_memory": 0x4E,
    "unmap_memory": 0x4F, "map_dma": 0x57, "card_info": 200, "register_fd": 201, "version": 210,
}  # fmt: skip


class NvPanel:
    """Faults of one board. Channels are named by handle, `gpu` counts from 0."""

    def __init__(self, hardware: NvHardware, kill: Callable[[], None]) -> None:
        self._hardware, self._kill = hardware, kill
        self._fail: list[tuple[str, int, int]] = []
        self.muted: set[int] = set()
        """Handles of channels whose doorbells are lost."""
        self.seen: list[int] = []
        """Numbers of all requests since the board was opened."""

    # Failing calls

    def fail_escape(self, name: str, number: int = errno.EINVAL, *, at: int = 1) -> None:
        """The `at`-th escape "control" from now on fails with errno `number`."""
        self._fail.append((str(_NUMBERS[name]), at, number))

    def fail_uvm(self, request: int, number: int = errno.EINVAL, *, at: int = 1) -> None:
        """The same for a request of UVM."""
        self._fail.append((f"uvm {request}", at, number))

    def before(self, number: int, *, uvm: bool) -> None:
        """Called by the world. Raises: the OSError that is due."""
        self.seen.append(number)
        key = f"uvm {number}" if uvm else str(number)
        due = next((code for name, at, code in self._fail if name == key and at == 1), 0)
        self._fail = [(name, at - (name == key), code) for name, at, code in self._fail
                      if not (name == key and at == 1)]  # fmt: skip
        if due:
            raise OSError(due, "the fault panel says so")

    # Faults of channels and GPUs

    def channel(self, handle: int) -> Queued:
        """A channel of the board. Raises: KeyError."""
        for gpu in self._hardware.gpus:
            for channel in gpu.channels.values():
                if channel.handle == handle:
                    return channel
        raise KeyError(f"no channel {handle:#x}")

    def hang(self, handle: int) -> None:
        """A channel makes no progress from now on."""
        self.channel(handle).stuck = True

    def mmu_fault(self, handle: int, va: int, *, fault: int = 2, access: int = 0) -> None:
        """The channel's group dies of an MMU fault, whatever really happened."""
        channel = self.channel(handle)
        report = MmuReport(va, fault, access)
        channel.group.mmu_fault = report
        channel.group.shown_faults.append(report)
        channel.fail(RcError(faults.MMU_FAULT, "the fault panel says so"))

    def sm_error(
        self, handle: int, warp_esr: int, pc: int, address: int = 0, *, sm: int = 0
    ) -> None:
        """An SM stops: illegal instruction, misaligned address and so on."""
        channel = self.channel(handle)
        channel.group.sm_errors.append(SmReport(warp_esr, pc, address, sm))
        channel.fail(RcError(faults.GR_EXCEPTION, "the fault panel says so"))

    def robust_channel(self, handle: int, code: int) -> None:
        """The group dies of any code of nverror.h: ECC 48, PBDMA 32, copy engines 39..."""
        self.channel(handle).fail(RcError(code, "the fault panel says so"))

    def ecc(self, gpu: int = 0) -> None:
        """A double-bit error: every group on the GPU dies."""
        for channel in list(self._hardware.gpus[gpu].channels.values()):
            if not channel.group.dead:
                channel.fail(RcError(faults.ECC_DBE, "the fault panel says so"))

    def fall_off_the_bus(self, gpu: int = 0) -> None:
        """The GPU is gone: groups die, and every request on it fails from now on."""
        for channel in list(self._hardware.gpus[gpu].channels.values()):
            channel.fail(RcError(faults.FALLEN_OFF_THE_BUS, "the fault panel says so"))
        self._hardware.gpus[gpu].lost = True

    def kill_process(self) -> None:
        """SIGKILL: all its descriptors and memory are gone, the kernel cleans up."""
        self._kill()
