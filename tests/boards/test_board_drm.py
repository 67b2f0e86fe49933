"""The board's render node asked as libdrm_amdgpu's amdgpu_device_initialize() asks a kernel.

src: libdrm amdgpu/amdgpu_device.c, amdgpu_gpu_info.c, xf86drm.c; Linux 6.12 amdgpu_kms.c,
drm_ioctl.c. Numbers and formats here are written down by hand from drm.h and amdgpu_drm.h.
"""

from __future__ import annotations

import errno
import os
import struct

import numpy as np
import pytest

from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Options, names, open_board
from tests.boards.board_driver import GTT, PAGE, VRAM, Driver, FakeEngines, fails
from tests.support import check

VERSION, GET_CAP, INFO = 0xC0406400, 0xC010640C, 0x40206445
GET_CLIENT, SET_CLIENT_CAP, GEM_CREATE = 0xC0286405, 0x4010640D, 0xC0206440
ACCEL_WORKING, TIMESTAMP, FW_VERSION, VRAM_USAGE, GTT_USAGE = 0x00, 0x05, 0x0E, 0x10, 0x11
VRAM_GTT, READ_MMR_REG, DEV_INFO, VIS_VRAM_USAGE, MEMORY = 0x14, 0x15, 0x16, 0x17, 0x19
DEVICE = "<8I2Q2I16I4I3Q4I4I4Q4I4I4I16I2QI4x3Q6IQ5I4x"
BITMAP = slice(12, 28)
FAMILY_AI, FAMILY_VI = 141, 130


class Node:
    """An open render node and memory that answers go to."""

    def __init__(self, world: BoardWorld, fd: int) -> None:
        self.world, self.fd = world, fd
        self.memory = np.full(4096, 0xAA, np.uint8)

    def info(self, query: int, nbytes: int, *words: int) -> bytes:
        """amdgpu_query_info(): the answer; what lies behind it stays as it was."""
        self.memory[:] = 0xAA
        filled = [*words, 0, 0, 0, 0][:4]
        request = struct.pack("<QII4I", self.memory.ctypes.data, nbytes, query, *filled)
        sent = bytearray(request)
        self.world.ioctl(self.fd, INFO, sent)
        check(sent == request, "AMDGPU_INFO only takes its argument")
        check(bool((self.memory[nbytes:] == 0xAA).all()), "more than return_size was stored")
        return self.memory[:nbytes].tobytes()

    def number(self, query: int) -> int:
        """A query that a u64 answers."""
        return struct.unpack("<Q", self.info(query, 8))[0]

    def version(self) -> tuple[tuple[int, ...], list[bytes]]:
        """drmGetVersion(): lengths first, then the texts."""
        layout = "<3i4x6Q"
        asked = bytearray(struct.calcsize(layout))
        self.world.ioctl(self.fd, VERSION, asked)
        lengths = struct.unpack(layout, asked)[3::2]
        places = [self.memory.ctypes.data + 64 * i for i in range(3)]
        pairs = [value for pair in zip(lengths, places, strict=True) for value in pair]
        asked = bytearray(struct.pack(layout, 0, 0, 0, *pairs))
        self.world.ioctl(self.fd, VERSION, asked)
        texts = [self.memory[64 * i :][:n].tobytes() for i, n in enumerate(lengths)]
        return struct.unpack(layout, asked)[:3], texts


def opened(name: str = "gfx1100", **more: object) -> Node:
    more.setdefault("vram_bytes", 64 << 20)
    world = open_board(name, engines=FakeEngines, **more)
    return Node(world, world.open(world.gpus[0].node, os.O_RDWR))


@pytest.mark.parametrize("name", names())
def test_libdrm_initializes_a_device(name: str) -> None:
    node = opened(name)
    (major, minor, patch), texts = node.version()
    check(major == 3, "libdrm wants amdgpu 3.x.x")
    check((minor, patch) == (61, 0) and texts == [b"amdgpu", b"20150101", b"AMD GPU"], f"{texts}")
    check(node.info(ACCEL_WORKING, 4) == b"\1\0\0\0")
    data = node.info(DEV_INFO, struct.calcsize(DEVICE))
    fields = struct.unpack(DEVICE, data)
    check(fields[0] == node.world.gpus[0].chip.properties["device_id"])
    check(fields[4] >= FAMILY_AI, "libdrm would read registers of GPUs before Vega")
    per_xcc = sum(bin(bits).count("1") for bits in fields[BITMAP])
    check(per_xcc * node.world.gpus[0].chip.xccs == fields[10], f"{per_xcc} CUs in the bitmap")
    gb_addr_config = struct.unpack("<I", node.info(READ_MMR_REG, 4, 0x263E, 1, 0xFFFFFFFF, 0))[0]
    check(gb_addr_config != 0)
    low, high, alignment = fields[33], fields[34], fields[35]
    check(0 < low < 1 << 32 < high and not low % alignment, "ranges of amdgpu_vamgr_init()")


