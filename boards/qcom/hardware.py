"""What all processes of a board share: GPUs, memory, time, violations, the kernel's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boards.machine.chassis import Chassis
from boards.qcom.chips import AdrenoChip
from boards.qcom.cp.caches import Caches
from boards.qcom.cp.processor import Machine
from boards.qcom.cp.rights import Rights
from boards.qcom.engine import Engine
from boards.qcom.memory import SystemMemory

KGSL, MSM = "KGSL", "MSM"


@dataclass(slots=True)
class AdrenoOptions:
    """How strict a board is, and what it is made of."""

    iface: str = KGSL
    """Which kernel it runs: Android's with KGSL, or Linux with msm."""
    dram_bytes: int = 1 << 30
    late: bool = False
    """Submissions run when the process waits, sleeps or reads the clock."""
    vm_bind: bool = False
    """msm with VM_BIND: Linux 6.17 and later."""
    coherent: bool | None = None
    """Whether the SMMU looks into CPU caches; None: as the chip can."""
    fault_info: bool = True
    """KGSL that keeps page faults for the process; older kernels do not."""


class AdrenoGpu:
    """One GPU."""

    def __init__(self, chip: AdrenoChip, hardware: AdrenoHardware) -> None:
        self.chip = chip
        self.caches = Caches(hardware.find)
        machine = Machine(
            chip=chip, clock=hardware.clock, caches=self.caches,
            rights=Rights(chip.name, chip.generation), find=hardware.find, event=hardware.event,
        )  # fmt: skip
        self.engine = Engine(machine)
        self.faults = 0
        """Of all processes, since the machine started."""


class AdrenoHardware(Chassis):
    """The machine under a board."""

    def __init__(self, chips: Sequence[AdrenoChip], options: AdrenoOptions) -> None:
        super().__init__(late=options.late)
        self.options = options
        self.memory = SystemMemory(options.dram_bytes)
        self.gpus = [AdrenoGpu(chip, self) for chip in chips]
        self.log: list[str] = []
        """What the kernel has printed."""

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
