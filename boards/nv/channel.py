"""Channels and their groups: rings in memory, doorbells, and what runs them.

src: open-gpu-doc, classes/host/clc56f.h (USERD, GP entries); open-gpu-kernel-modules,
kernel_channel.c, kernel_channel_group_api.c; notes sections 1.3 and 1.4
"""

from __future__ import annotations

import struct

from boards.nv import faults
from boards.nv.chip import NvChip
from boards.nv.faults import MmuReport, RcError, SmReport
from boards.nv.hardware import NvGpu, NvHardware
from boards.nv.launch import EndlessGrid, Executor, SmException
from boards.nv.memory import Memory
from boards.nv.objects import Object
from boards.nv.pbdma import Blocked, Pbdma
from boards.nv.space import GpuSpace, MmuFault

GP_GET, GP_PUT = 0x88, 0x8C
USERD_BYTES = 512
ENTRY_BYTES = 8
ENGINE_GRAPHICS, ENGINE_COPY0 = 1, 9
_WORD = 4
_RUNLIST_SHIFT = 16


class VaSpace(Object):
    """FERMI_VASPACE_A."""

    def __init__(self, gpu: NvGpu, space: GpuSpace, *, external: bool, faulting: bool) -> None:
        super().__init__()
        self.gpu, self.space, self.external, self.faulting = gpu, space, external, faulting
        self.in_uvm = False
        """UVM manages it."""


class ContextShare(Object):
    """FERMI_CONTEXT_SHARE_A: the address space of channels in a group."""

    def __init__(self, vaspace: VaSpace) -> None:
        super().__init__()
        self.vaspace = vaspace


class ChannelGroup(Object):
    """KEPLER_CHANNEL_GROUP_A: what is scheduled, and dies, together."""

    def __init__(self, gpu: NvGpu, engine: int) -> None:
        super().__init__()
        self.gpu, self.engine = gpu, engine
        self.vaspace: VaSpace | None = None
        self.scheduled = False
        self.dead = 0
        """The code of the error that it was torn down for."""
        self.mmu_fault: MmuReport | None = None
        self.sm_errors: list[SmReport] = []
        self.shown_faults: list[MmuReport] = []
        """What READ_MMU_FAULT_INFO has not taken yet."""

    def members(self) -> list[Channel]:
        """Its channels."""
        return [child for child in self.children.values() if isinstance(child, Channel)]


class EngineObject(Object):
    """A compute, copy or inline-to-memory object on a channel."""