# src: amdgpu_drm.h AMDGPU_FAMILY_*, AMDGPU_VRAM_TYPE_*, AMDGPU_IDS_FLAGS_FUSION 1; soc15.c,
# soc21.c, soc24.c external_rev_id; gfx_v9_4_3.c GOLDEN_GB_ADDR_CONFIG, gc_11_0_0_default.h;
# engines, arrays and CUs of one XCC: AMD's data sheets
KNOWN = {
    # device, revision, family, engines, arrays, CUs, flags, memory, lanes, GB_ADDR_CONFIG
    "gfx1100": (0x744C, 0x01, 145, 6, 2, 96, 0, 9, 32, 0x545),
    "gfx1102": (0x7480, 0x10, 145, 2, 2, 32, 0, 9, 32, 0x545),
    "gfx1151": (0x1586, 0xC1, 150, 2, 2, 40, 1, 12, 32, 0x545),
    "gfx1201": (0x7550, 0x50, 152, 4, 2, 64, 0, 9, 32, 0x404),
    "gfx942": (0x74A1, 0x46, 141, 4, 1, 304, 0, 6, 64, 0x2A114042),
}


@pytest.mark.parametrize("name", KNOWN)
def test_devices_are_told_by_value(name: str) -> None:
    node = opened(name)
    f = struct.unpack(DEVICE, node.info(DEV_INFO, 440))
    config = struct.unpack("<I", node.info(READ_MMR_REG, 4, 0x263E, 1, 0xFFFFFFFF, 0))[0]
    found = (f[0], f[2], f[4], f[5], f[6], f[10], f[32], f[39], f[51], config)
    check(found == KNOWN[name], f"{found}, not {KNOWN[name]}")
    check((f[1], f[3], f[7]) == (0, 0, 100_000), "revisions, and a counter of 100 MHz in kHz")
    # src: amdgpu_gmc.h AMDGPU_GMC_HOLE_*, amdgpu_vm.h AMDGPU_VA_RESERVED_TOP: 4 MiB + 64 KiB
    check(f[33:35] == (0x10000, 1 << 47) and f[75:77] == (0xFFFF8000 << 32, (1 << 64) - 0x410000))
    check(f[35:38] == (4096, 2 << 20, 4096))


def test_cus_lie_where_the_kernel_puts_them() -> None:
    # src: gfx_v11_0_get_cu_info(): SE4 {SH0,SH1} --> {bitmap[0][2], bitmap[0][3]}, SE5 in row 1
    rows = np.array(struct.unpack(DEVICE, opened().info(DEV_INFO, 440))[BITMAP]).reshape(4, 4)
    check(rows.tolist() == [[255] * 4, [255] * 4, [255, 255, 0, 0], [255, 255, 0, 0]])
    rows = struct.unpack(DEVICE, opened("gfx942").info(DEV_INFO, 440))[BITMAP]
    check(sorted(rows[::4]) == [0x1FF, 0x1FF, 0x3FF, 0x3FF] and sum(rows) == sum(rows[::4]))


