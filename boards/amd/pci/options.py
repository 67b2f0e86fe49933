"""How strict and how slow the PCI function is."""

from __future__ import annotations

from dataclasses import dataclass, field

from boards.amd.pci.images import Images, MadeUp


@dataclass(slots=True)
class PciOptions:
    """Of one function."""

    bar_bytes: int = 0
    """BAR0 before it is resized; 0: as large as VRAM (a large BAR)."""
    psp_s: float = 0.0
    """How long the security processor takes for each stage or command, by the board's clock."""
    smu_s: float = 0.0
    """The same for the power controller."""
    reset_s: float = 0.0
    """How long registers and VRAM answer all-ones after a reset that its own firmware made."""
    reset_keeps_config: bool = True
    """False: a reset that its own firmware made forgets BARs, COMMAND and interrupts too."""
    poison_bytes: int = 0
    """Of VRAM's beginning that hold poison for the host too from power-on; the rest looks like
    zeros to the host and like poison to the GPU until somebody writes it."""
    harvested_cus: int = 0
    """Compute units that are fused off beyond those that every chip of the kind lacks."""
    device_id: int = 0
    """Another product of the same chip; 0: the one of chip_data.py."""
    images: Images = field(default_factory=MadeUp)
    """What the security processor takes for firmware."""
    firmware: bool = True
    """False: the firmware checks are off and every block counts as loaded (unit tests)."""
