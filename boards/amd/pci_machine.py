"""A machine with AMD GPUs on its PCI bus: `open_pci_board("gfx1100")`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial

from boards.amd.hardware import Hardware
from boards.amd.hardware import Options as Strictness
from boards.amd.pci.firmware_set import MANIFEST, NAMES, world_files
from boards.amd.pci.gpu import PCI_VENDOR, open_function
from boards.amd.pci.left_over import leave_as_amdgpu
from boards.amd.pci.options import PciOptions
from boards.machine.pci.machine import BusOptions, Card, PciMachine, Software
from boards.machine.pci.plain import audio, bridge
from boards.machine.pci.world import PciWorld

_BRIDGE, _AUDIO = 0x1478, 0xAB30
"""src: pci-ids.ucw.cz 1002:1478 Navi upstream port, 1002:ab30 audio"""


@cache
def _firmware(chip_name: str) -> dict[str, bytes]:
    return world_files([chip_name])


@dataclass(slots=True, kw_only=True)
class MachineOptions(BusOptions):
    """What the machine around AMD GPUs is like, and what they are like."""

    vram_bytes: int = 1 << 30
    amdgpu: bool = False
    """Whether the kernel's own driver has the GPUs at first, and has left traces in them."""
    function: PciOptions = field(default_factory=PciOptions)
    strictness: Strictness = field(default_factory=Strictness)


def open_pci_board(name: str, *, options: MachineOptions | None = None) -> PciWorld:
    """A machine with GPUs of a kind on its bus, and a process in front of it.

    Raises: ValueError with the names there are.
    """
    if name not in pci_names():
        raise ValueError(f"no board {name!r} over PCI: there are {', '.join(pci_names())}")
    made = options or MachineOptions()
    hardware = Hardware([], made.strictness)
    cards = [_card(hardware, name, made) for _ in range(made.gpus)]
    software = Software("amdgpu", made.amdgpu, _firmware(name), MANIFEST)
    return PciMachine(name, made, hardware, cards, software).start()


def _card(hardware: Hardware, name: str, options: MachineOptions) -> Card:
    gpu = open_function(
        hardware, name, vram_bytes=options.vram_bytes, options=options.function
    )  # fmt: skip
    return Card(
        gpu, bridge(PCI_VENDOR, _BRIDGE), audio(PCI_VENDOR, _AUDIO), partial(leave_as_amdgpu, gpu)
    )


def pci_names() -> list[str]:
    """Chips that there is a board of over PCI."""
    return list(NAMES)


def another_process(world: PciWorld) -> PciWorld:
    """A second process of the same machine. Raises: TypeError for another kind of machine."""
    if not isinstance(world.machine, PciMachine):
        raise TypeError(f"{world.machine!r} starts no processes")
    return world.machine.start()
