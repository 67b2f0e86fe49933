"""The files in which the kernel describes its GPUs: KFD's topology and amdgpu's ip_discovery."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from boards.amd.chip import FIRST_MINOR
from boards.amd.chip_data import HW_IDS, L2_KIB, MEMORY_BITS, MEMORY_MHZ, RLC_VERSION
from boards.amd.cp.engine_types import Chip
from boards.amd.drm.types import DRM_MAJOR
from boards.amd.kfd.rules import rules_of
from boards.amd.pci.ip_blocks import bases_dw
from boards.machine.behaviour import Rules

Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Reported:
    """What the kernel reports of its GPUs' memory, and whether of their save areas."""

    bank_bytes: int
    """Of the memory bank in KFD's topology."""
    vram_bytes: int
    gtt_bytes: int
    large_bar: bool = True
    save_sizes: bool = True
    mem_info: bool = True
    rules: Rules = field(default_factory=partial(rules_of, ""))
    """Of the kernel's release: which properties there are."""


TOPOLOGY = "/sys/devices/virtual/kfd/kfd/topology"
_HEAP_SYSTEM, _HEAP_PUBLIC, _HEAP_PRIVATE = 0, 1, 2
"""src: include/uapi/linux/kfd_sysfs.h HSA_MEM_HEAP_TYPE_*"""
_PCIE, _ENABLED = 2, 1
"""src: the same, HSA_IOLINK_TYPE_PCIEXPRESS, HSA_IOLINK_FLAGS_ENABLED"""
_CPU_BYTES = 64 << 30
_SAVE_SIZES = ("cwsr_size", "ctl_stack_size")
_SINCE = {"debug_properties": ("debug_prop", "num_xcc"), "save_sizes": _SAVE_SIZES}
"""Properties by the rule that brings them."""
_DEBUG_BITS, _PER_QUEUE_RESET = 0x6007_8000, 0x8000_0000
"""src: kfd_sysfs.h HSA_CAP_TRAP_DEBUG_*, HSA_CAP_PER_QUEUE_RESET_SUPPORTED"""
_RESET_ALONE = ((9, 4, 3), (9, 5, 0), (11, 0, 0), (11, 0, 2), (11, 0, 3), (12, 0, 0), (12, 0, 1))
"""src: kfd_topology.c kfd_topology_set_capabilities() of 7.3, by GC"""
_PAGE_SHIFT = 12
_LINK_PCIE_WEIGHT = 20


def gpu_id(index: int) -> int:
    """What KFD calls GPU number `index`: a 16-bit hash of where it sits."""
    # src: amdkfd/kfd_priv.h KFD_GPU_ID_HASH_WIDTH 16
    return 0x4A31 + 0x1357 * index


def text(properties: Mapping[str, int]) -> bytes:
    """Lines of "name value"."""
    return "".join(f"{name} {value}\n" for name, value in properties.items()).encode()


def _bank(heap_type: int, nbytes: int) -> bytes:
    return text(
        {"heap_type": heap_type, "size_in_bytes": nbytes, "flags": 0,
         "width": MEMORY_BITS, "mem_clk_max": MEMORY_MHZ}
    )  # fmt: skip


def _link(start: int, end: int) -> bytes:
    return text({
        "type": _PCIE, "version_major": 0, "version_minor": 0, "node_from": start, "node_to": end,
        "weight": _LINK_PCIE_WEIGHT, "min_latency": 0, "max_latency": 0, "min_bandwidth": 312,
        "max_bandwidth": 32000, "recommended_transfer_size": 0,
        "recommended_sdma_engine_id_mask": 0, "flags": _ENABLED,
    })  # fmt: skip


def _cpu_properties(like: Chip, links: int) -> dict[str, int]:
    properties = dict.fromkeys(like.properties, 0)
    gpu_only = list(like.properties).index("ctl_stack_size") + 1
    properties = dict(list(properties.items())[:gpu_only])
    return properties | {
        "cpu_cores_count": 8, "mem_banks_count": 1, "io_links_count": links,
        "max_engine_clk_ccompute": 4000,
    }  # fmt: skip


