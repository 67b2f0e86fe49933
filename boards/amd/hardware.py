"""What all processes of a board share: GPUs, memory, the bus, time, violations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from boards.amd.chip import SaveSizes, sizes_of
from boards.amd.cp.engine_types import Chip, Host, QueueEngines
from boards.amd.cp.engines import Engines
from boards.amd.kfd.rules import rules_of
from boards.amd.kfd.sysfs import Reported, gpu_id
from boards.amd.memory.coherence import Coherence
from boards.amd.memory.pages import FORMATS, Bus, Format
from boards.amd.memory.space import Checks
from boards.machine.chassis import Chassis
from boards.machine.extents import Extents, Piece
from boards.machine.pool import FilePool, Vram

EngineFactory = Callable[[Host], QueueEngines]
RESERVED_BYTES = 1 << 20
"""Of VRAM, for firmware: offset 0 is never a process's."""


class Gpu:
    """One GPU: its chip and its memory."""

    def __init__(self, index: int, chip: Chip, options: Options, bus: Bus) -> None:
        vram_bytes = options.vram_bytes
        self.index, self.chip, self.gpu_id = index, chip, gpu_id(index)
        self.sizes: SaveSizes = sizes_of(chip.name, old=options.old_save_area)
        self.prefers_gtt = prefers_gtt(chip, options)
        self.format: Format = FORMATS[chip.family]
        self.vram = Vram(f"VRAM of GPU {index}", vram_bytes)
        self.memory = Extents(RESERVED_BYTES, vram_bytes - RESERVED_BYTES)
        self.bar = bus.add(self.vram)
        """Where other GPUs find the VRAM on the bus."""
        self.minor = chip.properties["drm_render_minor"] + index
        self.node = f"/dev/dri/renderD{self.minor}"
        self.sdma_ids = _sdma_ids(chip)
        """Free copy queues by number, of the engines for PCIe and for XGMI."""
        self.lost_vram = 0

    def give(self, pieces: list[Piece]) -> None:
        """Free VRAM; what was in it is gone."""
        for piece in pieces:
            self.vram.forget(piece.start, piece.nbytes)
        self.memory.give(pieces)


def _sdma_ids(chip: Chip) -> tuple[set[int], set[int]]:
    """src: kfd_device.c reserved_sdma_queues_bitmap: gfx11 and later keep two queues each."""
    reserved = 2 * chip.sdma_engines if chip.family in ("gfx11", "gfx12") else 0
    plain = range(reserved, reserved + chip.sdma_engines * chip.sdma_queues)
    return set(plain), set(range(chip.sdma_xgmi_engines * chip.sdma_queues))


@dataclass(slots=True)
class Counters:
    """What is alive; a leak test compares two of these."""

    fds: int = 0
    mappings: int = 0
    processes: int = 0
    buffers: int = 0
    queues: int = 0
    events: int = 0
    vram_bytes: int = 0
    """Of buffers; page tables, which stay until the process ends, are counted apart."""
    gtt_bytes: int = 0
    mapped_to_gpus: int = 0
    table_pages: int = field(default=0, compare=False)


@dataclass(slots=True)
class Options:
    """How strict a board is, and what it is made of."""

    large_bar: bool = True
    vram_bytes: int = 1 << 30
    gtt_bytes: int = 1 << 30
    checks: Checks = field(default_factory=Checks)
    close_ends_process: bool = True
    """Closing the last descriptor of /dev/kfd ends the process. The kernel keeps it until the
    process's memory goes (kfd_process.c, mmu notifier); False does so too."""
    evict_on_fault: bool = False
    """A page fault stops all queues of its process on that GPU for good, as the kernel does
    (kfd_debug.c, kfd_dqm_evict_pasid). False is kinder than any kernel: with amdgpu's parameter
    no_queue_eviction_on_vm_fault=1 Linux 6.12 raises no event either (gfx9, gfx11)."""
    queue_reset: bool = True
    """A hung queue that is destroyed is reset alone. Linux 6.12 can do so with compute queues of
    gfx9 and gfx10, later kernels with others; False resets the whole GPU instead."""
    xnack_mode: bool = False
    """SET_XNACK_MODE answers as with CONFIG_HSA_AMD_SVM, of which the rest is not there."""
    late: bool = False
    """Doorbells start nothing yet: queues run when the process waits for events, sleeps or reads
    at the clock. What a driver reads, reuses or frees without waiting is then seen to be wrong."""
    old_save_area: bool = False
    """The kernel as it was until December 2025: a queue's save area has exactly the size that it
    computes, which is too small for gfx1151 and not reported. # src: "drm/amdkfd: relax
    checks for over allocation of save area", "... bump minimum vgpr size for gfx1151", "... Export
    the cwsr_size and ctl_stack_size to userspace", all in stable kernels too"""
    kernel: str = ""
    """The release whose rules KFD follows (`boards/amd/kfd/behaviour.txt`), also in what it does
    after page faults and with hung queues. "": 6.12's, and for those two the options above."""
    reports_memory: bool = True
    """Whether amdgpu's mem_info files are there to be read."""
    engines: EngineFactory = Engines


def prefers_gtt(chip: Chip, options: Options) -> bool:
    """Whether what is asked for as VRAM is system memory: on a processor's GPU with less VRAM.

    src: amdgpu_ttm.c amdgpu_ttm_init() apu_prefer_gtt, amdgpu_amdkfd_gpuvm.c (Linux 6.12)
    """
    return chip.carveout_bytes > 0 and options.vram_bytes < options.gtt_bytes


def reported(chip: Chip, options: Options) -> Reported:
    """What sysfs says of the memory of GPUs of a kind.

    src: amdgpu_amdkfd.c amdgpu_amdkfd_get_local_mem_info(): TTM's limit where it prefers GTT
    """
    bank = options.gtt_bytes if prefers_gtt(chip, options) else options.vram_bytes
    return Reported(
        bank, options.vram_bytes, options.gtt_bytes, options.large_bar,
        not options.old_save_area, options.reports_memory, rules_of(options.kernel),
    )  # fmt: skip


class Hardware(Chassis):
    """The machine under a board of AMD's: GPUs, memory, the bus."""

    def __init__(self, chips: Sequence[Chip], options: Options) -> None:
        super().__init__(late=options.late)
        self.options, self.bus, self.rules = options, Bus(), rules_of(options.kernel)
        self.coherence = Coherence()
        self.gtt = FilePool("system memory", options.gtt_bytes)
        self.gtt_bus = self.bus.add(self.gtt)
        self.gtt_memory = Extents(0, options.gtt_bytes)
        self.gpus = [Gpu(i, chip, options, self.bus) for i, chip in enumerate(chips)]
        self._next_offset = 1 << 32

    def engines(self, host: Host) -> QueueEngines:
        """Engines for one process on one GPU."""
        return self.options.engines(host)

    def mmap_offset(self, nbytes: int) -> int:
        """Where in the render node's file a buffer is mapped from; never the same twice."""
        offset = self._next_offset
        self._next_offset += nbytes
        return offset

    def gpu(self, number: int) -> Gpu | None:
        """A GPU by its gpu_id."""
        return next((gpu for gpu in self.gpus if gpu.gpu_id == number), None)

    def empty(self) -> None:
        """Power off: all memory goes back to the machine that the board runs on."""
        for gpu in self.gpus:
            gpu.vram.empty()
        self.gtt.empty()
