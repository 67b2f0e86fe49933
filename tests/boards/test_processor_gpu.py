"""GPUs that are part of a processor: memory of the machine in one total and from both heaps, host
copies without a copy engine, the save area of gfx1151's larger register file."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from boards.amd.machine import Options, open_board
from drivers.amd.device import AmdDevice
from drivers.amd.tools.look import look
from drivers.base.errors import OutOfMemory, Unsupported
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import add, device_on, get, open_on, put
from tests.support import check

MIB = 1 << 20
CHIPS = ("gfx1103", "gfx1150", "gfx1151")
# src: Linux 6.12, amdgpu_ttm.c: system memory is preferred where firmware keeps less than GTT has
LITTLE = Options(gtt_bytes=1 << 30)
MUCH = Options(gtt_bytes=48 * MIB)
QUEUES = ("PM4", "AQL")


def open_with(options: Options, vram_bytes: int | None = None, queue: str = "PM4") -> Any:
    board = open_board("gfx1151", vram_bytes=vram_bytes, options=options)
    return board, open_on(ForeignWorld(board), queue)


class Copies:
    """Listens to a board: how many copies its engines ran."""

    def __init__(self, board: Any) -> None:
        self.count = 0
        board.hardware.trace = self

    def __call__(self, name: str, facts: dict[str, int | str]) -> None:
        self.count += name == "packet" and facts["op"] == "COPY_LINEAR"


def sums(device: AmdDevice, values: np.ndarray) -> tuple[Any, Any]:
    """The buffer of `values + values` by a kernel, and the values it was made of."""
    a, c = put(device, values), device.alloc(values.nbytes)
    program = device.load(add(device.arch))
    device.launch(program, [a, a, c, len(values)], -(-len(values) // 64))
    device.synchronize()
    return c, a


def fill(device: AmdDevice, nbytes: int, held: list[Any]) -> None:
    """Buffers into `held` until there is no memory left, at most 99."""
    for _ in range(99):
        held += [device.alloc(nbytes)]


@pytest.mark.parametrize("chip", CHIPS)
def test_the_total_is_ttms_limit_where_the_kernel_prefers_system_memory(chip: str) -> None:
    with device_on(chip, options=LITTLE) as (board, device):
        check(board.hardware.options.vram_bytes == 512 * MIB, "what firmware keeps")
        check(device.limits.memory_bytes == 1 << 30, f"{device.limits.memory_bytes:#x}")
        check(device.node.unified and device.node.gtt_bytes == 0, str(device.node))


def test_the_total_is_the_sum_where_firmware_keeps_much() -> None:
    board, device = open_with(MUCH, 96 * MIB)
    check(device.limits.memory_bytes == 144 * MIB, f"{device.limits.memory_bytes:#x}")
    check(not device.node.unified and device.node.gtt_bytes == 48 * MIB, str(device.node))
    device.close()
    check(not board.violations, str(board.violations))


def test_memory_comes_from_both_heaps() -> None:
    """The first buffers are VRAM, the rest system memory; kernels compute in either."""
    board, device = open_with(MUCH, 96 * MIB)
    values = np.arange(2 * MIB, dtype=np.float32)  # 8 MiB
    held: list[Any] = []
    with pytest.raises(OutOfMemory):
        fill(device, values.nbytes, held)
    kinds = {b.va: b.kind for b in board.process.memory.buffers}
    found = [kinds[buffer.gpu_va] for buffer in held]
    check(found == sorted(found, reverse=True) and {"VRAM", "GTT"} == set(found), str(found))
    check(found.count("GTT") >= 3, str(found))
    small = values[: 1 << 14]
    program = device.load(add(device.arch))
    for a, c in ((held[0], held[-1]), (held[-1], held[0])):
        device.copy_in(a, memoryview(small).cast("B"))
        device.launch(program, [a, a, c, len(small)], len(small) // 64)
        result = np.empty_like(small)
        device.copy_out(memoryview(result).cast("B"), c)
        np.testing.assert_array_equal(result, small + small)
    device.close()
    check(not board.violations, str(board.violations))


@pytest.mark.parametrize("queue", QUEUES)
def test_copies_are_the_hosts_where_memory_is(queue: str) -> None:
    values = np.random.default_rng(1).random(70_000, np.float32)
    with device_on("gfx1151", queue, LITTLE) as (board, device):
        heard = Copies(board)
        a = put(device, values)
        np.testing.assert_array_equal(get(device, a), values)
        c, again = sums(device, values)
        check(heard.count == 0, f"{heard.count} copies by engines, of code or data")
        np.testing.assert_array_equal(get(device, c), values + values)
        seen = c.view()
        check(seen.readonly and seen.nbytes == values.nbytes, "to read")
        np.testing.assert_array_equal(np.frombuffer(seen, np.float32), values + values)
        for buffer in (a, c, again):
            buffer.free()
        del seen


def test_small_buffers_of_one_slab_do_not_share_their_bytes() -> None:
    with device_on("gfx1151", options=LITTLE) as (_, device):
        rows = np.arange(12, dtype=np.float32).reshape(3, 4)
        buffers = [put(device, row) for row in rows]
        for row, buffer in zip(rows, buffers, strict=True):
            np.testing.assert_array_equal(np.frombuffer(buffer.view(), np.float32), row)


def test_copies_go_through_staging_where_memory_is_the_firmwares() -> None:
    board, device = open_with(MUCH, 96 * MIB)
    heard = Copies(board)
    values = np.arange(5000, dtype=np.float32)
    buffer = put(device, values)
    np.testing.assert_array_equal(get(device, buffer), values)
    check(heard.count >= 2, f"{heard.count} copies")
    with pytest.raises(Unsupported, match="copy_out"):
        buffer.view()
    device.close()


def test_without_mem_info_the_bank_is_all_that_is_known() -> None:
    with device_on("gfx1151", options=Options(reports_memory=False)) as (_, device):
        check(device.limits.memory_bytes == 1 << 30 and not device.node.unified, str(device.node))
        values = np.arange(100, dtype=np.float32)
        np.testing.assert_array_equal(get(device, put(device, values)), values)
    (gpu,) = look(ForeignWorld(open_board("gfx1151", options=Options(reports_memory=False)))).gpus
    check(gpu.numbered and any("mem_info" in str(note) for note in gpu.notes), str(gpu.notes))


@pytest.mark.parametrize("queue", QUEUES)
def test_a_kernel_with_too_small_a_save_area_is_refused_with_the_reason(queue: str) -> None:
    board = open_board("gfx1151", options=Options(old_save_area=True))
    with pytest.raises(Unsupported, match=r"save area of 0x.*update the kernel") as caught:
        open_on(ForeignWorld(board), queue)
    check(isinstance(caught.value.__cause__, OSError), "the kernel's own error is kept")
    check(board.baseline().queues == 0 and not board.violations, str(board.baseline()))


@pytest.mark.parametrize("chip", ["gfx1103", "gfx1150", "gfx1100", "gfx90a"])
def test_older_kernels_take_the_queues_of_other_chips(chip: str) -> None:
    with device_on(chip, options=Options(old_save_area=True)) as (board, _):
        check(board.hardware.options.old_save_area, "the sizes are asked for exactly")


def test_leaving_leaves_nothing() -> None:
    with device_on("gfx1151", options=LITTLE) as (board, device):
        held = [device.alloc(size) for size in (1, 5000, MIB, 3 * MIB)]
        check(board.baseline().gtt_bytes > 4 * MIB, str(board.baseline()))
        for buffer in held:
            buffer.free()
    check(not any(astuple(board.baseline())), str(board.baseline()))