def _cpu(chips: Sequence[Chip]) -> Files:
    folder = f"{TOPOLOGY}/nodes/0"
    files = {
        f"{folder}/gpu_id": b"0\n",
        f"{folder}/name": b"\n",
        f"{folder}/properties": text(_cpu_properties(chips[0], len(chips))),
        f"{folder}/mem_banks/0/properties": _bank(_HEAP_SYSTEM, _CPU_BYTES),
    }
    for node in range(1, len(chips) + 1):
        files[f"{folder}/io_links/{node - 1}/properties"] = _link(0, node)
    return files


def _gpu(chip: Chip, index: int, count: int, reported: Reported) -> Files:
    node = index + 1
    folder = f"{TOPOLOGY}/nodes/{node}"
    peers = [other for other in range(count) if other != index]
    properties = dict(chip.properties) | {
        "location_id": 0x300 + 0x100 * index, "drm_render_minor": FIRST_MINOR + index,
        "unique_id": chip.properties["unique_id"] + (index << 32), "p2p_links_count": len(peers),
    }  # fmt: skip
    properties = _of_release(chip, properties, reported.rules)
    if not reported.save_sizes:
        properties = {k: v for k, v in properties.items() if k not in _SAVE_SIZES}
    heap = _HEAP_PUBLIC if reported.large_bar else _HEAP_PRIVATE
    cache = {
        "processor_id_low": properties["simd_id_base"], "level": 2, "size": L2_KIB,
        "cache_line_size": 128, "cache_lines_per_tag": 1, "association": 16, "latency": 0,
        "type": 9,
    }  # fmt: skip
    files = {
        f"{folder}/gpu_id": b"%d\n" % gpu_id(index),
        f"{folder}/name": b"ip discovery\n",
        f"{folder}/properties": text(properties),
        f"{folder}/mem_banks/0/properties": _bank(heap, reported.bank_bytes),
        f"{folder}/io_links/0/properties": _link(node, 0),
        f"{folder}/caches/0/properties": text(cache) + b"sibling_map 1,1,1,1,0,0,0,0\n",
    }
    for number, peer in enumerate(peers):
        files[f"{folder}/p2p_links/{number}/properties"] = _link(node, peer + 1)
    return files


def _of_release(chip: Chip, properties: dict[str, int], rules: Rules) -> dict[str, int]:
    """The properties that a release has. src: kfd_topology.c node_show()"""
    left = [name for rule, names in _SINCE.items() if rule not in rules for name in names]
    found = {name: value for name, value in properties.items() if name not in left}
    if "debug_properties" not in rules:
        found["capability"] &= ~_DEBUG_BITS
    if "queue_reset_bit" in rules and chip.gc in _RESET_ALONE:
        found["capability"] |= _PER_QUEUE_RESET
    if "capability2" not in rules:
        return found
    names = list(found)
    names.insert(names.index("capability") + 1, "capability2")
    return {name: found.get(name, 0) for name in names}


def _memory(index: int, reported: Reported) -> Files:
    """src: amdgpu_vram_mgr.c, amdgpu_gtt_mgr.c, their mem_info attributes; ttm_tt.c pages_limit"""
    device = f"/sys/class/drm/renderD{FIRST_MINOR + index}/device"
    return {
        f"{device}/mem_info_vram_total": b"%d\n" % reported.vram_bytes,
        f"{device}/mem_info_gtt_total": b"%d\n" % reported.gtt_bytes,
        "/sys/module/ttm/parameters/pages_limit": b"%d\n" % (reported.gtt_bytes >> _PAGE_SHIFT),
        "/sys/module/amdgpu/parameters/gttsize": b"-1\n",
    }


