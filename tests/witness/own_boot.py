"""Our own driver's boot of a PCI board, as the board sees it: one half of a comparison."""

from __future__ import annotations

from io import StringIO

from boards.access_log import AccessLog
from boards.amd.pci.gpu import PciGpu
from boards.amd.pci.watched import watch
from boards.compare_trace import Summary, read
from boards.front import Setup, power_on
from boards.machine.pci.world import PciWorld

VRAM_BYTES = 4 << 30
"""As in front of tinygrad."""
BOOTED = "booted"


def record(chip: str, vram_bytes: int = VRAM_BYTES) -> tuple[str, list[str]]:
    """(the trace of a boot with its queues and of the close, the board's violations)."""
    front = power_on(Setup(chip, iface="PCI", vram_bytes=vram_bytes))
    board = front.board
    if not isinstance(board, PciWorld):
        raise TypeError(f"{board} is not over PCI")
    (gpu,) = board.gpus
    if not isinstance(gpu, PciGpu):
        raise TypeError(f"{gpu} is not AMD's")
    out = StringIO()
    log = AccessLog(chip, out)
    watch(gpu, log)
    device = front.open()
    log.mark(BOOTED)
    device.close()
    return out.getvalue(), [str(violation) for violation in board.violations]


def boot(chip: str, vram_bytes: int = VRAM_BYTES) -> Summary:
    """What our driver has written when its queues are there."""
    trace, _ = record(chip, vram_bytes)
    return read(trace.splitlines(), f"our boot of {chip}", BOOTED)
