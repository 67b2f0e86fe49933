"""KFD's topology and IP discovery on made-up machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drivers.amd.chips import CHIPS
from drivers.amd.kfd.discovery import HwId, check_chip, read_ip_blocks, usable
from drivers.amd.kfd.topology import read_topology
from drivers.amd.tools.look import look
from drivers.base.errors import Busy, MalformedInput, NotFound, Unsupported
from drivers.choice import visible_lists
from tests.amd_trees import (
    GFX90A,
    GFX942,
    GFX942_PARTITION,
    GFX1030,
    GFX1036,
    GFX1100,
    GFX1201,
    ROOT,
    Files,
    bank,
    link,
    machine,
    second,
    text,
)
from tests.fake_machine import X86, FakeMachine
from tests.support import check

PROPERTIES = f"{ROOT}/nodes/1/properties"


def test_a_gfx1100() -> None:
    world = FakeMachine(machine(GFX1100))
    topology = read_topology(world)
    check((topology.generation, len(topology.cpus), topology.hidden) == (2, 1, ()))
    check((topology.cpus[0].cores, topology.cpus[0].banks[0].nbytes) == (32, 64 << 30))
    (gpu,) = topology.gpus
    check((gpu.index, gpu.gpu_id, gpu.name) == (1, 0x1111, "ip discovery"))
    check((gpu.gfx_target_version, gpu.vendor_id, gpu.device_id) == (110000, 0x1002, 0x744C))
    check((gpu.cus, gpu.cus_per_xcc, gpu.engines_per_xcc) == (96, 96, 6))
    check((gpu.lds_kib, gpu.wave_lanes, gpu.max_waves_per_simd) == (64, 32, 16))
    check((gpu.pci_address, gpu.render_path) == ("0000:03:00.0", "/dev/dri/renderD128"))
    check((gpu.cp_queues, gpu.sdma_engines, gpu.sdma_queues_per_engine) == (8, 2, 6))
    check((gpu.cwsr_size, gpu.ctl_stack_size) == (0x2BEA000, 0xA000))
    check((gpu.mec_firmware, gpu.sdma_firmware, gpu.clock_mhz) == (2140, 20, 2482))
    check(gpu.unique_id == 11673270660693242239, "64 bits")
    check((gpu.vram_bytes, gpu.host_visible) == (24 << 30, True))
    check((gpu.links[0].node_to, gpu.links[0].max_bandwidth, gpu.peers) == (0, 32000, ()))
    check(not world.touched, "it only looks")


def test_a_gfx942_of_eight_xccs() -> None:
    (gpu,) = read_topology(FakeMachine(machine(GFX942))).gpus
    check((gpu.num_xcc, gpu.cus, gpu.cus_per_xcc, gpu.engines_per_xcc) == (8, 304, 38, 4))
    check((gpu.sdma_engines, gpu.sdma_xgmi_engines, gpu.hive_id) == (2, 14, 10631624818852212319))
    check(gpu.pci_address == "0000:47:00.0")


def test_a_gfx1030_of_an_older_kernel() -> None:
    (gpu,) = read_topology(FakeMachine(machine(GFX1030))).gpus
    check((gpu.num_xcc, gpu.cwsr_size, gpu.ctl_stack_size) == (1, 0, 0))
    check((gpu.cus, gpu.engines_per_xcc) == (80, 4))


def test_a_gfx1201() -> None:
    (gpu,) = read_topology(FakeMachine(machine(GFX1201, vram_bytes=16 << 30))).gpus
    check((gpu.cus, gpu.vram_bytes, gpu.ctl_stack_size) == (64, 16 << 30, 0x7000))


def test_a_gfx90a_whose_blocks_no_file_lists() -> None:
    """src: Linux 6.12, amdgpu_discovery.c: CHIP_ALDEBARAN's versions are written in the driver."""
    files = {path: data for path, data in machine(GFX90A).items() if "ip_discovery" not in path}
    (gpu,) = look(FakeMachine({**X86, **files})).gpus
    check(gpu.numbered and gpu.chip is not None and gpu.chip.name == "gfx90a", str(gpu.problems))
    check((gpu.node.cus, gpu.node.engines_per_xcc, gpu.blocks) == (104, 8, ()))


def test_a_processors_gpu_beside_a_card() -> None:
    gpus = read_topology(FakeMachine(machine(GFX1100, GFX1036))).gpus
    check([gpu.gfx_target_version for gpu in gpus] == [110000, 100306])
    check(gpus[1].pci_address == "0000:11:00.0")


