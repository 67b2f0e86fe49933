"""The compute front end: state, inline transfers, launches by descriptor.

src: open-gpu-doc, classes/compute/clc7c0.h, clcbc0.h, clcec0.h
"""

from __future__ import annotations

from boards.nv import faults, inline
from boards.nv.faults import RcError
from boards.nv.inline import InlineToMemory
from boards.nv.launch import ConstantBank, Launch
from boards.nv.launch_rules import LocalMemory, doubtful, impossible
from boards.nv.qmd import Qmd
from boards.nv.semaphores import Release, reduce, release
from boards.nv.work import Work

_NOP, _WAIT_FOR_IDLE, _PM_TRIGGER = 0x100, 0x110, 0x140
_REPORT = range(0x158, 0x168, 4)
_REPORT_EXECUTE = 0x168
_CACHES, _SKED_CACHES, _CACHES_NO_WFI = 0x21C, 0x298, 0x1698
_SHARED_A, _SHARED_B, _LOCAL_A, _LOCAL_B = 0x2A0, 0x2A4, 0x7B0, 0x7B4
_PCAS_A, _PCAS_B, _PCAS2_B = 0x2B4, 0x2BC, 0x2C0
_SLM_SIZE_A, _SLM_SIZE_B, _SLM_SIZE_C, _SLM_A, _SLM_B = 0x2E4, 0x2E8, 0x2EC, 0x790, 0x794
_INLINE_A, _INLINE_B, _INLINE_DATA = 0x318, 0x31C, range(0x320, 0x520, 4)
_STATE = frozenset((
    *_REPORT, _SHARED_A, _SHARED_B, _LOCAL_A, _LOCAL_B, _PCAS_A, _SLM_SIZE_A, _SLM_SIZE_B,
    _SLM_SIZE_C, _SLM_A, _SLM_B, _INLINE_A, _INLINE_B,
    0x214, 0x218, 0x2B0, 0x310, 0x1528, 0x1558, 0x155C, 0x1560, 0x1574, 0x1578, 0x157C, 0x25F8,
    0x25FC,
))  # fmt: skip
"""The rest: QMD virtualisation base, CWD slots, SPA version, exceptions, texture pools, trap."""
_QUIET = frozenset((
    _NOP, _WAIT_FOR_IDLE, _PM_TRIGGER, 0x144, _CACHES, _SKED_CACHES, _CACHES_NO_WFI,
    0x244, 0x1330, 0x1334, 0x1338, 0x1370, 0x120C, 0x1210,
))  # fmt: skip
"""Waits and cache invalidations: a board without caches has nothing to do."""
_SCHEDULE_BIT = 2
_SCHEDULING = (2, 3, 9, 10)
"""PCAS actions that schedule a grid."""
_HARMLESS = (0, 1, 8)
_DEPENDENT_SCHEDULING = (1, 3)
_MOST_CHAINED = 4096
_QMD_SHIFT, _TPC_UNIT, _WINDOW_ALIGN = 8, 0x8000, 1 << 32
_RED_SIGNED_SHIFT = 10
_QMD_REDUCTIONS = (5, 0, 1, 6, 7, 3, 4, 2)
"""RED_ADD, MIN, MAX, INC, DEC, AND, OR, XOR as the host numbers them."""


