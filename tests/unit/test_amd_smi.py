"""Readings: of amdgpu's files in sysfs, of tables of metrics; what is not there is said."""

from __future__ import annotations

import json
import random
import struct

import pytest

from boards.amd.pci_machine import MachineOptions
from drivers.amd import regs, smi
from drivers.amd.pci import boot, smu_metrics
from drivers.amd.pci.hwid import HwId
from drivers.amd.tools import gpu_metrics, sensors
from drivers.amd.tools.readings import Readings
from drivers.base.errors import BadArgument, MalformedInput, NotFound, Unsupported
from drivers.world.foreign import ForeignWorld
from tests.amd_bare import firmware, identified, open_pci_board, quiet
from tests.fake_machine import FakeMachine
from tests.mutation import mutate
from tests.support import check

FOLDER = "/sys/bus/pci/devices/0000:03:00.0"
HWMON = f"{FOLDER}/hwmon/hwmon4"
SYSFS = {
    f"{HWMON}/temp1_label": b"edge\n", f"{HWMON}/temp1_input": b"47000\n",
    f"{HWMON}/temp2_label": b"junction\n", f"{HWMON}/temp2_input": b"58500\n",
    f"{HWMON}/temp3_label": b"mem\n", f"{HWMON}/temp3_input": b"-1000\n",
    f"{HWMON}/freq1_label": b"sclk\n", f"{HWMON}/freq1_input": b"2124000000\n",
    f"{HWMON}/freq2_label": b"mclk\n", f"{HWMON}/freq2_input": b"1249000000\n",
    f"{HWMON}/power1_average": b"31000000\n", f"{HWMON}/power1_cap": b"339000000\n",
    f"{HWMON}/fan1_input": b"\n", f"{FOLDER}/mem_info_vram_total": b"25753026560\n",
    f"{FOLDER}/mem_info_vram_used": b"28000256\n", f"{FOLDER}/gpu_busy_percent": b"3\n",
}  # fmt: skip


def table(minor: int, nbytes: int, at: dict[int, int], major: int = 1) -> bytes:
    """A gpu_metrics with 16-bit numbers; all others are ones."""
    data = bytearray(b"\xff" * nbytes)
    struct.pack_into("<HBB", data, 0, nbytes, major, minor)
    for off, value in at.items():
        struct.pack_into("<H", data, off, value)
    return bytes(data)


# offsets counted by hand in struct gpu_metrics_v1_3 and v1_4 of kgd_pp_interface.h
V1_3 = table(3, 120, {4: 41, 6: 55, 16: 9, 22: 77, 54: 2500, 56: 1200, 58: 1249, 72: 900})
V1_4 = table(4, 288, {4: 45, 10: 146, 240: 132, 252: 2100, 280: 1300})
V3_0 = table(0, 264, {4: 5150, 42: 97}, major=3)


def test_hwmon_and_memory() -> None:
    readings, lacks = sensors.read(FakeMachine(SYSFS), FOLDER)
    check(readings == Readings(
        gfx_mhz=2124, memory_mhz=1249, power_w=31.0, power_limit_w=339.0, edge_c=47.0,
        hotspot_c=58.5, memory_c=-1.0, gfx_percent=3, memory_bytes=25753026560,
        memory_used_bytes=28000256), f"{readings}")  # fmt: skip
    check(len(lacks) == 1 and "gpu_metrics" in lacks[0], f"{lacks}")


def test_what_hwmon_lacks_is_in_gpu_metrics() -> None:
    files = {**SYSFS, f"{FOLDER}/gpu_metrics": V1_3}
    readings, lacks = sensors.read(FakeMachine(files), FOLDER)
    check(readings.soc_mhz == 1200 and readings.fan_rpm == 900 and not lacks, f"{readings}")
    check(readings.gfx_mhz == 2124 and readings.gfx_percent == 3, "hwmon was first")
    alone, lacks = sensors.read(FakeMachine({f"{FOLDER}/gpu_metrics": V1_3}), FOLDER)
    check((alone.edge_c, alone.power_w, alone.memory_c) == (41, 77, None), f"{alone}")
    check("hwmon" in lacks[0], f"{lacks}")


# (format, content, size, offsets of clocks or temperature): sizeof() and offsetof() of the kernel's
# structs as gcc lays them out, kgd_pp_interface.h of Linux 6.12 (1.6 to 1.8: of 6.18)
CARDS = [(0, 80, 16), (1, 96, 4), (2, 104, 4), (3, 120, 4)]
INSTINCTS = [(4, 288, 240, 280), (5, 360, 312, 352), (6, 1664, 264, 304), (7, 2208, 296, 336),
             (8, 3872, 296, 336)]  # fmt: skip
PROCESSORS = [(0, 120, 16, 80), (1, 120, 4, 76), (2, 128, 4, 76), (3, 152, 4, 76), (4, 168, 4, 76)]


def parsed(data: bytes) -> Readings:
    """A table as it is, and one byte too short."""
    with pytest.raises(MalformedInput):
        gpu_metrics.parse(data[:-1])
    return gpu_metrics.parse(data)


