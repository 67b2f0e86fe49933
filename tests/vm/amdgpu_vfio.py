"""Our driver takes the GPU from the real amdgpu behind an IOMMU, through VFIO, and gives it back.

The checks are those of tests/vm/guest/checks.py, one process each.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from tests.vm.amdgpu import REMOVE, Scenario, table
from tests.vm.lab import Lab, LabError

NAME = "an IOMMU, amdgpu and VFIO"
MODULES = ("vfio_iommu_type1", "vfio-pci", "iommufd")
"""With what they depend on; iommufd where the kernel has it."""
CHECKS: dict[str, tuple[int, ...]] = {
    "seen": (), "held_at_first": (), "dry_run": (), "dma_through_vfio": (1,),
    "killed_and_restored": (), "tensor_program_over_vfio": (1,), "smoke": (1, 4),
    "killed_at_work_then_given_back": (1,),
}  # fmt: skip
"""Which of the sessions with MSI that begin during a check are our driver's: the first after
amdgpu has let go; the smoke test opens the GPU twice, and amdgpu has two sessions in a bind. This
is counted: nothing on the bus says whose a session is, so a check that opens the GPU more or less
often needs another number here."""
_RUN = (
    "export DEV=AMD AMD_IFACE=PCI VM_FIRST_DRIVER=amdgpu; "
    "python3 -u tests/vm/guest/checks.py vfio {} 2>&1"
)


@dataclass(slots=True)
class Behind(Scenario):
    """The checks on one board behind an IOMMU."""

    def run(self) -> None:
        """All of them, in order."""
        mark = self.began = self.lab.mark()
        with self._plugged():
            if not self.check("amdgpu binds", self._binds):
                return
            for name in CHECKS:
                self._one(name)
            self.check("unload", lambda: self.final(f"{REMOVE} && echo gone"))
        self.check("kernel log", lambda: self._log(mark))

    def _one(self, name: str) -> None:
        """One check of the guest's list; its own line says how it went."""
        before = self.sessions()
        self.own |= {before + number for number in CHECKS[name]}
        try:
            _, said = self.lab.run(_RUN.format(name))
        except LabError as error:
            said = str(error)
        lines = [line.split(None, 1) for line in said.splitlines()]
        found = [(kind, rest) for kind, *more in filter(None, lines) for rest in more
                 if kind in ("PASS", "FAIL")]  # fmt: skip
        self.lines += found or [("FAIL", f"{name}: {said.strip()[-300:]}")]

    def sessions(self) -> int:
        """How often a driver has had MSI on so far, by the board's journal."""
        lines = (json.loads(line) for line in self.lab.journal(self.board) if '"MSI"' in line)
        return sum(line.get("event") == "MSI" and bool(line["facts"]["on"]) for line in lines)


def run(lab: Lab, board: str) -> bool:
    """The checks in a guest of their own; whether all passed. Raises: LabError."""
    began = time.monotonic()
    lab.start()
    scenario = Behind(lab, board, rounds=0)
    scenario.run()
    print(table(scenario, time.monotonic() - began, NAME), flush=True)
    return not scenario.failed