class ComputeFront:
    """One compute object of a channel."""

    def __init__(self, channel: Work) -> None:
        self._channel, self._find = channel, channel.find
        self._chip = channel.chip
        self._state: dict[int, int] = {}
        self._inline = InlineToMemory(channel)

    def method(self, method: int, data: int) -> None:
        """One method. Raises: RcError, MmuFault, SmException, EndlessGrid."""
        if method in inline.METHODS:
            self._inline.method(method, data)
        elif method in _INLINE_DATA:
            at = self._pair(_INLINE_A, _INLINE_B) << _QMD_SHIFT
            at &= (1 << self._channel.space.bits) - 1
            self._channel.space.write(at + method - _INLINE_DATA.start, data.to_bytes(4, "little"))
        elif method in (_PCAS_B, _PCAS2_B):
            self._signal(method, data)
        elif method == _REPORT_EXECUTE:
            self._report(data)
        elif method in _STATE:
            self._set(method, data)
        elif method not in _QUIET:
            self._find("unknown method of compute", f"{method:#x}")
            raise RcError(faults.GR_CLASS_ERROR, f"compute method {method:#x}")

    def _pair(self, upper: int, lower: int) -> int:
        return self._state.get(upper, 0) << 32 | self._state.get(lower, 0)

    def _set(self, method: int, data: int) -> None:
        self._state[method] = data
        if method in (_SHARED_B, _LOCAL_B):
            upper = _SHARED_A if method == _SHARED_B else _LOCAL_A
            window = self._pair(upper, method)
            if window % _WINDOW_ALIGN or self._channel.space.overlaps(window, _WINDOW_ALIGN):
                self._find("window that is not 4 GiB of free addresses", f"{window:#x}")
        elif method == _SLM_SIZE_B and self._pair(_SLM_SIZE_A, _SLM_SIZE_B) % _TPC_UNIT:
            self._find("local memory of a TPC that is no multiple of 32 KiB", f"{data:#x}")

    def _report(self, data: int) -> None:
        """REPORT_SEMAPHORE_EXECUTE."""
        payload_low, payload_high, low, high = (self._state.get(m, 0) for m in _REPORT)
        if data & 3:
            raise RcError(faults.GR_CLASS_ERROR, f"report semaphore operation {data & 3}")
        wide, va = bool(data >> 12 & 1), low | high << 32
        words = (4, 1, 2, 0)[data >> 3 & 3]
        payload = payload_low | payload_high << 32 if wide else payload_low
        self._finish(Release(va, payload, words, wide=wide), data >> 7 & 7 if data & 64 else None,
                     signed=data >> _RED_SIGNED_SHIFT & 3 == 1)  # fmt: skip

    def _finish(self, what: Release, reduction: int | None, *, signed: bool) -> None:
        """A semaphore after work. Raises: RcError, MmuFault."""
        space = self._channel.space
        if not what.words or what.va % (what.words * 4):
            raise RcError(faults.GR_EXCEPTION, f"semaphore of {what.words} words at {what.va:#x}")
        if reduction is not None:
            bits = 64 if what.wide else 32
            operation = _QMD_REDUCTIONS[reduction]
            reduce(space, what.va, what.payload, operation, bits, signed=signed)
        else:
            release(space, what, self._channel.now_ns())

    # Launches

    def _signal(self, method: int, data: int) -> None:
        """SEND_SIGNALING_PCAS_B, PCAS2_B: schedule what PCAS_A names."""
        action = data
        if method == _PCAS_B:
            action = _SCHEDULING[0] if data & _SCHEDULE_BIT else _HARMLESS[0]
        if action in _HARMLESS:
            return
        if action not in _SCHEDULING:
            self._find("launch action that is not modelled", f"{action:#x}")
            raise RcError(faults.GR_EXCEPTION, f"PCAS action {action:#x}")
        va = self._state.get(_PCAS_A, 0) << _QMD_SHIFT
        for _ in range(_MOST_CHAINED):
            following = self._launch(va)
            if following is None:
                return
            va = following
        raise RcError(faults.GR_EXCEPTION, "descriptors that follow each other without end")

    def _local(self) -> LocalMemory | None:
        nbytes = self._pair(_SLM_SIZE_A, _SLM_SIZE_B)
        return LocalMemory(self._pair(_SLM_A, _SLM_B), nbytes) if nbytes else None

    def _launch(self, qmd_va: int) -> int | None:
        """One grid: the descriptor that follows it, if any does."""
        channel, chip = self._channel, self._chip
        qmd = Qmd(chip.qmd, channel.space.read(qmd_va, chip.qmd_bytes))
        local = self._local()
        reasons = list(impossible(qmd, chip, local))
        if reasons:
            for reason in reasons:
                self._find("launch descriptor that cannot be", reason)
            raise RcError(faults.GR_EXCEPTION, "; ".join(reasons))
        for kind, what in doubtful(qmd, chip, channel.space):
            self._find(kind, what)
        if _SHARED_B not in self._state or _LOCAL_B not in self._state:
            self._find("launch without memory windows", f"channel {channel.handle:#x}")
        if local is not None and qmd.local_bytes:
            channel.space.read(local.va, 1)
        channel.event("launch", qmd=qmd_va, code=qmd.code_va, blocks=str(qmd.grid))
        channel.executor.launch(self._grid(qmd))
        for after in qmd.releases():
            done = Release(after.va, after.payload, after.words, wide=after.wide)
            self._finish(done, after.reduction, signed=after.signed)
        return self._following(qmd)

    def _following(self, qmd: Qmd) -> int | None:
        after = list(qmd.dependents())
        for one in after:
            if one.action not in _DEPENDENT_SCHEDULING:
                self._find("dependent action that is not modelled", f"{one.action}")
                raise RcError(faults.GR_EXCEPTION, f"dependent action {one.action}")
        if len(after) > 1:
            self._find("two dependent descriptors: not modelled", f"{after[1].va:#x}")
            raise RcError(faults.GR_EXCEPTION, "two dependent descriptors")
        return after[0].va if after else None

    def _grid(self, qmd: Qmd) -> Launch:
        return Launch(
            chip=self._chip, code_va=qmd.code_va, space=self._channel.space,
            grid=qmd.grid, block=qmd.block,
            constants={bank.index: ConstantBank(bank.va, bank.nbytes) for bank in qmd.banks()},
            registers=qmd.registers, barriers=qmd.first("BARRIER_COUNT"),
            shared_bytes=qmd.shared_bytes, local_bytes=qmd.local_bytes,
            shared_window=self._pair(_SHARED_A, _SHARED_B),
            local_window=self._pair(_LOCAL_A, _LOCAL_B), local_high_bytes=qmd.local_high_bytes,
        )  # fmt: skip
