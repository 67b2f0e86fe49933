"""PCI through sysfs: functions, config space, capabilities, BARs; whole, damaged and mutated."""

from __future__ import annotations

import errno
import random
import struct
from pathlib import Path

import pytest

from drivers.amd.chips import chip_of_device
from drivers.amd.claim_chips import dry_run
from drivers.base.errors import (
    BadArgument,
    Busy,
    Denied,
    DeviceError,
    DeviceGone,
    MalformedInput,
    NotFound,
    Unsupported,
)
from drivers.pci.bars import enlarge, map_bar, resize_bar, sizes_offered
from drivers.pci.config import CAP_EXPRESS, CAP_MSI, EXT_REBAR, EXT_SERIAL, Config
from drivers.pci.functions import checked_address, gpus, group_members, look_at
from drivers.world.faulty import Fault, FaultyWorld
from tests.pci_tree import AUDIO, BRIDGE, BUS, GPU, LINE, PciTree, TreeWorld, desktop
from tests.support import check

FOLDER = f"{BUS}/devices/{GPU}"
GIB, MIB = 1 << 30, 1 << 20


def config_bytes() -> bytearray:
    """A config space laid out by hand: PM, MSI, PCI Express; serial number, resizable BARs."""
    space = bytearray(4096)
    struct.pack_into("<HHHH", space, 0, 0x1002, 0x744C, 0x0006, 0x0010)
    space[0x34] = 0x48
    space[0x48:0x4A] = bytes([0x01, 0x64])
    space[0x64:0x66] = bytes([0x10, 0xA0])
    space[0xA0:0xA2] = bytes([0x05, 0x00])
    struct.pack_into("<I", space, 0x100, 0x0003 | 1 << 16 | 0x200 << 20)
    struct.pack_into("<I", space, 0x200, 0x0015 | 1 << 16 | 0x000 << 20)
    # BAR 0: 256 MiB to 32 GiB are possible, 32 GiB is chosen; BAR 2: 2 MiB to 256 MiB, 256 MiB
    sizes_0, sizes_2 = 0xFF << 8 + 4, 0xFF << 1 + 4
    struct.pack_into("<II", space, 0x204, sizes_0, 0 | 2 << 5 | 15 << 8)
    struct.pack_into("<II", space, 0x20C, sizes_2, 2 | 8 << 8)
    return space


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    made = desktop(tmp_path, audio="snd_hda_intel")
    made.at(f"{FOLDER}/config").write_bytes(config_bytes())
    return made


def test_a_function(tree: PciTree) -> None:
    found = look_at(TreeWorld(tree.root), "03:00.0")
    check((found.vendor, found.device, found.class_code) == (0x1002, 0x744C, 0x030000))
    check(found.driver == "amdgpu" and found.iommu_group == "14" and found.override == "")
    check(not found.boot_vga and found.virtual_functions == 0 and found.physical_function == "")
    sizes = [resource.nbytes for resource in found.resources[:6]]
    check(sizes == [16 * GIB, 0, 256 * MIB, 0, 256, MIB], str(sizes))
    kinds = [(r.is_memory, r.is_ports, r.prefetchable, r.is_64_bit) for r in found.resources[:6]]
    nothing = (False, False, False, False)
    check(kinds == [
        (True, False, True, True), nothing, (True, False, True, True), nothing,
        (False, True, False, False), (True, False, False, False),
    ], str(kinds))  # fmt: skip
    check(str(found) == "1002:744c at 0000:03:00.0, bound to amdgpu")


def test_gpus_and_groups(tree: PciTree) -> None:
    tree.function("10000:e1:00.0", "10de:2330", "030200")
    tree.function("0000:07:00.0", "1022:17f0", "120000")
    world = TreeWorld(tree.root)
    check([gpu.address for gpu in gpus(world)] == [GPU, "0000:07:00.0", "10000:e1:00.0"])
    check(group_members(world, "14") == [BRIDGE, GPU, AUDIO] and group_members(world, "") == [])
    check(not world.writes)


@pytest.mark.parametrize("text", ["", "03:00", "0000:03:00.8", "../03:00.0", "0:0:0.0", "03:20.0"])
def test_addresses(text: str) -> None:
    with pytest.raises(BadArgument):
        checked_address(text)
    check(checked_address("C1:00.1") == "0000:c1:00.1")


def test_a_function_that_is_not_there(tree: PciTree) -> None:
    with pytest.raises(NotFound, match="lspci"):
        look_at(TreeWorld(tree.root), "0000:09:00.0")


