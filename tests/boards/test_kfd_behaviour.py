"""KFD by the kernel's release: the table has all that is sent, and boards follow it."""

from __future__ import annotations

import errno
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boards.amd.kfd.ioctls import Kfd, number_of
from boards.amd.kfd.rules import KERNELS, behaviour
from boards.amd.kfd.types import IOCTLS
from boards.amd.machine import Options, open_board
from boards.asked import check_options
from drivers.base.errors import DeviceFault, DeviceGone, Unsupported
from drivers.world.foreign import ForeignWorld
from tests.boards.board_driver import PAGE, SIGNALS, Driver, Waiting, fails
from tests.boards.driver_harness import add, get, open_on, put
from tests.support import check

N = 64
ENOTSUPP = 524
"""src: include/linux/errno.h"""
TOPOLOGY = "/sys/devices/virtual/kfd/kfd/topology/nodes"
LIVES = [
    ("gfx1100", "PM4", "6.1"), ("gfx1100", "AQL", "6.1"), ("gfx1100", "PM4", "7.3"),
    ("gfx1100", "AQL", "7.3"), ("gfx1030", "PM4", "6.1"), ("gfx90a", "AQL", "6.1"),
    ("gfx1201", "PM4", "6.12"), ("gfx942", "AQL", "7.3"), ("gfx950", "AQL", "7.3"),
]  # fmt: skip
FEWEST = 40
"""Different fields and requests that such a life sends."""
Sent = dict[tuple[str, str], set[int]]


@contextmanager
def recorded() -> Iterator[Sent]:
    """What is sent to /dev/kfd inside the block: values but 0, by request and field."""
    sent: Sent = defaultdict(set)
    before = Kfd.ioctl

    def ioctl(self: Kfd, request: int, argument: bytearray) -> int:
        name, layout = IOCTLS[number_of(request)]
        sent[name, ""].add(0)
        for field, value in vars(layout.unpack(bytes(argument))).items():
            if value and not (field.startswith("pad") and name != "create_queue"):
                sent[name, field].add(value)
        return before(self, request, argument)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kfd, "ioctl", ioctl)
        yield sent


def board_of(chip: str, release: str, **more: Any) -> Any:
    return open_board(chip, vram_bytes=256 << 20, options=Options(kernel=release, **more))


def work(device: Any) -> None:
    ones = np.ones(N, np.float32)
    x, y = put(device, ones), device.alloc(4 * N)
    device.launch(device.load(add(device.arch)), [x, x, y, N], 1)
    np.testing.assert_array_equal(get(device, y), ones + ones)


@pytest.mark.parametrize(("chip", "queue", "release"), LIVES)
def test_a_life_under_a_release(chip: str, queue: str, release: str) -> None:
    board = board_of(chip, release)
    with recorded() as sent, open_on(ForeignWorld(board), queue) as device:
        work(device)
    table = behaviour()
    outs = {("get_version", "major_version"), ("get_version", "minor_version")}
    missing = [
        f"{request}.{field} = {value:#x}"
        for (request, field), values in sorted(sent.items())
        for value in sorted(values)
        if (request, field) not in outs and not table.covers(request, field, value, release)
    ]
    check(not missing, str(missing))
    check(len(sent) >= FEWEST, f"{len(sent)} kinds of things were sent")
    check(not board.violations, f"{board.violations}")


@pytest.mark.parametrize("release", ["5.15", "6.1"])
def test_an_older_kernel_is_refused_by_name(release: str) -> None:
    """Version 1.6 of 5.15, on a chip that it has."""
    board = board_of("gfx1030", release)
    if release == "6.1":
        with open_on(ForeignWorld(board)) as device:
            work(device)
        return
    with pytest.raises(Unsupported, match=r"1\.6.*Linux 6\.1"):
        open_on(ForeignWorld(board))


@pytest.mark.parametrize(
    ("chip", "release", "advice"),
    [("gfx1100", "5.15", "6.1 or 6.12 or 7.3"), ("gfx1201", "6.1", "6.12 or 7.3"),
     ("gfx942", "6.1", "6.12 or 7.3"), ("gfx950", "6.12", "7.3"), ("gfx1151", "5.15", "6.12")],
)  # fmt: skip
def test_a_kernel_without_the_chip_is_no_board(chip: str, release: str, advice: str) -> None:
    with pytest.raises(ValueError, match=f"Linux {release} has no driver for {chip}.*{advice}"):
        board_of(chip, release)


def test_boards_offer_the_releases_of_the_table() -> None:
    check(sorted(KERNELS) == sorted(behaviour().releases))
    check_options("gfx1100", iface="KFD", kernel="7.3")
    with pytest.raises(ValueError, match=r"--kernel 6\.2 is not for gfx1100 over KFD"):
        check_options("gfx1100", iface="KFD", kernel="6.2")


def test_each_entry_names_its_place_and_each_rule_is_asked_for() -> None:
    root = Path(__file__).resolve().parents[2] / "boards" / "amd"
    asked = set(re.findall(r'"(\w+)"', "\n".join(p.read_text() for p in root.rglob("*.py"))))
    for entry in behaviour().entries:
        check(re.fullmatch(r"[\w.-]+\.[ch] \w+", entry.place) is not None, entry.place)
        check(bool(entry.releases) and entry.text.endswith("."), entry.text)
        check(not entry.rule or entry.rule in asked, entry.rule)