def test_memory_that_the_processor_does_not_see() -> None:
    files = machine(GFX1100)
    files[f"{ROOT}/nodes/1/mem_banks/0/properties"] = bank(1, 256 << 20)
    files[f"{ROOT}/nodes/1/mem_banks/1/properties"] = bank(2, 7 << 30)
    (gpu,) = read_topology(FakeMachine(files)).gpus
    check(gpu.vram_bytes == (7 << 30) + (256 << 20))
    files[f"{ROOT}/nodes/1/mem_banks/0/properties"] = bank(3, 1 << 20)
    (gpu,) = read_topology(FakeMachine(files)).gpus
    check((gpu.vram_bytes, gpu.host_visible) == (7 << 30, False))


def test_ways_to_other_gpus() -> None:
    files = machine(GFX942, second(GFX942))
    files[f"{ROOT}/nodes/1/io_links/1/properties"] = link(11, 1, 2)
    files[f"{ROOT}/nodes/2/p2p_links/0/properties"] = link(2, 2, 1, flags=3)
    one, two = read_topology(FakeMachine(files)).gpus
    check([(way.kind, way.node_to) for way in one.links] == [(2, 0), (11, 2)])
    check([(way.node_to, way.flags) for way in two.peers] == [(1, 3)])


def test_eleven_nodes_come_in_the_order_of_their_numbers() -> None:
    gpus = read_topology(FakeMachine(machine(*(second(GFX1100, n) for n in range(11))))).gpus
    check([gpu.index for gpu in gpus] == list(range(1, 12)))


def test_a_name_that_a_newer_kernel_adds_is_read_over() -> None:
    files = machine(GFX1100)
    files[PROPERTIES] = text(GFX1100 | {"capability2": 1, "zz_top_9": 1 << 63})
    check(read_topology(FakeMachine(files)).gpus[0].cus == 96)


def test_without_amdgpu() -> None:
    with pytest.raises(NotFound, match=r"module is not loaded.*modprobe amdgpu"):
        read_topology(FakeMachine({"/dev/kfd": b""}))


def test_a_node_that_the_device_cgroup_hides() -> None:
    files = machine(GFX1100, second(GFX1100))
    world = FakeMachine(files, (f"{ROOT}/nodes/1/gpu_id",))
    topology = read_topology(world)
    check((topology.hidden, [gpu.index for gpu in topology.gpus]) == ((1,), [2]))


def changed(**values: int) -> Callable[[Files], None]:
    def apply(files: Files) -> None:
        files[PROPERTIES] = text(GFX1100 | values)

    return apply


def put(path: str, data: bytes) -> Callable[[Files], None]:
    def apply(files: Files) -> None:
        files[f"{ROOT}/{path}"] = data

    return apply


def without(name: str) -> Callable[[Files], None]:
    def apply(files: Files) -> None:
        files[PROPERTIES] = text({key: v for key, v in GFX1100.items() if key != name})

    return apply


def beginning(lines: bytes) -> Callable[[Files], None]:
    """simd_count written in another way, the rest as it is."""
    rest = text({key: value for key, value in GFX1100.items() if key != "simd_count"})
    return put("nodes/1/properties", lines + rest)


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (changed(simd_count=0), "simd_count 0 is outside 1"),
        (changed(simd_per_cu=0), "simd_per_cu 0"),
        (changed(simd_arrays_per_engine=0), "simd_arrays_per_engine 0"),
        (changed(num_xcc=0), "0 XCCs"),
        (changed(num_xcc=65), "num_xcc 65"),
        (changed(num_xcc=64), "do not make 64 XCCs"),
        (changed(simd_count=1), "do not make"),
        (changed(simd_count=191), "do not make"),  # two SIMDs each
        (changed(wave_front_size=48), "neither 32 nor 64"),
        (changed(gfx_target_version=1 << 32), "outside 0..4294967295"),
        (changed(drm_render_minor=1 << 20), "drm_render_minor"),
        (changed(cwsr_size=1 << 31), "cwsr_size"),
        (changed(unique_id=1 << 64), "does not fit 64 bits"),
        (without("gfx_target_version"), "gfx_target_version is missing"),
        (without("fw_version"), "fw_version is missing"),
        (put("nodes/1/properties", b""), "is missing"),
        (beginning(b"simd_count -1\n"), "line 1, 'simd_count -1'"),
        (beginning(b"simd_count 0x10\n"), "is not a name and number"),
        (beginning(b"simd_count 1\nsimd_count 1\n"), "once more"),
        (put("nodes/1/properties", b"a 1\n" * 300), "300 lines"),
        (put("nodes/1/properties", b"a" * 70000), "longer than"),
        (beginning(b"simd_count \xd9\xa1\n"), "is not a name and number"),
        (put("nodes/1/gpu_id", b"banana"), "'banana' is no 32-bit number"),
        (put("nodes/1/gpu_id", b"4294967296"), "32-bit"),
        (put("nodes/1/gpu_id", b""), "32-bit"),
        (put("nodes/1/mem_banks/0/properties", b"heap_type 1\n"), "size_in_bytes is missing"),
    ],
)
def test_hostile_files(break_it: Callable[[Files], None], says: str) -> None:
    """The node is passed over with its reason; a good one beside it stays."""
    files = machine(GFX1100, second(GFX1100))
    break_it(files)
    topology = read_topology(FakeMachine(files))
    check([gpu.index for gpu in topology.gpus] == [2], f"{topology.gpus}")
    (broken,) = topology.broken
    check(broken.index == 1 and isinstance(broken.error, MalformedInput), f"{broken}")
    text_of_it = str(broken.error)
    check(says in text_of_it, text_of_it)
    check(text_of_it.isprintable() and len(text_of_it) < 400)