def test_capabilities(tree: PciTree) -> None:
    config = Config.read(TreeWorld(tree.root), GPU)
    check(
        [(cap.id, cap.off) for cap in config.capabilities()] == [(1, 0x48), (16, 0x64), (5, 0xA0)]
    )
    check(
        [(c.id, c.version, c.off) for c in config.extended()] == [(3, 1, 0x100), (0x15, 1, 0x200)]
    )
    for kind, off in ((CAP_EXPRESS, 0x64), (CAP_MSI, 0xA0)):
        found = config.find(kind)
        check(found is not None and found.off == off)
    for kind, off in ((EXT_SERIAL, 0x100), (EXT_REBAR, 0x200)):
        found = config.find_extended(kind)
        check(found is not None and found.off == off)
    check(config.find(0x11) is None and config.find_extended(0x10) is None)
    check(config.command == 6 and config.header_type == 0)


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (0x34, b"\x20", "in the header"),
        (0xA1, b"\x48", "loops"),
        (0x102, b"\x01\x10", "loops"),
        (0x102, b"\x01\x08", "extended capability at"),
    ],
)
def test_damaged_config_space(at: int, value: bytes, says: str) -> None:
    space = config_bytes()
    space[at : at + len(value)] = value
    config = Config(bytes(space), "config")
    with pytest.raises(MalformedInput, match=says):
        (config.capabilities(), config.extended())


def test_a_list_that_leaves_what_could_be_read() -> None:
    config = Config(bytes(config_bytes()[:0x180]), "config")
    with pytest.raises(MalformedInput, match=r"0x200\+0x4 is outside 0x180 bytes"):
        config.extended()


def test_what_an_ordinary_user_sees() -> None:
    config = Config(bytes(config_bytes()[:64]), "config")
    check(config.device == 0x744C and not config.complete)
    for call in (config.capabilities, config.extended):
        with pytest.raises(Denied, match="64 bytes"):
            call()
    check(Config(bytes(config_bytes()[:256]), "config").extended() == [], "conventional PCI")


def test_a_function_that_left_the_bus() -> None:
    with pytest.raises(DeviceGone, match="all ones"):
        Config(b"\xff" * 4096, "config")


def test_mutated_config_spaces() -> None:
    chance = random.Random(5)
    good, seen = config_bytes(), set()
    places = [0, 6, 7, 0x34, *range(0x48, 0x4A), *range(0x64, 0x66), *range(0xA0, 0xA2)]
    places += [*range(0x100, 0x104), *range(0x200, 0x214)]
    for _ in range(5000):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            bad[chance.choice(places)] = chance.randrange(256)
        data = bytes(bad[: chance.choice([4096, 4096, 4096, 600, 256, 64, 20])])
        try:
            config = Config(data, "config")
            seen.add(len(config.capabilities()))
            config.extended()
        except DeviceError as error:
            seen.add(type(error))
    check({3, 0, MalformedInput, Denied} <= seen, str(seen))


def test_mapping_bars(tree: PciTree) -> None:
    world = TreeWorld(tree.root)
    for name in ("resource0", "resource0_wc", "resource5"):
        tree.put(f"{FOLDER}/{name}", "")
    function = look_at(world, GPU)
    for bar, combine, name in ((0, True, "resource0_wc"), (5, False, "resource5")):
        region = map_bar(world, function, bar, combine=combine)
        check(f"{FOLDER}/{name} of" in repr(region), repr(region))
        check(f"of {function.resources[bar].nbytes} bytes" in repr(region))
        check(not world.opened, "the mapping needs no descriptor")
    for bar, kind in ((1, Unsupported), (4, Unsupported), (6, BadArgument), (-1, BadArgument)):
        with pytest.raises(kind):
            map_bar(world, function, bar)
    with pytest.raises(BadArgument, match="write combining"):
        map_bar(world, function, 5, combine=True)
    with pytest.raises(NotFound):
        map_bar(world, function, 2)


def test_a_mapping_that_fails_leaves_nothing_open(tree: PciTree) -> None:
    tree.put(f"{FOLDER}/resource5", "")
    inner = TreeWorld(tree.root)
    function = look_at(inner, GPU)
    with pytest.raises(DeviceGone, match="mmap 1048576 bytes"):
        map_bar(FaultyWorld(inner, 1, Fault.of_errno(errno.EIO)), function, 5)
    check(not inner.opened)


