"""The fault panel: what goes wrong on a board when a test says so."""

from __future__ import annotations

import errno
from collections.abc import Callable

from boards.qcom.cp import faults
from boards.qcom.cp.faults import GpuFault
from boards.qcom.engine import Engine
from boards.qcom.hardware import AdrenoHardware
from boards.qcom.kgsl.contexts import Context


class QcomPanel:
    """Faults of one board."""

    def __init__(
        self, hardware: AdrenoHardware, kill: Callable[[], None],
        context: Callable[[int], object],
    ) -> None:  # fmt: skip
        self._hardware, self._kill, self._context = hardware, kill, context
        self._fail: list[tuple[int, int, int]] = []
        self.seen: list[int] = []
        """Numbers of all requests since the board was opened."""

    @property
    def _engine(self) -> Engine:
        return self._hardware.gpus[0].engine

    # Failing calls

    def fail_ioctl(self, request: int, number: int = errno.EINVAL, *, at: int = 1) -> None:
        """The `at`-th request of this number (its low byte) from now on fails."""
        self._fail.append((request & 0xFF, at, number))

    def before(self, number: int) -> None:
        """Called by the world. Raises: the OSError that is due."""
        self.seen.append(number)
        due = next((code for name, at, code in self._fail if (name, at) == (number, 1)), 0)
        self._fail = [(name, at - (name == number), code) for name, at, code in self._fail
                      if (name, at) != (number, 1)]  # fmt: skip
        if due:
            raise OSError(due, "the fault panel says so")

    # Faults of the GPU

    def hang(self, context: int) -> None:
        """The next submission of a context makes no progress, until the kernel ends it."""
        self._engine.stuck.add(id(self._context(context)))

    def page_fault(self, va: int, access: str = "read") -> None:
        """The next submission dies of a page fault, whatever is in it."""
        what = f"{access} of {va:#x}: the fault panel says so"
        self._engine.doomed.append(GpuFault(faults.PAGE_FAULT, what, va, access))

    def opcode_error(self) -> None:
        """The next submission has an opcode that CP does not know."""
        self._engine.doomed.append(GpuFault(faults.OPCODE_ERROR, "the fault panel says so"))

    def protected_register(self, register: int = 0x800) -> None:
        """The next submission writes a register of the kernel's."""
        what = f"register {register:#x}: the fault panel says so"
        self._engine.doomed.append(GpuFault(faults.PROTECTED, what, register, "write"))

    def illegal_instruction(self) -> None:
        """The next submission meets code that the SP does not know."""
        what = "the fault panel says so"
        self._engine.doomed.append(GpuFault(faults.ILLEGAL_INSTRUCTION, what))

    def mute(self, *, off: bool = True) -> None:
        """The firmware takes no submissions, or takes them again."""
        self._engine.muted = off

    def invalidate(self, context: int) -> None:
        """KGSL shuts a context down, for a fault of which nothing else is known."""
        found = self._context(context)
        if isinstance(found, Context):
            found.invalid, found.reset = True, 3

    def kill_process(self) -> None:
        """SIGKILL: all its descriptors and memory are gone, the kernel cleans up."""
        self._kill()
