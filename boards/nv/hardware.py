"""What all processes of a board share: GPUs, memory, time, violations, the driver's version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from boards.machine.chassis import Chassis
from boards.machine.extents import Extents, Piece
from boards.machine.pool import FilePool, Vram
from boards.machine.records import Record
from boards.nv.chip import NvChip
from boards.nv.launch import Executor, NoExecutor
from boards.nv.layouts import DEFAULT, VERSIONS, records
from boards.nv.objects import Client
from boards.nv.warp.execute import WarpExecutor
from boards.nv.work import Queued

_RESERVED_BYTES = 1 << 20
_FIRST_GPU_ID = 0x100
_FIRST_LINEAR, _PAGE_BYTES = 0xE0_0000_0000, 4096
"""Where mappings for the host begin: as if in BAR1."""


@dataclass(slots=True)
class NvOptions:
    """How strict a board is, and what it is made of."""

    vram_bytes: int = 1 << 28
    system_bytes: int = 1 << 29
    driver: int = DEFAULT
    """Branch of the kernel driver, one of `layouts.VERSIONS`."""
    va_space_mm: bool = True
    """Module option uvm_enable_va_space_mm: a space of UVM is tied to the process's memory."""
    late: bool = False
    """Doorbells start nothing: work runs when the process waits, sleeps or reads the clock."""
    mig: bool = False
    """The GPUs are divided into instances."""
    compute_mode: int = 0
    """NV2080_CTRL_GPU_COMPUTE_MODE_RULES_*: 2 is Prohibited, 3 is Exclusive_Process."""
    confidential: bool = False
    """Confidential computing is on."""


class NvGpu:
    """One GPU: its chip, its memory, the channels that its doorbells start."""

    def __init__(self, index: int, chip: NvChip, vram_bytes: int) -> None:
        self.index, self.chip = index, chip
        self.vram = Vram(f"video memory of GPU {index}", vram_bytes)
        self.memory = Extents(_RESERVED_BYTES, vram_bytes - _RESERVED_BYTES)
        self.gpu_id = _FIRST_GPU_ID * (index + 1)
        """What RM calls it: made of domain, bus and slot."""
        self.bus = index + 1
        self.address = f"0000:{self.bus:02x}:00.0"
        self.uuid = bytes((0x47, index)) + bytes(range(1, 15))
        self.channels: dict[int, Queued] = {}
        """By work submit token."""
        self.reserved_by = 0
        """The client that has its compute mode's reservation."""
        self.lost = False
        """It has fallen off the bus."""
        self.opens = 0
        """Open files of its node, of every process: RM knows it while there are any."""
        self.executor: Executor = NoExecutor()

    def give(self, pieces: list[Piece]) -> None:
        """Free video memory; what was in it is gone."""
        for piece in pieces:
            self.vram.forget(piece.start, piece.nbytes)
        self.memory.give(pieces)


class NvHardware(Chassis):
    """The machine under a board of NVIDIA's."""

    def __init__(self, chips: Sequence[NvChip], options: NvOptions) -> None:
        super().__init__(late=options.late)
        self.options = options
        self.records: Mapping[str, Record] = records(options.driver)
        self.version = VERSIONS[options.driver]
        self.gpus = [NvGpu(i, chip, options.vram_bytes) for i, chip in enumerate(chips)]
        for gpu in self.gpus:
            gpu.executor = WarpExecutor(self.find)
        self.system = FilePool("system memory", options.system_bytes)
        self.system_memory = Extents(0, options.system_bytes)
        self.clients: dict[int, Client] = {}
        self._next_linear = _FIRST_LINEAR
        self.apart = False
        """Whether the GPUs have no way to each other's memory."""

    def linear_address(self, nbytes: int) -> int:
        """What a mapping for the host is called: an address that nothing else has."""
        self._next_linear += -(-nbytes // _PAGE_BYTES) * _PAGE_BYTES
        return self._next_linear

    def gpu_by_uuid(self, uuid: bytes) -> NvGpu | None:
        """A GPU by its identifier."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def pump(self) -> None:
        """Let every channel go on that can: what it waited for may have come."""
        for gpu in self.gpus:
            channels = list(gpu.channels.values())
            progress = any(channel.pending for channel in channels)
            for _ in range(_MAX_ROUNDS):
                if not progress:
                    break
                moved = [channel.run() for channel in channels]
                progress = any(moved)

    def empty(self) -> None:
        """Power off: all memory goes back to the machine that the board runs on."""
        for gpu in self.gpus:
            gpu.vram.empty()
        self.system.empty()


_MAX_ROUNDS = 10_000
"""Of channels that wait for each other, before whoever asked is let go."""
