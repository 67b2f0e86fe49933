"""Why a wave or a packet stopped a queue of KFD, where the kernel raises no event.

Page faults come as events. An illegal instruction, a wrong address in LDS, s_trap only stop the
wave. The kernel logs them, and reports them to a debugger, or to a runtime whose own trap handler
sends it the queue's number. Here that handler (`trap_code`) stores the reason and raises the
device's event. A wrong AQL packet makes the packet processor store a code in the queue's
queue_inactive_signal.
# src: Linux amdkfd/kfd_int_process_v9.c, v10.c, v11.c; kfd_debug.c kfd_set_dbg_ev_from_interrupt()
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Final

from drivers.amd import aql_errors
from drivers.amd.chips import PAGE_BYTES
from drivers.amd.kfd.bo import Bo, Gpu, allocate
from drivers.amd.kfd.process import SET_TRAP_HANDLER, SetTrapHandlerArgs
from drivers.amd.trap_code import HANDLERS, Handler, assemble
from drivers.base.undo import Undo, run_all
from drivers.gpu.iface import Use
from drivers.gpu.incident import Incident

_REPORT: Final = struct.Struct("=4I")
"""ttmp0, ttmp1, exception flags, 1."""
_DONE_OFF: Final = 12
_PC_MASK: Final = (1 << 48) - 1


class Exceptions:
    """The trap handler of one GPU in this process, and the queues that say why they stopped."""

    def __init__(self, gpu: Gpu, handler: Handler | None, parts: list[Bo]) -> None:
        self._gpu, self._handler, self._parts = gpu, handler, parts
        self._report = parts[0].view()[: _REPORT.size] if parts else memoryview(b"")
        self._pages: dict[int, memoryview] = {}
        """Pages of AQL queues, by their addresses."""

    @classmethod
    def open(cls, gpu: Gpu, family: str, mailbox_va: int, event_id: int) -> Exceptions:
        """Install the handler of a family of chips; without one waits only notice a hang.

        The kernel takes the addresses for all queues of the process on this GPU, at any time.
        # src: kfd_chardev.c kfd_ioctl_set_trap_handler(), kfd_process_set_trap_handler()
        """
        handler = HANDLERS.get(family)
        if handler is None:
            return cls(gpu, None, [])
        with Undo() as undo:
            report = allocate(gpu, PAGE_BYTES, Use.SHARED, "exception report", host=True)
            undo.add(report.free)
            code = allocate(gpu, PAGE_BYTES, Use.HOST_CODE, "trap handler", host=True)
            undo.add(code.free)
            report.view()[: _REPORT.size] = bytes(_REPORT.size)
            text = assemble(handler, report.gpu_va, mailbox_va, event_id)
            code.view()[: len(text)] = text
            where = code.gpu_va, report.gpu_va
            with gpu.session.lock:
                _set(gpu, *where)
                gpu.session.handlers.setdefault(gpu.gpu_id, []).append(where)
            return cls(gpu, handler, [report, code])

    def watch(self, page_va: int, page: memoryview) -> None:
        """Also read the error code of an AQL queue, in the page of its pointers."""
        self._pages[page_va] = page

    def forget(self, page_va: int) -> None:
        """The queue with this page is gone."""
        del self._pages[page_va]

    def take(self) -> Incident | None:
        """What was reported since the last time; costs a read of memory where nothing was."""
        if self._handler is not None and self._report[_DONE_OFF]:
            found = self._of_wave(self._handler)
            if found is not None:
                return found
        for page in list(self._pages.values()):
            reason = aql_errors.take(page)
            if reason:
                return Incident(cause=reason)
        return None

    def _of_wave(self, handler: Handler) -> Incident | None:
        """What the handler stored, for one of the threads that wait."""
        with self._gpu.session.lock:
            low, high, flags, done = _REPORT.unpack(self._report)
            self._report[:] = bytes(_REPORT.size)
        reason = handler.reason(high, flags) if done else ""
        return Incident(cause=reason, pc=(high << 32 | low) & _PC_MASK) if reason else None

    def close(self) -> None:
        """Remove the handler; every queue of the device is gone.

        Another device of this process on the same GPU gets its own again.
        """
        parts, self._parts = self._parts, []
        self._handler, self._report, self._pages = None, memoryview(b""), {}
        if not parts:
            return
        report, code = parts
        gone = partial(self._remove, (code.gpu_va, report.gpu_va))
        steps = [] if self._gpu.session.forked else [gone]
        run_all([*steps, *(part.free for part in parts)])

    def _remove(self, where: tuple[int, int]) -> None:
        session = self._gpu.session
        with session.lock:
            left = session.handlers[self._gpu.gpu_id]
            left.remove(where)
            _set(self._gpu, *(left[-1] if left else (0, 0)))


def _set(gpu: Gpu, code_va: int, report_va: int) -> None:
    args = SetTrapHandlerArgs(tba_addr=code_va, tma_addr=report_va, gpu_id=gpu.gpu_id)
    SET_TRAP_HANDLER(gpu.world, gpu.session.fd, args)