def test_resizing(tree: PciTree) -> None:
    class Resizing(TreeWorld):
        def _written(self, path: str, text: str) -> None:
            self.writes.append((path, text))

    world = Resizing(tree.root)
    with pytest.raises(NotFound):
        sizes_offered(world, look_at(world, GPU), 0)
    tree.put(f"{FOLDER}/resource0_resize", f"{1 << 8 | 1 << 14:016x}")
    check(sizes_offered(world, look_at(world, GPU), 0) == (256 * MIB, 16 * GIB))
    with pytest.raises(Busy, match="bound to amdgpu"):
        resize_bar(world, look_at(world, GPU), 0, 16 * GIB)
    tree.at(f"{FOLDER}/driver").unlink()
    with pytest.raises(BadArgument, match="256 MiB, 16384 MiB"):
        resize_bar(world, look_at(world, GPU), 0, 8 * GIB)
    resize_bar(world, look_at(world, GPU), 0, 16 * GIB)
    check(world.writes == [(f"{FOLDER}/resource0_resize", "14\n")], str(world.writes))


class Window(TreeWorld):
    """A machine whose bridges have room for `room` bytes; the sizes are those of the function."""

    room = 2 * GIB

    def _written(self, path: str, text: str) -> None:
        self.writes.append((path, text))
        nbytes = 1 << int(text) + 20
        if nbytes > self.room:
            raise OSError(errno.ENOSPC, "no window")
        table = self.at(f"{FOLDER}/resource")
        _, *others = table.read_text().splitlines()
        first = LINE.format(0x80_0000_0000, 0x80_0000_0000 + nbytes - 1, 0x14220C).strip()
        table.write_text("\n".join([first, *others]) + "\n")


def test_enlarging_as_far_as_there_is_room(tree: PciTree) -> None:
    world = Window(tree.root)
    table = tree.at(f"{FOLDER}/resource")
    _, *others = table.read_text().splitlines()
    small = LINE.format(0x80_0000_0000, 0x80_0FFF_FFFF, 0x14220C).strip()
    table.write_text("\n".join([small, *others]) + "\n")
    found = enlarge(world, look_at(world, GPU), 0)
    check(found.nbytes == 256 * MIB and "offers no resizing" in found.why and not world.writes)
    sizes = 256 * MIB | GIB | 2 * GIB | 8 * GIB
    tree.put(f"{FOLDER}/resource0_resize", f"{sizes >> 20:016x}")
    found = enlarge(world, look_at(world, GPU), 0)
    check(found.nbytes == 256 * MIB and "amdgpu" in found.why and not world.writes)
    tree.at(f"{FOLDER}/driver").unlink()
    found = enlarge(world, look_at(world, GPU), 0)
    check(found.nbytes == 2 * GIB == found.function.resources[0].nbytes, str(found))
    check("ENOSPC" in found.why and [text for _, text in world.writes] == ["13\n", "11\n"])
    world.room = 8 * GIB
    check(enlarge(world, found.function, 0).nbytes == 8 * GIB)
    found = enlarge(world, look_at(world, GPU), 0)
    check((found.nbytes, found.why, len(world.writes)) == (8 * GIB, "", 3))


def test_a_bar_that_shares_a_page(tree: PciTree) -> None:
    table = tree.at(f"{FOLDER}/resource")
    lines = table.read_text().splitlines()
    lines[5] = LINE.format(0xFC90_0100, 0xFC90_01FF, 0x40200).strip()
    table.write_text("\n".join(lines) + "\n")
    world = TreeWorld(tree.root)
    with pytest.raises(Unsupported, match="shares a page"):
        map_bar(world, look_at(world, GPU), 5)


def test_the_dry_run_of_amd(tree: PciTree) -> None:
    world = TreeWorld(tree.root)
    text = dry_run(world)
    check("another function in use" in text and "snd_hda_intel" in text and "->" in text, text)
    tree.at(f"{BUS}/devices/{AUDIO}/driver").unlink()
    text = dry_run(world)
    for step in (
        "drivers/amdgpu/unbind",
        "driver_override",
        "drivers_probe",
        "nothing was changed",
    ):
        check(step in text, text)
    check(max(map(len, text.splitlines())) <= 100, text)
    tree.put(f"{FOLDER}/device", "0x1636")
    check("unknown chip" in dry_run(world) and chip_of_device(0x1636) is None)
    check(not world.writes, "nothing was changed")