def _nodes(index: int) -> Files:
    """How a client finds the nodes of a GPU by the numbers of one. src: libdrm xf86drm.c

    The primary node is listed and not in /dev/dri, as in a container that was given the other.
    """
    files = {}
    numbers = {f"card{index}": index, f"renderD{FIRST_MINOR + index}": FIRST_MINOR + index}
    for minor in numbers.values():
        folder = f"/sys/dev/char/{DRM_MAJOR}:{minor}/device/drm"
        for name, listed in numbers.items():
            files[f"{folder}/{name}/dev"] = b"%d:%d\n" % (DRM_MAJOR, listed)
    return files


def _discovery(chip: Chip, index: int) -> Files:
    device = f"/sys/class/drm/renderD{FIRST_MINOR + index}/device"
    files = {
        f"/dev/dri/renderD{FIRST_MINOR + index}": b"",
        f"{device}/vendor": b"0x1002\n",
        f"{device}/device": b"0x%04x\n" % chip.properties["device_id"],
        f"{device}/fw_version/mec_fw_version": b"0x%08x\n" % chip.properties["fw_version"],
        f"{device}/fw_version/sdma_fw_version": b"0x%08x\n" % chip.properties["sdma_fw_version"],
        f"{device}/fw_version/rlc_fw_version": b"0x%08x\n" % RLC_VERSION,
        f"{device}/ip_discovery/die/0/num_ips": b"50\n",
    }
    engines = chip.sdma_engines + chip.sdma_xgmi_engines
    for name, version in chip.ip.items():
        for instance in range({"GC": chip.xccs, "SDMA0": engines}.get(name, 1)):
            folder = f"{device}/ip_discovery/die/0/{HW_IDS[name]}/{instance}"
            numbers = dict(zip(("major", "minor", "revision"), version, strict=True))
            bases = bases_dw(chip, name, instance)
            numbers |= {"hw_id": HW_IDS[name], "num_instance": instance}
            numbers |= {"num_base_addresses": len(bases)}
            files |= {f"{folder}/{key}": b"%d\n" % value for key, value in numbers.items()}
            files[f"{folder}/harvest"] = b"0x0\n"
            files[f"{folder}/base_addr"] = b"".join(b"0x%08X\n" % base for base in bases)
    return files


def files(chips: Sequence[Chip], reported: Reported) -> Files:
    """Every file of a machine with these GPUs, device nodes included."""
    found = {
        "/dev/kfd": b"",
        "/sys/module/amdgpu/initstate": b"live\n",
        f"{TOPOLOGY}/generation_id": b"2\n",
        f"{TOPOLOGY}/system_properties": b"platform_oem 0\nplatform_id 0\nplatform_rev 1\n",
        **_cpu(chips),
    }
    for index, chip in enumerate(chips):
        found |= _gpu(chip, index, len(chips), reported)
        found |= _memory(index, reported) if reported.mem_info else {}
        found |= _discovery(chip, index)
        found |= _nodes(index)
    return found


class Tree:
    """Files by path, and the directories that they lie in."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)
        self._children: dict[str, set[str]] = {}
        for path in self._files:
            parts = path.strip("/").split("/")
            for depth, name in enumerate(parts):
                self._children.setdefault("/" + "/".join(parts[:depth]), set()).add(name)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return path in self._files or path.rstrip("/") in self._children

    def read(self, path: str) -> bytes:
        """Raises: OSError ENOENT, EISDIR."""
        if path in self._files:
            return self._files[path]
        number = errno.EISDIR if path.rstrip("/") in self._children else errno.ENOENT
        raise OSError(number, f"cannot read {path}")

    def listdir(self, path: str) -> list[str]:
        """Raises: OSError ENOENT, ENOTDIR."""
        names = self._children.get(path.rstrip("/"))
        if names is None:
            number = errno.ENOTDIR if path in self._files else errno.ENOENT
            raise OSError(number, f"cannot list {path}")
        return sorted(names)
