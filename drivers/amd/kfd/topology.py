"""KFD's topology, read from sysfs into typed nodes.

Every number is checked before anything is computed from it; a name that a newer kernel adds is
read over; a node that the device cgroup hides from this process is listed as hidden. A node whose
files are not as expected is passed over with its reason, and hides no other.

Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c node_show(), mem_show(), iolink_show(),
kfd_cache_show()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from drivers.amd.kfd.nodes import BrokenNode, CpuNode, GpuNode, Link, MemoryBank, Topology
from drivers.amd.kfd.properties import Properties, malformed, number_file, read_properties
from drivers.base.contracts import World
from drivers.base.errors import Busy, Denied, DeviceError, NotFound
from drivers.machine.text import entries, first_line

ROOT = "/sys/devices/virtual/kfd/kfd/topology"
MAX_NODES, MAX_BANKS, MAX_LINKS = 256, 64, 512
_ATTEMPTS = 3
# Bounds far above any chip; they keep what is computed from them small.
_MOST_SIMDS, _MOST_SIMDS_PER_CU, _MOST_XCCS, _MOST_ARRAYS = 1 << 16, 16, 64, 1 << 12
_MOST_LDS_KIB, _MOST_ENGINES, _MOST_QUEUES = 1 << 10, 256, 1 << 12
_MOST_SAVE_BYTES = 1 << 30
_MINOR_LIMIT = 1 << 20
_MOST_SLOTS = 1 << 10
_WAVE_LANES = (32, 64)
_MOST_DIGITS = 5
_TARGET = "gfx_target_version"
_OLD_KERNEL = "kernels before Linux 6.1 may not write it: update the kernel"


def read_topology(world: World, root: str = ROOT, *, links: bool = True) -> Topology:
    """The topology at one moment; without `links` nodes have none, and no files of theirs are read.

    Raises: NotFound without amdgpu; MalformedInput; Busy when it keeps changing under us.
    """
    if not world.exists(root):
        raise NotFound(
            f"{root} does not exist: the amdgpu kernel module is not loaded",
            hint="see `lspci -d 1002:`; with an AMD GPU there: `modprobe amdgpu`",
        )
    for _ in range(_ATTEMPTS):
        before = number_file(world, f"{root}/generation_id", bits=32)
        topology = _read(world, root, before, links)
        if number_file(world, f"{root}/generation_id", bits=32) == before:
            return topology
    raise Busy(
        f"{root} changed {_ATTEMPTS} times while it was read",
        hint="a GPU is being added or removed: try again",
    )


def _read(world: World, root: str, generation: int, links: bool) -> Topology:
    cpus: list[CpuNode] = []
    gpus: list[GpuNode] = []
    hidden: list[int] = []
    broken: list[BrokenNode] = []
    numbers = _nodes(world, f"{root}/nodes")
    for index in numbers[MAX_NODES:]:
        error = malformed(f"{root}/nodes", f"{len(numbers)} nodes; at most {MAX_NODES} are read")
        broken.append(BrokenNode(index, 0, error))
    for index in numbers[:MAX_NODES]:
        folder, gpu_id = f"{root}/nodes/{index}", 0
        try:
            gpu_id = number_file(world, f"{folder}/gpu_id", bits=32)
            if gpu_id:
                gpus.append(_gpu(world, folder, index, gpu_id, links))
            else:
                cpus.append(_cpu(world, folder, index))
        except Denied:
            hidden.append(index)
        except DeviceError as error:
            broken.append(BrokenNode(index, gpu_id, error))
    gpus, twins = _apart(gpus, f"{root}/nodes")
    broken = sorted([*broken, *twins], key=lambda node: node.index)
    return Topology(generation, tuple(cpus), tuple(gpus), tuple(hidden), tuple(broken))


def _apart(gpus: list[GpuNode], path: str) -> tuple[list[GpuNode], list[BrokenNode]]:
    """GPUs that an ioctl can name, and those that share their gpu_id with another one."""
    count = Counter(gpu.gpu_id for gpu in gpus)
    twins = [
        BrokenNode(gpu.index, gpu.gpu_id, malformed(path, f"nodes share gpu_id {gpu.gpu_id}"))
        for gpu in gpus
        if count[gpu.gpu_id] > 1
    ]
    return [gpu for gpu in gpus if count[gpu.gpu_id] == 1], twins


def _nodes(world: World, path: str) -> list[int]:
    """Numbers of nodes, in order; an entry with another name is none."""
    return sorted(int(name) for name in entries(world, path) if _is_number(name))


def _is_number(name: str) -> bool:
    """As the kernel writes a number, and not longer than any of its nodes needs."""
    return name.isascii() and name.isdigit() and name == str(int(name[:_MOST_DIGITS]))


def _numbered(world: World, path: str, most: int) -> list[int]:
    """The numbers that name a folder's entries, in order. Raises: MalformedInput."""
    names = entries(world, path)
    if len(names) > most:
        raise malformed(path, f"{len(names)} entries; at most {most} are read")
    for name in names:
        if not _is_number(name):
            raise malformed(path, f"an entry is called {name[:20]!a}")
    return sorted(int(name) for name in names)


