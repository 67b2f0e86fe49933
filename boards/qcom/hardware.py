"""What all processes of a board share: GPUs, memory, time, violations, the kernel's log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from boards.machine import host
from boards.machine.behaviour import Behaviour, load
from boards.machine.chassis import Chassis
from boards.qcom.chips import AdrenoChip
from boards.qcom.cp.caches import Caches
from boards.qcom.cp.processor import Machine
from boards.qcom.cp.rights import Rights
from boards.qcom.cp.static import Static
from boards.qcom.engine import Engine
from boards.qcom.memory import SystemMemory
from boards.qcom.power import Power
from boards.qcom.space import Refused

KGSL, MSM = "KGSL", "MSM"
SILENT, HALT = "silent", "halt"
_FOLDER = Path(__file__).parent
_DEFAULT: Final = {KGSL: "5.15", MSM: "6.12"}
"""The first of registration.KERNELS."""
_WITH_VM_BIND = "6.17"


@dataclass(slots=True)
class AdrenoOptions:
    """How strict a board is, and what it is made of."""

    iface: str = KGSL
    """Which kernel it runs: Android's with KGSL, or Linux with msm."""
    dram_bytes: int = 1 << 30
    late: bool = False
    """Submissions run when the process waits, sleeps or reads the clock."""
    kernel: str = ""
    """The release whose rules it follows (`behaviour.txt` of its interface); "": 5.15 of KGSL, 6.12
    of msm."""
    vm_bind: bool = False
    """msm of Linux 6.17, which has VM_BIND, where `kernel` names no other."""
    coherent: bool | None = None
    """Whether the SMMU looks into CPU caches; None: as the chip can."""
    fault_info: bool = True
    """KGSL that keeps page faults for the process; older kernels do not."""
    page_faults: str = HALT
    """SILENT: reads give 0, writes vanish, and nothing is counted, which is what kernels do by
    default. HALT: the submission ends (GPUHALT in KGSL's ft_pagefault_policy)."""
    page_bytes: int = host.PAGE_BYTES
    """Of the kernel: 4096, or 16384 as of Android 15."""
    issues_per_s: int = 0
    """Time that code takes, by the issue slots of all its waves; 0: it takes none. The kernel's
    check for hangs counts it."""
    suspends: bool = False
    """The GPU loses its power when it is idle, and the always-on counter begins again."""

    @property
    def release(self) -> str:
        """Of the kernel."""
        bound = _WITH_VM_BIND if self.vm_bind and self.iface == MSM else ""
        return self.kernel or bound or _DEFAULT[self.iface]


def behaviour(iface: str) -> Behaviour:
    """What kernels do over an interface, by release."""
    return load(_FOLDER / iface.lower() / "behaviour.txt")


class AdrenoGpu:
    """One GPU."""

    def __init__(self, chip: AdrenoChip, hardware: AdrenoHardware) -> None:
        self.chip = chip
        self.caches = Caches(hardware.find)
        machine = Machine(
            chip=chip, clock=hardware.clock, caches=self.caches,
            rights=Rights(chip.name, chip.generation), find=hardware.find, event=hardware.event,
            power=Power(hardware.clock, suspends=hardware.options.suspends),
            static=Static(chip), issues_per_s=hardware.options.issues_per_s,
        )  # fmt: skip
        self.engine = Engine(machine)
        self.faults = 0
        """Hangs of all processes, since the machine started."""


class AdrenoHardware(Chassis):
    """The machine under a board."""

    def __init__(self, chips: Sequence[AdrenoChip], options: AdrenoOptions) -> None:
        super().__init__(late=options.late)
        self.options = options
        self.rules = behaviour(options.iface).rules(options.release)
        """Of the kernel's release. Raises: ValueError for one there is not."""
        self.memory = SystemMemory(options.dram_bytes)
        self.gpus = [AdrenoGpu(chip, self) for chip in chips]
        self.log: list[str] = []
        """What the kernel has printed."""

    @property
    def forgive(self) -> Callable[[Refused], None] | None:
        """What becomes of a page fault that does not end the submission."""
        return self._forgive if self.options.page_faults == SILENT else None

    def _forgive(self, refused: Refused) -> None:
        self.log.append(f"*** gpu fault: {refused}")

    @property
    def fault_info(self) -> bool:
        """Whether KGSL keeps page faults for the process."""
        return self.options.fault_info and "fault_info" in self.rules

    @property
    def coherent(self) -> bool:
        """Whether a GPU can look into CPU caches."""
        own = self.options.coherent
        return self.gpus[0].chip.io_coherent if own is None else own

    def pump(self) -> None:
        """Let every GPU go on."""
        for gpu in self.gpus:
            gpu.engine.pump()

    def kick(self) -> None:
        """Something was submitted."""
        if not self.late:
            self.pump()

    def skip_to(self, until_ns: int) -> None:
        """Let time pass until then, or until a submission counts as hung."""
        deadlines = [gpu.engine.deadline_ns for gpu in self.gpus]
        self.clock.skip_to(min([until_ns, *(d for d in deadlines if d is not None)]))
        self.pump()

    def empty(self) -> None:
        """Power off: all memory goes back to the machine that the board runs on."""
        self.memory.pool.empty()