def test_sizes_and_usage_follow_allocations() -> None:
    driver = Driver()
    node = Node(driver.world, driver.render[0])
    before, gtt_before = node.number(VRAM_USAGE), node.number(GTT_USAGE)
    sizes = struct.unpack("<3Q", node.info(VRAM_GTT, 24))
    # src: amdgpu_vm.h AMDGPU_VM_RESERVED_VRAM 8 MiB; the board's firmware keeps 1 MiB
    check(sizes == ((64 - 9) << 20, (64 - 9) << 20, 32 << 20), f"{sizes}")
    handle = driver.call("alloc_memory_of_gpu", 1 << 40, 4 << 20, 0, 0, driver.gpu_ids[0], VRAM)[2]
    driver.call("alloc_memory_of_gpu", 1 << 41, PAGE, 0, 0, driver.gpu_ids[0], GTT)
    check(node.number(VRAM_USAGE) == node.number(VIS_VRAM_USAGE) == before + (4 << 20))
    check(node.number(GTT_USAGE) == gtt_before + PAGE)
    heaps = struct.unpack("<12Q", node.info(MEMORY, 96))
    check(heaps[:4] == (64 << 20, sizes[0], before + (4 << 20), sizes[0] * 3 // 4), f"{heaps}")
    check(heaps[8:] == (32 << 20, 32 << 20, gtt_before + PAGE, 24 << 20), f"{heaps}")
    driver.call("free_memory_of_gpu", handle)
    check(node.number(VRAM_USAGE) == before)


def test_small_bars_show_256_mib() -> None:
    node = opened(vram_bytes=1 << 30, options=Options(large_bar=False))
    sizes = struct.unpack("<3Q", node.info(VRAM_GTT, 24))
    check(sizes[:2] == ((1024 - 9) << 20, 255 << 20), f"{sizes}")


def test_firmware_versions_are_those_of_sysfs() -> None:
    node = opened()
    folder = "/sys/class/drm/renderD128/device/fw_version"

    def version(kind: int, index: int = 0) -> int:
        return struct.unpack("<II", node.info(FW_VERSION, 8, kind, 0, index))[0]

    for kind, name in ((0x08, "mec"), (0x0B, "sdma"), (0x07, "rlc")):
        check(version(kind) == int(node.world.read(f"{folder}/{name}_fw_version"), 16), name)
    check(version(0x0C) == 0, "a board over KFD has no SOS")
    for words in ((0x08, 1, 0), (0x08, 0, 2), (0x0B, 0, 2), (0x13, 0, 0), (0x09,), (0x1D,), (0,)):
        fails(errno.EINVAL, node.info, FW_VERSION, 8, *words)


def test_the_clock_is_the_gpus_counter() -> None:
    node = opened()
    before = node.number(TIMESTAMP)
    node.world.sleep(1.0)
    passed = node.number(TIMESTAMP) - before
    check(100_000_000 <= passed < 60 * 100_000_000, f"{passed} ticks of 10 ns")


@pytest.mark.parametrize(("chip", "graphics", "copies"), [("gfx1100", 1, 2), ("gfx942", 8, 16)])
def test_ip_blocks_are_counted(chip: str, graphics: int, copies: int) -> None:
    """src: amdgpu_drm.h AMDGPU_HW_IP_*; AMD's data sheets: XCDs, SDMA engines. No video."""
    node = opened(chip)
    counts = [struct.unpack("<I", node.info(0x03, 4, kind, 0))[0] for kind in range(3)]
    check(counts == [graphics, graphics, copies], str(counts))
    for kind in (3, 6, 9, 0x100):
        fails(errno.EINVAL, node.info, 0x03, 4, kind, 0)


@pytest.mark.parametrize(
    ("chip", "kind", "wanted"),
    # src: amdgpu_kms.c amdgpu_hw_ip_info(), gfx_v11_0.c, gfx_v9_4_3.c, sdma_v6_0.c, sdma_v5_2.c,
    # sdma_v4_4_2.c: versions of the blocks; amdgpu_ctx.c amdgpu_ctx_num_entities[]
    [("gfx1100", 0, (11, 0, 0, 32, 32, 1, 0x0B0000)),
     ("gfx1101", 1, (11, 0, 0, 32, 32, 0xF, 0x0B0003)),
     ("gfx1100", 2, (6, 0, 0, 256, 4, 3, 0x060000)),
     ("gfx1030", 2, (5, 2, 0, 256, 4, 3, 0x050200)),
     ("gfx942", 0, (9, 4, 0, 32, 32, 0, 0x090403)),
     ("gfx942", 2, (4, 4, 0, 256, 4, 3, 0x040402)),
     ("gfx1103", 2, (6, 0, 0, 256, 4, 1, 0x060001)),
     ("gfx1100", 6, (0, 0, 0, 0, 0, 0, 0))],
)  # fmt: skip
def test_ip_blocks_are_described(chip: str, kind: int, wanted: tuple[int, ...]) -> None:
    node = opened(chip)
    check(struct.unpack("<IIQ4I", node.info(0x02, 32, kind, 0)) == wanted)
    fails(errno.EINVAL, node.info, 0x02, 32, kind, 1)
    fails(errno.EINVAL, node.info, 0x02, 32, 10, 0)


def test_answers_are_cut_and_checked() -> None:
    node = opened()
    check(node.info(DEV_INFO, 4) == struct.pack("<I", 0x744C))
    check(node.info(ACCEL_WORKING, 8) == b"\1\0\0\0" + b"\xaa" * 4, "the answer has four bytes")
    fails(errno.EINVAL, node.info, ACCEL_WORKING, 0)
    for query in (0x01, 0x1B, 0x1D, 0x24, 0xFFFF):
        fails(errno.EINVAL, node.info, query, 8)

    def ask(pointer: int) -> None:
        node.world.ioctl(
            node.fd, INFO, bytearray(struct.pack("<QII4I", pointer, 8, 0x05, *[0] * 4))
        )

    fails(errno.EINVAL, ask, 0)
    fails(errno.EFAULT, ask, 0x1000)
    fails(errno.EFAULT, ask, node.world.mmap(-1, PAGE, write=False).cpu_va)


def test_registers_are_refused_as_the_kernel_refuses_them() -> None:
    node = opened()
    fails(errno.EFAULT, node.info, READ_MMR_REG, 4, 0x263D, 1, 0xFFFFFFFF)
    fails(errno.EFAULT, node.info, READ_MMR_REG, 8, 0x263E, 2, 0xFFFFFFFF)
    fails(errno.EINVAL, node.info, READ_MMR_REG, 4, 0x263E, 129, 0xFFFFFFFF)
    fails(errno.EINVAL, node.info, READ_MMR_REG, 4, 0x263E, 1, 0xFF04)
    fails(errno.EINVAL, node.info, READ_MMR_REG, 4, 0x263E, 1, 0x02FF)
    check(node.info(READ_MMR_REG, 4, 0x263E, 1, 0x0103) == struct.pack("<I", 0x545))


def test_other_requests_are_refused() -> None:
    node = opened()
    ask = node.world.ioctl
    for request in (GET_CLIENT, SET_CLIENT_CAP, 0xC04064A0, 0x40086455):
        fails(errno.EACCES, ask, node.fd, request, bytearray(64))
    for request in (GEM_CREATE, 0xC008646F, 0xC00864BF, 0x80086403, 0xC00864FF):
        fails(errno.EINVAL, ask, node.fd, request, bytearray(64))
    fails(errno.ENOTTY, ask, node.fd, 0x80084B01, bytearray(8))
    fails(errno.ENOTTY, ask, node.world.open("/dev/kfd", 2), INFO, bytearray(32))
    fails(errno.EFAULT, ask, node.fd, INFO, bytearray(31))
    fails(errno.EFAULT, ask, node.fd, VERSION, 0)


def test_capabilities_are_those_of_a_board() -> None:
    node = opened()

    def capability(number: int) -> int:
        asked = bytearray(struct.pack("<QQ", number, 77))
        node.world.ioctl(node.fd, GET_CAP, asked)
        return struct.unpack("<QQ", asked)[1]

    check([capability(n) for n in (5, 6, 0x13, 0x14)] == [0, 1, 0, 0])
    fails(errno.EOPNOTSUPP, capability, 1)


def test_nodes_have_numbers_and_are_found_by_them() -> None:
    world = open_board("gfx1100", gpus=2, vram_bytes=1 << 24, engines=FakeEngines)
    for index in range(2):
        number = world.device_number(f"/dev/dri/renderD{128 + index}")
        check((os.major(number), os.minor(number)) == (226, 128 + index))
        # src: xf86drm.c drmGetMinorNameForFD(): the primary node beside the render node
        folder = f"/sys/dev/char/226:{128 + index}/device/drm"
        check(world.listdir(folder) == [f"card{index}", f"renderD{128 + index}"])
        check(world.read(f"{folder}/renderD{128 + index}/dev") == b"226:%d\n" % (128 + index))
    check(world.device_number("/sys/module/amdgpu/initstate") == 0)
    fails(errno.ENOENT, world.device_number, "/dev/dri/renderD130")