def _files(world: World, folder: str, most: int) -> Iterator[Properties]:
    for index in _numbered(world, folder, most):
        yield read_properties(world, f"{folder}/{index}/properties")


def _banks(world: World, folder: str) -> tuple[MemoryBank, ...]:
    return tuple(
        MemoryBank(
            heap_type=found.u32("heap_type"),
            nbytes=found.u64("size_in_bytes"),
            flags=found.u32("flags"),
            width_bits=found.u32("width"),
            clock_mhz=found.u32("mem_clk_max"),
        )
        for found in _files(world, f"{folder}/mem_banks", MAX_BANKS)
    )


def _links(world: World, folder: str) -> tuple[Link, ...]:
    return tuple(
        Link(
            kind=found.u32("type"),
            node_from=found.u32("node_from"),
            node_to=found.u32("node_to"),
            weight=found.u32("weight"),
            min_bandwidth=found.optional("min_bandwidth"),
            max_bandwidth=found.optional("max_bandwidth"),
            flags=found.u32("flags"),
            sdma_engine_mask=found.optional("recommended_sdma_engine_id_mask"),
        )
        for found in _files(world, folder, MAX_LINKS)
    )


def _ways(world: World, folder: str, lacks: list[DeviceError]) -> tuple[Link, ...]:
    """Links that only inform; () where they cannot be read, with the reason in `lacks`."""
    try:
        return _links(world, folder)
    except DeviceError as error:
        lacks.append(error)
        return ()


def _cpu(world: World, folder: str, index: int) -> CpuNode:
    found = read_properties(world, f"{folder}/properties")
    return CpuNode(index, found.u32("cpu_cores_count"), _banks(world, folder))


def _gpu(world: World, folder: str, index: int, gpu_id: int, links: bool) -> GpuNode:
    found = read_properties(world, f"{folder}/properties")
    if _TARGET not in found.values and _TARGET not in found.wrong:
        raise malformed(found.path, f"{_TARGET} is missing").advised(_OLD_KERNEL)
    lacks: list[DeviceError] = []
    ways = _ways(world, f"{folder}/io_links", lacks) if links else ()
    peers = _ways(world, f"{folder}/p2p_links", lacks) if links else ()
    node = GpuNode(
        index=index,
        gpu_id=gpu_id,
        name=first_line(world, f"{folder}/name"),
        gfx_target_version=found.u32(_TARGET),
        vendor_id=found.u32("vendor_id"),
        device_id=found.u32("device_id"),
        domain=found.u32("domain"),
        location_id=found.u32("location_id"),
        render_minor=found.u32("drm_render_minor", high=_MINOR_LIMIT - 1),
        simd_count=found.u32("simd_count", 1, _MOST_SIMDS),
        simd_per_cu=found.u32("simd_per_cu", 1, _MOST_SIMDS_PER_CU),
        num_xcc=found.optional("num_xcc", 1, _MOST_XCCS),
        array_count=found.u32("array_count", 1, _MOST_ARRAYS),
        simd_arrays_per_engine=found.u32("simd_arrays_per_engine", 1, _MOST_ARRAYS),
        lds_kib=found.u32("lds_size_in_kb", high=_MOST_LDS_KIB),
        wave_lanes=found.u32("wave_front_size"),
        scratch_slots_per_cu=found.u32("max_slots_scratch_cu", 1, _MOST_SLOTS),
        max_waves_per_simd=found.u32("max_waves_per_simd"),
        cwsr_size=found.optional("cwsr_size", high=_MOST_SAVE_BYTES),
        ctl_stack_size=found.optional("ctl_stack_size", high=_MOST_SAVE_BYTES),
        cp_queues=found.u32("num_cp_queues", high=_MOST_QUEUES),
        sdma_engines=found.u32("num_sdma_engines", high=_MOST_ENGINES),
        sdma_xgmi_engines=found.optional("num_sdma_xgmi_engines", high=_MOST_ENGINES),
        sdma_queues_per_engine=found.optional("num_sdma_queues_per_engine", high=_MOST_QUEUES),
        clock_mhz=found.optional("max_engine_clk_fcompute"),
        mec_firmware=found.u32("fw_version"),
        sdma_firmware=found.u32("sdma_fw_version"),
        capability=found.u32("capability"),
        unique_id=found.optional("unique_id", high=(1 << 64) - 1),
        hive_id=found.optional("hive_id", high=(1 << 64) - 1),
        banks=_banks(world, folder),
        links=ways,
        peers=peers,
        lacks=tuple(lacks),
    )
    _check(node, found.path)
    return node


def _check(node: GpuNode, path: str) -> None:
    """The rules between properties. Raises: MalformedInput."""
    if node.wave_lanes not in _WAVE_LANES:
        raise malformed(path, f"wave_front_size {node.wave_lanes} is neither 32 nor 64")
    whole = not node.simd_count % node.simd_per_cu  # src: kfd_crat.c, simd_count of all CUs
    if not whole or node.num_xcc == 0 or node.cus_per_xcc == 0 or node.engines_per_xcc == 0:
        raise malformed(
            path,
            f"{node.simd_count} SIMDs and {node.array_count} arrays do not make "
            f"{node.num_xcc} XCCs of {node.simd_per_cu} SIMDs a compute unit",
        )
