"""What KFD's topology reports of a machine: processors, GPUs, their memory, links and caches.

Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c node_show(), mem_show(), iolink_show()
"""

from __future__ import annotations

from dataclasses import dataclass

from drivers.base.errors import DeviceError

# src: include/uapi/linux/kfd_sysfs.h HSA_MEM_HEAP_TYPE_*, HSA_IOLINK_TYPE_*, HSA_IOLINK_FLAGS_*
HEAP_SYSTEM, HEAP_VRAM_PUBLIC, HEAP_VRAM_PRIVATE = 0, 1, 2
LINK_PCIE, LINK_XGMI = 2, 11
LINK_ENABLED, LINK_NO_ATOMICS_32, LINK_NO_ATOMICS_64, LINK_NO_PEER_DMA = 1, 1 << 2, 1 << 3, 1 << 4
_BUS_SHIFT, _SLOT_SHIFT = 8, 3


@dataclass(frozen=True, slots=True)
class MemoryBank:
    """One piece of memory of a node."""

    heap_type: int
    nbytes: int
    flags: int
    width_bits: int
    clock_mhz: int


@dataclass(frozen=True, slots=True)
class Link:
    """How one node reaches another; bandwidths in MB/s as the kernel reports them."""

    kind: int
    node_from: int
    node_to: int
    weight: int
    min_bandwidth: int
    max_bandwidth: int
    flags: int
    sdma_engine_mask: int
    """SDMA engines the kernel recommends for this way; 0 where it does not say."""


@dataclass(frozen=True, slots=True)
class CpuNode:
    """Processors with memory of their own."""

    index: int
    cores: int
    banks: tuple[MemoryBank, ...]


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A GPU, or one partition of it. Counts are of the whole node, all XCCs together."""

    index: int
    gpu_id: int
    """What ioctls call it; changes from boot to boot."""
    name: str
    gfx_target_version: int
    vendor_id: int
    device_id: int
    domain: int
    location_id: int
    render_minor: int
    simd_count: int
    simd_per_cu: int
    num_xcc: int
    array_count: int
    simd_arrays_per_engine: int
    lds_kib: int
    wave_lanes: int
    max_waves_per_simd: int
    scratch_slots_per_cu: int
    """Waves with scratch memory that one compute unit runs at a time."""
    cwsr_size: int
    """Bytes, of one XCC; 0 where the kernel does not report it (before 6.12)."""
    ctl_stack_size: int
    """The same."""
    cp_queues: int
    sdma_engines: int
    sdma_xgmi_engines: int
    sdma_queues_per_engine: int
    clock_mhz: int
    mec_firmware: int
    sdma_firmware: int
    capability: int
    unique_id: int
    hive_id: int
    banks: tuple[MemoryBank, ...]
    links: tuple[Link, ...]
    """Links of the machine: to processors, and over XGMI to other GPUs."""
    peers: tuple[Link, ...]
    """Ways to other GPUs over PCIe (p2p_links)."""
    gtt_bytes: int = 0
    """Of a processor's GPU (APU): memory of the machine that it may use beside its banks."""
    lacks: tuple[DeviceError, ...] = ()
    """Why it has no links or peers, where a file of theirs could not be read."""
    unified: bool = False
    """What is asked for as its own memory is memory of the machine, which the host may map."""

    @property
    def cus(self) -> int:
        """Compute units."""
        return self.simd_count // self.simd_per_cu

    @property
    def cus_per_xcc(self) -> int:
        """Compute units of one XCC, rounded as the kernel rounds."""
        return self.cus // self.num_xcc

    @property
    def engines_per_xcc(self) -> int:
        """Shader engines of one XCC."""
        return self.array_count // self.num_xcc // self.simd_arrays_per_engine

    @property
    def vram_bytes(self) -> int:
        """All memory on the card."""
        vram = (HEAP_VRAM_PUBLIC, HEAP_VRAM_PRIVATE)
        return sum(bank.nbytes for bank in self.banks if bank.heap_type in vram)

    @property
    def memory_bytes(self) -> int:
        """What programs may allocate in all."""
        return self.vram_bytes + self.gtt_bytes

    @property
    def host_visible(self) -> bool:
        """Whether the processor can address all of its memory (large BAR)."""
        return any(bank.heap_type == HEAP_VRAM_PUBLIC for bank in self.banks)

    @property
    def render_path(self) -> str:
        """The node in /dev/dri that KFD wants opened for it."""
        return f"/dev/dri/renderD{self.render_minor}"

    @property
    def pci_address(self) -> str:
        """Where it is on PCI. A partition has its number in the function."""
        bus, function = self.location_id >> _BUS_SHIFT & 0xFF, self.location_id & 7
        return f"{self.domain:04x}:{bus:02x}:{self.location_id >> _SLOT_SHIFT & 31:02x}.{function}"


@dataclass(frozen=True, slots=True)
class BrokenNode:
    """A node whose files could not be read, or are not what the kernel writes."""

    index: int
    gpu_id: int
    """0 for a processor, or where not even this could be read."""
    error: DeviceError


@dataclass(frozen=True, slots=True)
class Topology:
    """Everything KFD manages, in its order."""

    generation: int
    cpus: tuple[CpuNode, ...]
    gpus: tuple[GpuNode, ...]
    hidden: tuple[int, ...] = ()
    """Nodes that this process may not read."""
    broken: tuple[BrokenNode, ...] = ()
    """Nodes that are passed over, each with its reason; the others are not affected."""

    @property
    def places(self) -> tuple[GpuNode | BrokenNode, ...]:
        """GPUs in KFD's order, those that are passed over among them: its clients count all."""
        gpus: list[GpuNode | BrokenNode] = [*self.gpus]
        gpus += [node for node in self.broken if node.gpu_id]
        return tuple(sorted(gpus, key=lambda node: node.index))
