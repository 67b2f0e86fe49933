"""The tables of what NVIDIA's kernel modules do: all that the driver sends is in them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from boards.asked import check_options
from boards.nv.behaviour import TABLES, requests, table, there
from boards.nv.controls import CONTROLS
from boards.nv.hardware import NvOptions
from boards.nv.launch import KnownKernels, SmException
from boards.nv.layouts import VERSIONS
from boards.nv.machine import open_nv_board
from boards.nv.space import MmuFault
from boards.nv.uvm_requests import REQUESTS
from drivers.base.errors import DeviceFault
from drivers.choice import choose
from drivers.nv.device import NvDevice
from drivers.nv.opening import open_nv
from drivers.nv.tools.status import read
from tests.boards.nv_harness import CODE, LANES, add, arguments, binary
from tests.nv_sent import SendingWorld, missing
from tests.support import check

BRANCHES = (535, 550, 580, 595)
FEWEST = {"tu102": 110, "ga102": 110, "gb202": 110}
"""Different requests and members that are not 0 in such a life."""
BAD, UNMAPPED = 666, 667


def kernel(launch) -> None:
    """Adds; stops its SM, or meets an address that is mapped nowhere, when it is asked to."""
    asked = arguments(launch)[3]
    if asked == BAD:
        raise SmException(0x0F, launch.code_va + 16, "made up")
    if asked == UNMAPPED:
        raise MmuFault(0x1234_5000, 2, 1)
    add(launch)


def life(one: NvDevice, other: NvDevice) -> None:
    """Launches, a graph, memory of the process and of a peer, faults, sensors."""
    a, out = one.alloc(4 * LANES), other.alloc(4 * LANES)
    one.copy_in(a, memoryview(np.zeros(LANES, np.uint32)).cast("B"))
    program = one.load(binary(one))
    one.launch(program, [a, a, a, LANES], 1)
    graph = one.compute_queue().exec(program, [a, a, a, LANES]).bind()
    graph.replay()
    one.synchronize(5.0)
    graph.close()
    out.map_to(one)
    region = one.iface.world.mmap(-1, 4096)
    wrapped = one.wrap(region.view())
    one.launch(program, [wrapped, a, a, LANES], 1)
    one.synchronize(5.0)
    wrapped.free()
    one.trim()
    one.heap.take_back()
    region.close()
    for asked in (BAD, UNMAPPED):
        one.launch(program, [a, a, a, asked], 1)
        with pytest.raises(DeviceFault):
            one.synchronize(5.0)
    read(one.iface)


@pytest.mark.parametrize(
    ("chip", "branch"), [("ga102", one) for one in BRANCHES] + [("tu102", 580), ("gb202", 595)]
)
def test_all_that_is_sent_is_in_the_tables(chip: str, branch: int) -> None:
    board = open_nv_board(chip, gpus=2, options=NvOptions(driver=branch, vram_bytes=1 << 28))
    for gpu in board.hardware.gpus:
        gpu.executor = KnownKernels({CODE: kernel})
    world, choice = SendingWorld(board), replace(choose({"NV": "1"}), hang_s=5.0)
    with open_nv(world, choice) as one, open_nv(world, replace(choice, index=1)) as other:
        life(one, other)
    check(len(world.sent) >= FEWEST[chip], f"{len(world.sent)} kinds of things were sent")
    lacks = missing(world.sent, branch)
    check(not lacks, "; ".join(lacks))


def test_a_member_or_a_bit_that_the_tables_lack_is_found() -> None:
    sent = {("uvm", "UVM_FREE", "base"): {1}, ("uvm", "UVM_FREE", "length"): {1},
            ("uvm", "UVM_INITIALIZE", "flags"): {1}}  # fmt: skip
    check(missing(sent, 580) == [] and len(missing(sent, 590)) == 1)
    sent["uvm", "UVM_INITIALIZE", "flags"] = {4}
    sent["uvm", "UVM_FREE", "rest"] = {1}
    check(len(missing(sent, 580)) == 2)


@pytest.mark.parametrize("name", TABLES)
def test_each_entry_names_a_file_of_the_kernels(name: str) -> None:
    for entry in table(name).entries:
        check(re.match(r"[\w-]+\.[ch]\b", entry.place) is not None, entry.place)
        check(bool(entry.releases) and entry.text.endswith("."), entry.text)
    check(set(map(int, table(name).releases)) <= set(VERSIONS))


def test_boards_have_what_the_tables_know() -> None:
    check(set(requests("controls")) <= set(CONTROLS), "controls")
    check(set(requests("uvm")) - {0x30000001, 75} <= set(REQUESTS), "requests of UVM")
    check(not there("controls", 0x20802068, 535) and there("controls", 0x20802068, 550))
    check(not there("controls", 0x20800513, 570) and there("controls", 0x20800513, 610))


def test_a_release_that_there_is_no_table_of_is_refused() -> None:
    check_options("ga102", kernel="535")
    with pytest.raises(ValueError, match="--kernel 525 is not for ga102 over NVK: use 580 or"):
        check_options("ga102", kernel="525")