@pytest.mark.parametrize(("minor", "nbytes", "first"), CARDS)
def test_metrics_of_cards(minor: int, nbytes: int, first: int) -> None:
    found = parsed(table(minor, nbytes, {first: 41, first + 18: 77, 54: 2500, 72: 900}))
    check((found.edge_c, found.power_w, found.gfx_mhz, found.fan_rpm) == (41, 77, 2500, 900))
    average = parsed(table(minor, nbytes, {40: 1900}))
    check(average.gfx_mhz == 1900 and average.edge_c is None, "averages where there is no other")


@pytest.mark.parametrize(("minor", "nbytes", "gfx", "uclk"), INSTINCTS)
def test_metrics_of_instincts(minor: int, nbytes: int, gfx: int, uclk: int) -> None:
    found = parsed(table(minor, nbytes, {4: 45, 10: 146, gfx: 132, gfx + 12: 2100, uclk: 1300}))
    check((found.gfx_mhz, found.memory_mhz, found.power_w) == (2100, 1300, 146), f"{found}")
    check((found.hotspot_c, found.edge_c) == (45, None), f"{found}")


@pytest.mark.parametrize(("minor", "nbytes", "gfx", "clock"), PROCESSORS)
def test_metrics_of_processors(minor: int, nbytes: int, gfx: int, clock: int) -> None:
    """Temperatures are hundredths of a degree; power of 2.4 is in mW (kgd_pp_interface.h)."""
    values = {gfx: 4250, clock: 1600, clock + 4: 800, 28: 1250, 40: 15300}
    found = parsed(table(minor, nbytes, values, major=2))
    check((found.edge_c, found.gfx_mhz, found.memory_mhz) == (42.5, 1600, 800), f"{found}")
    units = (found.power_w, found.gfx_percent)
    check(units == ((15.3, 12.5) if minor == 4 else (None, None)), f"{units}")


def test_metrics_of_strix_halo() -> None:
    data = bytearray(table(0, 264, {4: 5150, 42: 97, 174: 2900, 186: 1000}, major=3))
    struct.pack_into("<I", data, 112, 85_500)
    found = parsed(bytes(data))
    check((found.edge_c, found.power_w, found.gfx_percent) == (51.5, 85.5, 97), f"{found}")
    check((found.gfx_mhz, found.memory_mhz) == (2900, 1000), f"{found}")


def attribute(unit: int, kind: int, number: int, values: list[int], form: str) -> bytes:
    """As AMDGPU_METRICS_ENC_ATTR() of Linux 6.19 makes it, with its values behind it."""
    code = unit << 24 | kind << 20 | number << 10 | len(values)
    return struct.pack(f"<Q{len(values)}{form}", code, *values)


def test_metrics_that_list_attributes() -> None:
    """1.9; src: enum amdgpu_metrics_attr_id, _type and _unit of Linux 6.19."""
    parts = [
        attribute(2, 2, 0, [61], "H"), attribute(3, 4, 3, [146], "I"),
        attribute(0, 6, 7, [1 << 60], "Q"), attribute(1, 2, 33, [132, 2100, 0xFFFF], "H"),
        attribute(1, 3, 37, [-1], "h"), attribute(0, 0, 700, [1, 2, 3], "B"),
    ]  # fmt: skip
    body = b"".join(parts)
    data = struct.pack("<HBBi", 8 + len(body), 1, 9, len(parts)) + body
    found = parsed(data)
    check((found.hotspot_c, found.power_w, found.gfx_mhz) == (61, 146, 2100), f"{found}")
    check(found.memory_mhz is None, "all ones")
    for count in (len(parts) + 1, 257, -1):
        with pytest.raises(MalformedInput):
            gpu_metrics.parse(data[:4] + struct.pack("<i", count) + data[8:])
    with pytest.raises(MalformedInput, match="type 9"):
        gpu_metrics.parse(struct.pack("<HBBiQ", 16, 1, 9, 1, 9 << 20))


def test_formats_that_are_not_known() -> None:
    for major, minor in ((2, 5), (1, 10), (3, 1), (0, 0)):
        with pytest.raises(Unsupported, match=f"^format v{major}_{minor} unknown"):
            gpu_metrics.parse(struct.pack("<HBB", 120, major, minor) + bytes(116))
    for short in (b"", struct.pack("<HBB", 8, 1, 3) + bytes(200)):
        with pytest.raises(MalformedInput):
            gpu_metrics.parse(short)


def test_damaged_tables_raise_nothing_else() -> None:
    refused = 0
    for number in range(2000):
        blob = mutate((V1_3, V1_4, V3_0)[number % 3], random.Random(number))
        try:
            gpu_metrics.parse(blob)
        except (MalformedInput, Unsupported):
            refused += 1
    check(0 < refused < 2000, f"{refused} of 2000 are refused: both ways have to be taken")