# src: include/uapi/linux/kfd_ioctl.h of each: KFD_IOCTL_MINOR_VERSION, AMDKFD_COMMAND_END
@pytest.mark.parametrize(
    ("release", "minor", "end"), [("6.1", 11, 0x24), ("6.12", 17, 0x27), ("7.3", 23, 0x29)]
)
def test_versions_and_commands(release: str, minor: int, end: int) -> None:
    driver = Driver("gfx1100", options=Options(kernel=release))
    check(driver.call("get_version")[:2] == (1, minor))
    fails(errno.ENOTTY, driver.world.ioctl, driver.kfd, 0xC0084B00 | end, bytearray(8))
    there = driver.world.ioctl, driver.kfd, 0xC0084B00 | 0x26, bytearray(8)
    fails(errno.ENOTTY if end <= 0x26 else errno.ENOSYS, *there)


def properties(release: str) -> dict[str, int]:
    board = board_of("gfx1100", release)
    text = board.read(f"{TOPOLOGY}/1/properties").decode()
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def test_properties_of_sysfs() -> None:
    """src: kfd_topology.c node_show(), kfd_sysfs.h HSA_CAP_* of each"""
    old, now, new = properties("6.1"), properties("6.12"), properties("7.3")
    newer = {"debug_prop", "num_xcc", "cwsr_size", "ctl_stack_size"}
    check(set(now) - set(old) == newer, f"{set(now) - set(old)}")
    check(set(new) - set(now) == {"capability2"} and list(new).index("capability2") == 1 + list(
        new).index("capability"))  # fmt: skip
    debug, alone = 1 << 29 | 7 << 15, 1 << 31
    check(not old["capability"] & debug and now["capability"] & debug == debug)
    check(new["capability"] == now["capability"] | alone, f"{new['capability']:#x}")


def test_queues_are_judged_since_they_hold_their_buffers() -> None:
    """src: kfd_queue.c kfd_queue_acquire_buffers() of 6.12; kfd_chardev.c of 6.1, with MES"""
    for release, judged in (("6.1", False), ("6.12", True), ("7.3", True)):
        driver = Driver("gfx1100", options=Options(gtt_bytes=32 << 20, kernel=release))
        parts = driver.queue_parts()
        stack = parts.sizes.ctl_stack + PAGE
        if judged:
            fails(errno.EINVAL, driver.create_queue, parts, ctl_stack=stack)
            driver.create_queue(parts)
            fails(errno.EBUSY, driver.unmap, parts.ring, 0)
            continue
        driver.create_queue(parts, ctl_stack=stack)
        driver.unmap(parts.ring, 0)
        wide = driver.buffer(2 * PAGE, SIGNALS)
        fails(errno.EINVAL, driver.create_queue, parts, wptr=wide.va)
        with pytest.raises(OSError, match=f"Errno {ENOTSUPP}"):
            driver.create_queue(parts, kind=4)


def test_what_a_reset_says() -> None:
    """6.1 copies no data of a hardware exception: src: kfd_events.c copy_signaled_event_data()"""
    for release, data in (("6.1", False), ("6.12", True), ("7.3", True)):
        driver = Driver("gfx1100", options=Options(gtt_bytes=32 << 20, kernel=release))
        waiting = Waiting(driver)
        event = waiting.create(3)
        driver.world.panel.gpu_reset()
        result, (found,) = waiting.wait(event, timeout=0)
        check(result == 0, "it came")
        check(any(found[:16]) == data, f"{release}: {found.hex()}")


def test_the_kernel_s_own_event_page_is_gone() -> None:
    for release, there in (("6.12", True), ("7.3", False)):
        driver = Driver("gfx1100", options=Options(gtt_bytes=32 << 20, kernel=release))
        if there:
            driver.call("create_event", 0, 0, 0, 1)
        else:
            fails(errno.ENOMEM, driver.call, "create_event", 0, 0, 0, 1)
            data = np.zeros(48 * 4097, np.uint8)
            fails(errno.ENOMEM, driver.call, "wait_events", data.ctypes.data, 4097, 0, 0)


@pytest.mark.parametrize(("release", "dead"), [("6.12", False), ("7.3", True)])
def test_doorbells_of_before_a_reset(release: str, dead: bool) -> None:
    """src: amdgpu_amdkfd.c amdgpu_amdkfd_clear_kfd_mapping() of 7.3"""
    driver = Driver("gfx1100", options=Options(gtt_bytes=32 << 20, kernel=release))
    _, offset = driver.create_queue(driver.queue_parts())
    before = driver.doorbells(offset)
    before.write64(offset & 0x1FFF, 1)
    driver.world.panel.gpu_reset()
    before.write64(offset & 0x1FFF, 2)
    kinds = [one.kind for one in driver.world.violations]
    check(kinds == ["SIGBUS"] * dead, f"{kinds}")
    driver.doorbells(offset).write64(offset & 0x1FFF, 3)
    check(len(driver.world.violations) == dead)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize("release", ["6.1", "6.12", "7.3"])
def test_a_reset_while_nothing_runs(release: str, queue: str) -> None:
    """The next launch raises, and no store reaches a doorbell that is not mapped any more."""
    board = board_of("gfx1100", release)
    with open_on(ForeignWorld(board), queue) as device:
        work(device)
        program = device.load(add("gfx1100"))
        x, y = device.alloc(4 * N), device.alloc(4 * N)
        device.synchronize()
        device.iface.world.sleep(1.0)
        board.panel.gpu_reset()

        def life() -> None:
            for _ in range(4):
                device.launch(program, [x, x, y, N], 1)
                device.synchronize(2.0)

        with pytest.raises((DeviceFault, DeviceGone), match="reset"):
            life()
    check(not board.violations, f"{board.violations}")