class Channel(Object):
    """A ring of GP entries, and where the GPU is in it."""

    def __init__(
        self, hardware: NvHardware, group: ChannelGroup, vaspace: VaSpace, number: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.hardware, self.group, self.vaspace = hardware, group, vaspace
        self.gpu = group.gpu
        self.ring_va, self.entries = 0, 0
        self.userd: Memory | None = None
        self.userd_offset = 0
        self.notifier: Memory | None = None
        runlist = group.engine - ENGINE_GRAPHICS
        self.token = self.gpu.chip.token_bit | runlist << _RUNLIST_SHIFT | number
        self.get = self.put = 0
        self.registered = False
        """UVM knows it, and has mapped its context."""
        self.token_taken = False
        self.stuck = False
        """What it runs never ends."""
        self.shared = False
        """It names a context share."""
        self.stopped = False
        """UVM had RM stop it."""
        self.pbdma = Pbdma(self)

    @property
    def space(self) -> GpuSpace:
        """The addresses that it works in."""
        return self.vaspace.space

    @property
    def chip(self) -> NvChip:
        """The GPU's."""
        return self.gpu.chip

    @property
    def engine(self) -> int:
        """NV2080_ENGINE_TYPE of the group."""
        return self.group.engine

    @property
    def executor(self) -> Executor:
        """What executes code."""
        return self.gpu.executor

    @property
    def unbound(self) -> bool:
        """Whether its context has no addresses yet, which UVM has to give."""
        graphics = self.group.engine == ENGINE_GRAPHICS
        return graphics and self.vaspace.external and not self.registered

    def has_object(self, number: int) -> bool:
        """Whether an object of a class was allocated on it."""
        return any(child.class_number == number for child in self.children.values())

    def find(self, kind: str, what: str) -> None:
        """Report a violation."""
        self.hardware.find(kind, what)

    def event(self, name: str, **facts: int | str) -> None:
        """One event of the timeline."""
        self.hardware.event(name, **facts)

    def now_ns(self) -> int:
        """The GPU's clock."""
        return self.hardware.clock.now_ns()

    @property
    def pending(self) -> bool:
        """Whether it has something to do."""
        busy = self.get != self.put or self.pbdma.busy
        able = not self.group.dead and not self.stuck and not self.stopped
        return busy and able and self.group.scheduled

    def freed(self) -> None:
        """Its doorbell reaches nothing any more."""
        self.gpu.channels.pop(self.token, None)
        for held in (self.userd, self.notifier):
            if held is not None:
                held.drop()

    # The doorbell

    def ring(self) -> None:
        """The doorbell: GP_PUT is read."""
        what = f"channel {self.handle:#x}"
        if self.group.dead:
            self.hardware.find("doorbell of a dead channel", what, "its group was torn down")
            return
        if self.stopped:
            self.hardware.find("doorbell of a channel that was stopped", what)
            return
        if not self.group.scheduled:
            self.hardware.find("doorbell of a channel that is not scheduled", what)
            return
        put = self._userd_word(GP_PUT)
        if put >= self.entries:
            self.fail(RcError(faults.PBDMA_ERROR, f"GP_PUT {put} of {self.entries} entries"))
            return
        if not self.registered and self.vaspace.in_uvm:
            self.hardware.find("work of a channel that UVM does not know", what)
        self.put = put

    def _userd_word(self, off: int) -> int:
        if self.userd is None:
            return 0
        parts = list(self.userd.parts(self.userd_offset + off, _WORD))
        return int.from_bytes(parts[0].tobytes(), "little")

    # Running

    def run(self) -> bool:
        """Go on until nothing is left or something has to come first: whether it got on."""
        progress = False
        try:
            while self.pending and self._step():  # ends: entries are fetched once each
                progress = True
        except Blocked:
            progress = self.pbdma.moved or progress
        except EndlessGrid:
            self.stuck = True
        except MmuFault as error:
            self._mmu_fault(error)
        except SmException as error:
            self.group.sm_errors.append(SmReport(error.warp_esr, error.pc, error.address))
            self.fail(RcError(faults.GR_EXCEPTION, str(error)))
        except RcError as error:
            self.fail(error)
        return progress

    def _step(self) -> bool:
        if not self.pbdma.busy:
            entry_va = self.ring_va + self.get * ENTRY_BYTES
            low, high = struct.unpack("<II", self.space.read(entry_va, ENTRY_BYTES))
            self.pbdma.fetch(low, high)
        self.pbdma.run()
        self.get = (self.get + 1) % self.entries
        if self.userd is not None:
            self.userd.store(self.userd_offset + GP_GET, self.get.to_bytes(_WORD, "little"))
        self.hardware.event("GP entry done", channel=self.handle, get=self.get)
        return True

    # Stopping and failing

    def stop(self) -> None:
        """NVA06F_CTRL_CMD_STOP_CHANNEL, which UVM asks for: the notifier is set, too.

        src: kernel_channel.c kchannelCtrlCmdStopChannel_IMPL(), kchannelNotifyRc_IMPL()
        """
        self.stopped, self.registered = True, False
        if self.notifier is not None:
            now_ns = self.hardware.clock.now_ns()
            code = faults.notifier(now_ns, faults.PREEMPTIVE_REMOVAL, self.group.engine)
            self.notifier.store(0, code)

    def _mmu_fault(self, error: MmuFault) -> None:
        report = MmuReport(error.va, error.fault, error.access)
        self.group.mmu_fault = report
        self.group.shown_faults.append(report)
        self.fail(RcError(faults.MMU_FAULT, str(error)))

    def fail(self, error: RcError) -> None:
        """Robust channel recovery: every channel of the group is told, and none runs again."""
        self.group.dead = error.code
        self.hardware.event("RC", channel=self.handle, code=error.code, why=str(error))
        now_ns = self.hardware.clock.now_ns()
        for channel in self.group.members() or [self]:
            if channel.notifier is not None:
                code = faults.notifier(now_ns, error.code, self.group.engine)
                channel.notifier.store(0, code)
        self.reason = str(error)

    reason = ""
    """Why the group died, in words; nothing that a driver can read."""