def test_a_sensor_that_is_no_number() -> None:
    broken = {**SYSFS, f"{HWMON}/power1_average": b"3e8\n"}
    readings, lacks = sensors.read(FakeMachine(broken), FOLDER)
    check(readings.power_w is None and readings.gfx_mhz == 2124, "the others stay")
    check("power1_average" in lacks[0] and "not a number" in lacks[0], f"{lacks}")


def test_tables_of_the_smu() -> None:
    """Offsets counted by hand in SmuMetrics_t of smu13_driver_if_v13_0_0.h and MetricsTableX_t."""
    data = bytearray(392)
    struct.pack_into("<4I", data, 0, 2000, 1200, 1249, 2000)
    struct.pack_into("<3H", data, 52, 2600, 2550, 600)
    struct.pack_into("<H", data, 104, 80)
    struct.pack_into("<H", data, 116, 250)
    struct.pack_into("<5H", data, 120, 60, 75, 0, 0, 82)
    found = smu_metrics.parse_rdna(bytes(data), smu_metrics._V13)
    check((found.gfx_mhz, found.memory_mhz, found.power_w) == (2550, 1249, 250.0), f"{found}")
    check((found.edge_c, found.hotspot_c, found.memory_c) == (60, 75, 82), f"{found}")
    struct.pack_into("<H", data, 104, 3)
    found = smu_metrics.parse_rdna(bytes(data), smu_metrics._V13)
    check(found.gfx_mhz == 600, "an idle core sleeps between its clocks")
    with pytest.raises(MalformedInput):
        smu_metrics.parse_rdna(bytes(100), smu_metrics._V13)
    big = bytearray(2008)
    struct.pack_into("<I", big, 48, 145 << 10 | 512)
    struct.pack_into("<8I", big, 1372, *(mhz << 10 for mhz in range(100, 900, 100)))
    cdna = smu_metrics.parse_mi300(bytes(big))
    check((cdna.power_w, cdna.gfx_mhz) == (145.5, 800), f"{cdna}")


def test_a_gpu_over_pci_is_asked_when_it_was_booted_and_left() -> None:
    board = open_pci_board("gfx1100")
    world = ForeignWorld(board)
    (line,) = smi.look(world, board.state)
    check("not booted" in line.lacks[0], f"{line.lacks}")
    check(line.readings.memory_bytes == 1 << 30, f"{line.readings}")
    with identified(board) as gpu:
        boot.start(gpu, firmware(board))
        boot.leave(gpu)
    (line,) = smi.look(world, board.state)
    check(not line.lacks and line.readings.power_w and line.readings.power_limit_w, f"{line}")
    found = smi.Report((line,))
    check(json.loads(smi.as_json(found))[0]["readings"]["memory_bytes"] == 1 << 30)
    check("gfx1100" in smi.as_text(found) and "-/1.0" in smi.as_text(found), smi.as_text(found))
    quiet(board)


def test_registers_by_name() -> None:
    board = open_pci_board("gfx1201")
    world = ForeignWorld(board)
    with identified(board) as gpu:
        boot.start(gpu, firmware(board))
        boot.leave(gpu)
    text = regs.run(["SCRATCH_REG[67]", "--block", "GC"], world, board.state)
    check(text == "GC.SCRATCH_REG6 = 0x00000002\nGC.SCRATCH_REG7 = 0x55420002", text)
    text = regs.run(["SCRATCH_REG5", "--write", "0xabc", "--yes", "--json"], world, board.state)
    check(json.loads(text)[0]["value"] == 0xABC, text)
    for wrong, error in ((["*"], BadArgument), (["NO_SUCH"], NotFound)):
        with pytest.raises(error):
            regs.run(wrong, world, board.state)
    with pytest.raises(BadArgument, match=r"means GC\.SCRATCH_REG0, GC\.SCRATCH_REG1"):
        regs.run(["SCRATCH_REG*", "--write", "1", "--yes"], world, board.state)
    with identified(board) as gpu:
        check(gpu.block(HwId.GC).read("SCRATCH_REG5") == 0xABC, "what was written")


def test_decoding_needs_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    world = FakeMachine({})
    text = regs.run(["GRBM_STATUS", "--chip", "gfx1100", "--decode", "0x80001000"], world)
    check(text == "GC.GRBM_STATUS = 0x80001000\n    db_clean = 0x1\n    gui_active = 0x1", text)
    check("MP0.MPASP_SMN_C2PMSG_81" in regs.run(["--chip", "gfx1201"], world), "the list")
    with pytest.raises(NotFound, match="gfx1030"):
        regs.run(["GRBM_STATUS", "--chip", "gfx1030"], world)
    for wrong in ([], ["X", "--write", "1"], ["X", "--decode", "1"]):
        with pytest.raises(SystemExit):
            regs.run(wrong, world)
    capsys.readouterr()


def test_a_gpu_of_the_kernels_driver_is_not_taken_for_a_look() -> None:
    board = open_pci_board("gfx1100", options=MachineOptions(amdgpu=True))
    with pytest.raises(Unsupported, match="belongs to its kernel driver amdgpu"):
        regs.run(["GRBM_STATUS"], ForeignWorld(board), board.state)
    quiet(board)