@pytest.mark.parametrize("line", ["new_property", "new_property -1", "new_property 0x10", "?"])
def test_a_line_of_a_newer_kernel_takes_nothing_away(line: str) -> None:
    files = machine(GFX1100)
    files[PROPERTIES] = text(GFX1100) + f"{line}\n".encode()
    topology = read_topology(FakeMachine(files))
    check(len(topology.gpus) == 1 and not topology.broken, f"{topology.broken}")


def test_a_kernel_without_target_versions() -> None:
    """Before it had them KFD printed all else; the reason names the kernel, not the file alone."""
    files = machine(GFX1100, second(GFX1100))
    without("gfx_target_version")(files)
    (broken,) = read_topology(FakeMachine(files)).broken
    check(broken.error.hint == "kernels before Linux 6.1 may not write it: update the kernel")


def test_links_that_cannot_be_read_cost_the_gpu_nothing_else() -> None:
    files = machine(GFX1100)
    files[f"{ROOT}/nodes/1/io_links/0/properties"] = b"type 2\n"
    (gpu,) = read_topology(FakeMachine(files)).gpus
    check(gpu.links == () and "node_from is missing" in str(gpu.lacks[0]), f"{gpu.lacks}")
    (seen,) = look(FakeMachine({**X86, **files})).gpus
    check(seen.numbered and "node_from" in str(seen.notes[0]), f"{seen.notes}")


def test_the_generation_is_of_all_nodes() -> None:
    files = machine(GFX1100)
    put("generation_id", b"two")(files)
    with pytest.raises(MalformedInput, match="generation_id"):
        read_topology(FakeMachine(files))


def test_nodes_with_one_id() -> None:
    """An ioctl cannot name either; a third GPU stays."""
    files = machine(GFX1100, second(GFX1100), second(GFX1100, 2))
    files[f"{ROOT}/nodes/2/gpu_id"] = files[f"{ROOT}/nodes/1/gpu_id"]
    topology = read_topology(FakeMachine(files))
    check([gpu.index for gpu in topology.gpus] == [3], f"{topology.gpus}")
    check([node.index for node in topology.broken] == [1, 2], f"{topology.broken}")
    check("share gpu_id" in str(topology.broken[0].error))


def test_numbers_of_a_visible_list_count_gpus_that_are_passed_over() -> None:
    """src: ROCR amd_filter_device.cpp: indices are KFD's, whether a GPU is supported or not."""
    files = {**X86, **machine(GFX1100, second(GFX1100))}
    without("gfx_target_version")(files)
    lists = visible_lists({"ROCR_VISIBLE_DEVICES": "1"}, "AMD")
    (gpu,) = look(FakeMachine(files), lists).gpus
    check(gpu.node.index == 2 and not gpu.masked, f"{gpu}")
    (gpu,) = look(FakeMachine(files), visible_lists({"ROCR_VISIBLE_DEVICES": "0"}, "AMD")).gpus
    check("does not list it" in gpu.masked, gpu.masked)


def test_too_many_nodes() -> None:
    files = machine(GFX1100)
    files |= {f"{ROOT}/nodes/{index}/gpu_id": b"0\n" for index in range(2, 300)}
    topology = read_topology(FakeMachine(files))
    check(len(topology.gpus) == 1, "the first 256 are read")
    check("at most 256" in str(topology.broken[-1].error), f"{topology.broken[-1]}")


