"""Registers that the real amdgpu accesses and no board models: by name, why, and where in Linux.

The board reports them by Linux's names (boards/amd/pci/unmodelled.py), from the chip's own bases
and headers, so this list holds for every chip. A register without behaviour reads 0 and forgets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from boards.amd.chip import chip
from boards.amd.pci.unmodelled import named


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """A register as the board calls it, how it is accessed ("read", "write", or both by "|")."""

    register: str
    how: str
    reason: str
    source: str
    value: int | None = None
    """The only one that is accepted; None: any."""
    early: int = 0
    """How often for each bind before amdgpu has MSI on; later as often as it happens."""

    @property
    def pattern(self) -> str:
        """Of the violation's whole text."""
        value = "0x[0-9a-f]+" if self.value is None else f"{self.value:#x}"
        where = self.register.replace("[", r"\[").replace("]", r"\]").replace(".", r"\.")
        return rf"unknown register: (?:{self.how}) of {where} \({value}\)"


_CLOCKS = "clock and power gating of a block, which changes neither results nor registers"
_THERMAL = "limits of the thermal alert, which no board raises"
UNMODELLED = (
    Unmodelled("GC[0].SDMA0_SEM_WAIT_FAIL_TIMER_CNTL", "write",
               "0 switches the time limit of semaphores off, of which the board has none",
               "sdma_v6_0.c sdma_v6_0_gfx_resume()", value=0),
    Unmodelled("GC[0].SDMA1_SEM_WAIT_FAIL_TIMER_CNTL", "write", "the same of the second engine",
               "sdma_v6_0.c sdma_v6_0_gfx_resume()", value=0),
    Unmodelled("GC[0].CPC_INT_CNTL", "write",
               "interrupt enables of a pipe: the board sends opcode errors always, and time stamps "
               "where CP_MEx_PIPEy_INT_CNTL has them on",
               "amdgpu_amdkfd_gfx_v11.c init_interrupts_v11()"),
    Unmodelled("GC[0].GFX_IMU_SCRATCH_0", "read",
               "the version of the IMU's firmware, which amdgpu only shows (sysfs imu_fw_version)",
               "gfx_v11_0.c gfx_v11_0_hw_init()"),
    Unmodelled("MP1[0].MP1_SMN_IH_SW_INT", "read|write",
               "interrupts that the power controller's firmware raises: the board's has none",
               "smu_v13_0.c smu_v13_0_set_irq_state()"),
    Unmodelled("MP1[0].MP1_SMN_IH_SW_INT_CTRL", "read|write",
               "mask and acknowledgement of those interrupts",
               "smu_v13_0.c smu_v13_0_set_irq_state()"),
    Unmodelled("THM[0].THM_THERMAL_INT_ENA", "write", _THERMAL,
               "smu_v13_0.c smu_v13_0_set_irq_state()"),
    Unmodelled("THM[0].THM_THERMAL_INT_CTRL", "read|write", _THERMAL,
               "smu_v13_0.c smu_v13_0_set_irq_state()"),
    Unmodelled("LSDMA[0].LSDMA_MEM_POWER_CTRL", "read|write", _CLOCKS,
               "lsdma_v6_0.c lsdma_v6_0_update_memory_power_gating()"),
    Unmodelled("ATHUB[0].ATHUB_MISC_CNTL", "read|write", _CLOCKS,
               "athub_v3_0.c athub_v3_0_get_cg_cntl()"),
    Unmodelled("NBIF[0].PCIE_CNTL2", "read", _CLOCKS,
               "nbio_v4_3.c nbio_v4_3_get_clockgating_state()"),
    Unmodelled("NBIF[0].CPM_CONTROL", "read", _CLOCKS,
               "nbio_v4_3.c nbio_v4_3_get_clockgating_state()"),
)  # fmt: skip


def with_functions(board: str, lines: Iterable[str]) -> list[str]:
    """Lines of a board's report ("not modelled: NAME: ..."), with Linux's functions behind."""
    functions = {name: one.functions for name, one in named(chip(board)).values()}
    shown = []
    for line in lines:
        register = line.split(": ")[1] if ": " in line else ""
        users = ", ".join(f"{name}()" for name in functions.get(register, ()))
        shown.append(f"{line} [{users}]" if users else line)
    return shown
