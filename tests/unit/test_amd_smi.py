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


def table(minor: int, nbytes: int, at: dict[int, int]) -> bytes:
    """A gpu_metrics of format 1 with 16-bit numbers; all others are ones."""
    data = bytearray(b"\xff" * nbytes)
    struct.pack_into("<HBB", data, 0, nbytes, 1, minor)
    for off, value in at.items():
        struct.pack_into("<H", data, off, value)
    return bytes(data)


# offsets counted by hand in struct gpu_metrics_v1_3 and v1_4 of kgd_pp_interface.h
V1_3 = table(3, 120, {4: 41, 6: 55, 16: 9, 22: 77, 54: 2500, 56: 1200, 58: 1249, 72: 900})
V1_4 = table(4, 288, {4: 45, 10: 146, 240: 132, 252: 2100, 280: 1300})


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


def test_versions_of_gpu_metrics() -> None:
    many = gpu_metrics.parse(V1_4)
    check((many.gfx_mhz, many.memory_mhz, many.power_w, many.edge_c) == (2100, 1300, 146, None))
    for major, minor in ((2, 3), (1, 9), (0, 0)):
        with pytest.raises(Unsupported, match=f"{major}.{minor}"):
            gpu_metrics.parse(struct.pack("<HBB", 120, major, minor) + bytes(116))
    for short in (V1_3[:119], b"", struct.pack("<HBB", 8, 1, 3) + bytes(200)):
        with pytest.raises(MalformedInput):
            gpu_metrics.parse(short)


def test_damaged_tables_raise_nothing_else() -> None:
    refused = 0
    for number in range(2000):
        blob = mutate((V1_3, V1_4)[number % 2], random.Random(number))
        try:
            gpu_metrics.parse(blob)
        except (MalformedInput, Unsupported):
            refused += 1
    check(0 < refused < 2000, f"{refused} of 2000 are refused: both ways have to be taken")


def test_a_sensor_that_tells_no_number() -> None:
    broken = {**SYSFS, f"{HWMON}/power1_average": b"3e8\n"}
    with pytest.raises(MalformedInput, match=r"power1_average.*no number"):
        sensors.read(FakeMachine(broken), FOLDER)


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
    check(json.loads(smi.as_json([line]))[0]["readings"]["memory_bytes"] == 1 << 30)
    check("gfx" in smi.as_text([line]) and "MHz" in smi.as_text([line]), smi.as_text([line]))
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