@pytest.mark.parametrize(("folder", "most"), [("mem_banks", 64), ("io_links", 512)])
def test_as_many_banks_and_links_as_are_read(folder: str, most: int) -> None:
    files, data = machine(GFX1100), bank(1, 1) if folder == "mem_banks" else link(2, 1, 0)
    path = f"{ROOT}/nodes/1/{folder}"
    files |= {f"{path}/{index}/properties": data for index in range(most)}
    (gpu,) = read_topology(FakeMachine(files)).gpus
    check(len(gpu.banks if folder == "mem_banks" else gpu.links) == most)
    files[f"{path}/{most}/properties"] = data
    topology = read_topology(FakeMachine(files))
    errors = [node.error for node in topology.broken]
    errors += [error for gpu in topology.gpus for error in gpu.lacks]
    check(len(errors) == 1 and f"at most {most}" in str(errors[0]), f"{errors}")


class Changing(FakeMachine):
    """A machine whose generation grows at the first `times` readings."""

    def __init__(self, files: Files, times: int) -> None:
        super().__init__(files)
        self.times, self.reads = times, 0

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        if path.endswith("generation_id"):
            self.reads += 1
            return b"%d\n" % min(self.reads, self.times)
        return super().read(path, limit_bytes)


def test_a_topology_that_changes_is_read_again() -> None:
    check(read_topology(Changing(machine(GFX1100), 3)).generation == 3)


def test_a_topology_that_keeps_changing() -> None:
    with pytest.raises(Busy, match="changed 3 times"):
        read_topology(Changing(machine(GFX1100), 1000))


def test_ip_blocks() -> None:
    world = FakeMachine(machine(GFX942))
    (gpu,) = read_topology(world).gpus
    blocks = read_ip_blocks(world, gpu)
    check(len(usable(blocks, HwId.GC)) == 8 and len(usable(blocks, HwId.SDMA0)) == 16)
    first = usable(blocks, HwId.GC)[0]
    check((first.version, first.bases) == ((9, 4, 3), (0x1260, 0xA000)))
    check_chip(CHIPS[90402], blocks)
    with pytest.raises(Unsupported, match=r"gfx1100 has GC 11\.0\.0, .* shows 9\.4\.3"):
        check_chip(CHIPS[110000], blocks)


def test_blocks_that_are_fused_off() -> None:
    files = machine(GFX942)
    device = "/sys/class/drm/renderD128/device/ip_discovery/die/0"
    files |= {f"{device}/11/{instance}/harvest": b"0x1\n" for instance in range(8)}
    world = FakeMachine(files)
    blocks = read_ip_blocks(world, read_topology(world).gpus[0])
    check(usable(blocks, HwId.GC) == () and len(blocks) == 25)
    with pytest.raises(Unsupported, match="shows none"):
        check_chip(CHIPS[90402], blocks)


def test_partitions_find_their_gpus_table() -> None:
    partitions = [
        GFX942_PARTITION | {"location_id": 18176 | n, "drm_render_minor": 128 + n} for n in range(8)
    ]
    files = machine(*partitions)
    table = "/sys/class/drm/renderD128/device/"
    moved = {
        f"/sys/bus/pci/devices/0000:47:00.0/{name[len(table) :]}": data
        for name, data in files.items()
        if name.startswith(table)
    }
    bare = {name: data for name, data in files.items() if "ip_discovery" not in name}
    world = FakeMachine(bare | moved)
    gpus = read_topology(world).gpus
    check((len(gpus), gpus[7].pci_address, gpus[7].cus_per_xcc) == (8, "0000:47:00.7", 38))
    check(len(usable(read_ip_blocks(world, gpus[7]), HwId.GC)) == 8)


def test_a_kernel_without_the_table() -> None:
    files = {k: v for k, v in machine(GFX1100).items() if "ip_discovery" not in k}
    world = FakeMachine(files)
    with pytest.raises(NotFound, match=r"Linux 5\.18"):
        read_ip_blocks(world, read_topology(world).gpus[0])


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("major", b"256\n", "8-bit"),
        ("minor", b"x\n", "8-bit"),
        ("harvest", b"0x100\n", "8-bit hex"),
        ("base_addr", b"0x1\n", "1 addresses, not 2"),
        ("base_addr", b"0x1 hello\n", "not a hex number"),
        ("num_base_addresses", b"3\n", "2 addresses, not 3"),
    ],
)
def test_hostile_tables(name: str, data: bytes, says: str) -> None:
    files = machine(GFX1100)
    files[f"/sys/class/drm/renderD128/device/ip_discovery/die/0/11/0/{name}"] = data
    world = FakeMachine(files)
    with pytest.raises(MalformedInput, match=says):
        read_ip_blocks(world, read_topology(world).gpus[0])
