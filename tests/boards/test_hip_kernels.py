"""HIP kernels that ask how they were launched, compiled by clang, on boards; expected by numpy.

Where an implicit argument lies is clang's own knowledge (builtins), or AMDGPUUsage's table of code
object 5, whose offsets the kernel `shape` spells out.
"""

from __future__ import annotations

import functools
import tempfile
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilers.amd import code_object as amd_object
from drivers.amd.device import AmdDevice
from drivers.base.contracts import Binary
from drivers.base.errors import BadArgument, DeviceFault, MalformedInput
from queues.amd.kernarg import Hidden, check_place
from queues.amd.kernel_code import AmdCode, Implicit
from tests.boards.c_kernel_compile import compile_bitcode
from tests.boards.driver_harness import device_on, get, put
from tests.c_compiler import clang_command, needs_clang
from tests.compilers.test_gpu_code import HIP
from tests.support import check, run_limited

SOURCE = """
#define KERNEL extern "C" __attribute__((global)) void
#define HERE(a) __builtin_amdgcn_##a
typedef unsigned u32; typedef unsigned short u16; typedef unsigned long u64;
#define HIDDEN ((const char *)HERE(implicitarg_ptr)())

// blockDim, and gridDim as hip/amd_detail has it: numbers of whole workgroups
KERNEL stride(float *out, const float *in, float a, int n) {
  u32 size = HERE(workgroup_size_x)();
  u32 all = *(const u32 *)HIDDEN * size;
  for (u32 i = HERE(workgroup_id_x)() * size + HERE(workitem_id_x)(); i < n; i += all)
    out[i] = a * in[i] + all;
}

KERNEL shape(u32 *out) {
  const u32 *count = (const u32 *)HIDDEN;
  const u16 *size = (const u16 *)(HIDDEN + 12), *rest = (const u16 *)(HIDDEN + 18);
  const u64 *from = (const u64 *)(HIDDEN + 40);
  u32 x = HERE(workgroup_id_x)(), y = HERE(workgroup_id_y)(), z = HERE(workgroup_id_z)();
  u32 *mine = out + 16 * (x + count[0] * (y + count[1] * z));
#define AXIS(i) \\
  mine[i] = count[i]; mine[3 + i] = size[i]; mine[6 + i] = rest[i]; mine[9 + i] = from[i];
  AXIS(0) AXIS(1) AXIS(2)
  mine[12] = *(const u16 *)(HIDDEN + 64);
}

// no index that clang knows: every implicit argument may be meant
KERNEL unknown(u64 *out, int i) { out[0] = ((const u64 *)HIDDEN)[i]; }
KERNEL prints(u64 *out) { out[0] = **(const u64 *const *)(HIDDEN + 80); }
KERNEL allocates(u64 *out) { out[0] = **(const u64 *const *)(HIDDEN + 96); }
KERNEL enqueues(u64 *out) { out[0] = **(const u64 *const *)(HIDDEN + 104); }

// memory of a workgroup whose size a launch chooses, behind some of a fixed size
__attribute__((shared)) u32 fixed[8];
extern __attribute__((shared)) u32 more[];
KERNEL turns(u32 *out, u32 n) {
  u32 lane = HERE(workitem_id_x)();
  if (lane < 8) fixed[lane] = 100 + lane;
  for (u32 i = lane; i < n; i += HERE(workgroup_size_x)()) more[i] = 3 * i;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  for (u32 i = lane; i < n; i += HERE(workgroup_size_x)()) out[i] = more[n - 1 - i] + fixed[i % 8];
  if (!lane) out[n] = *(const u32 *)(HIDDEN + 120);
}
"""
WAYS = [("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx1201", "PM4"), ("gfx1030", "PM4"),
        ("gfx942", "AQL"), ("gfx942", "PM4")]  # fmt: skip
SHAPES = [((1, 1, 1), (32, 1, 1)), ((5, 1, 1), (64, 1, 1)), ((2, 3, 4), (8, 4, 2)),
          ((1, 7, 1), (1, 64, 1)), ((3, 1, 2), (2, 5, 7))]  # fmt: skip
_TIMEOUT_S = 120
_WORDS = 16
pytestmark = needs_clang


@functools.cache
def code_object(chip: str) -> bytes:
    """The kernels for a chip."""
    with tempfile.TemporaryDirectory() as folder:
        source, bitcode = Path(folder, "unit.hip"), Path(folder, "unit.bc")
        source.write_text(SOURCE)
        command = [*clang_command(), *HIP, f"--offload-arch={chip}", "-emit-llvm", "-c"]
        done = run_limited(
            [*command, "-o", str(bitcode), str(source)],
            capture_output=True, text=True, cpu_s=_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"clang refuses the kernels: {done.stderr}")
        return compile_bitcode(bitcode, chip)


def binary(name: str, chip: str) -> Binary:
    return amd_object.load(code_object(chip), name, chip)


def spoil(device: AmdDevice) -> None:
    """Nothing may rest on what an earlier launch left where arguments lie."""
    side = getattr(device.compute, "_side", None)
    if side is not None:
        side[:] = b"\xa5" * len(side)


def expected_shape(grid: tuple[int, ...], block: tuple[int, ...]) -> Any:
    """What every workgroup writes: sizes, no remainders, no offsets, three dimensions."""
    row = np.array([*grid, *block, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0], np.uint32)
    return np.tile(row, (int(np.prod(grid)), 1))


@pytest.mark.parametrize(("chip", "queue"), WAYS)
def test_a_launch_says_how_it_is_shaped(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        program = device.load(binary("shape", chip))
        for grid, block in SHAPES:
            out = put(device, np.zeros((int(np.prod(grid)), _WORDS), np.uint32))
            spoil(device)
            device.compute_queue().exec(program, [out], grid, block).submit()
            device.synchronize()
            found = get(device, out, "uint32").reshape(-1, _WORDS)
            np.testing.assert_array_equal(found, expected_shape(grid, block), f"{grid} {block}")


@pytest.mark.parametrize(("chip", "queue"), WAYS[:2] + WAYS[4:])
def test_recorded_launches_say_it_too(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        program = device.load(binary("shape", chip))
        outs = [put(device, np.zeros((int(np.prod(g)), _WORDS), np.uint32)) for g, _ in SHAPES]
        recorded = device.compute_queue()
        for out, (grid, block) in zip(outs, SHAPES, strict=True):
            recorded.exec(program, [out], grid, block)
        graph = recorded.bind()
        graph.replay()
        device.synchronize()
        for out, (grid, block) in zip(outs, SHAPES, strict=True):
            found = get(device, out, "uint32").reshape(-1, _WORDS)
            np.testing.assert_array_equal(found, expected_shape(grid, block), f"{grid} {block}")
        graph.close()


@pytest.mark.parametrize(("chip", "queue"), WAYS)
def test_a_loop_over_the_whole_grid(chip: str, queue: str) -> None:
    """Launched plainly, with the block that the binary comes with, and with one that is chosen."""
    count = 1000
    values = np.random.default_rng(3).standard_normal(count).astype(np.float32)
    scale = np.float32(0.5)
    with device_on(chip, queue) as (_, device):
        program = device.load(binary("stride", chip))
        out, source = put(device, np.zeros(count, np.float32)), put(device, values)
        args = [out, source, int(scale.view(np.uint32)), count]
        for grid, block in product((1, 3), (0, 64, 96)):
            spoil(device)
            if block:
                device.compute_queue().exec(program, args, (grid, 1, 1), (block, 1, 1)).submit()
            else:
                device.launch(program, args, grid)
            device.synchronize()
            wanted = scale * values + np.float32(grid * (block or 1024))
            np.testing.assert_allclose(get(device, out), wanted, rtol=1e-6)


# src: LLVM AMDGPUUsage, code object 5: hidden_private_base at 192, hidden_shared_base at 196,
# hidden_queue_ptr at 200, hidden_dynamic_lds_size at 120; kfd_flat_memory.c MAKE_*_APP_BASE_V9
PRIVATE_BASE, SHARED_BASE = 2 << 16, 1 << 16


def _with_bases(name: str, chip: str) -> Binary:
    """The kernel as one that lists the apertures, too: LLVM lists them for older chips alone."""
    made, own = binary(name, chip), 16
    code = AmdCode.of(made)
    kept = [one for one in code.implicit if one.offset < own + 192]
    both = [Implicit(90, 4, own + 192, "hidden_private_base"),
            Implicit(91, 4, own + 196, "hidden_shared_base")]  # fmt: skip
    after = [one for one in code.implicit if one.offset >= own + 200]
    vendor = replace(code, implicit=(*kept, *both, *after)).encode()
    return replace(made, resources=replace(made.resources, vendor=vendor))


@pytest.mark.parametrize(("chip", "queue"), [("gfx1100", "PM4"), ("gfx942", "AQL")])
def test_arguments_that_are_listed_and_not_used(chip: str, queue: str) -> None:
    """`unknown` may mean every implicit argument, as LLVM's attributor says of it."""
    kinds = {one.kind for one in AmdCode.of(binary("unknown", chip)).implicit}
    check({"hidden_hostcall_buffer", "hidden_heap_v1", "hidden_default_queue"} <= kinds, f"{kinds}")
    places = {10: 0, 12: 0, 13: 0, 24: SHARED_BASE << 32 | PRIVATE_BASE, 25: 0}
    with device_on(chip, queue) as (_, device):
        program = device.load(_with_bases("unknown", chip))
        out = put(device, np.zeros(1, np.uint64))
        for place, wanted in places.items():
            spoil(device)
            device.compute_queue().exec(program, [out, place]).submit()
            device.synchronize()
            found = int(get(device, out, "uint64")[0])
            check(found == wanted, f"{place}: {found:#x}, not {wanted:#x}")


@pytest.mark.parametrize(("chip", "queue"), [("gfx1100", "PM4"), ("gfx942", "AQL")])
@pytest.mark.parametrize("name", ["prints", "allocates", "enqueues"])
def test_a_service_that_is_used_is_a_named_fault(name: str, chip: str, queue: str) -> None:
    wanted = {"prints": "calls of the host", "allocates": r"malloc\(\)", "enqueues": "by kernels"}
    with device_on(chip, queue) as (_, device):
        program, out = device.load(binary(name, chip)), put(device, np.zeros(1, np.uint64))
        device.compute_queue().exec(program, [out]).submit()
        with pytest.raises(DeviceFault, match=wanted[name]) as error:
            device.synchronize()
        check(error.value.kernel == name and error.value.gpu_va == 0, f"{error.value}")


@pytest.mark.parametrize(("chip", "queue"), WAYS)
def test_shared_memory_is_added_at_launch(chip: str, queue: str) -> None:
    """HIP's `extern __shared__`, behind what the kernel declares; recorded launches, too."""
    with device_on(chip, queue) as (_, device):
        program = device.load(binary("turns", chip))
        count, first = np.arange(4000, dtype=np.uint32), 100 + np.arange(8, dtype=np.uint32)
        for number, recorded in ((1, False), (700, True), (4000, False)):
            out = put(device, np.zeros(number + 1, np.uint32))
            queued = device.compute_queue()
            queued.exec(program, [out, number], (1, 1, 1), (64, 1, 1), shared_bytes=4 * number)
            spoil(device)
            if recorded:
                with closing(queued.bind()) as graph:
                    graph.replay()
                    device.synchronize()
            queued.submit()
            device.synchronize()
            found, at = get(device, out, "uint32"), count[:number]
            wanted = 3 * (number - 1 - at) + first[at % 8]
            np.testing.assert_array_equal(found[:number], wanted, f"{number}")
            check(int(found[number]) == 4 * number, f"{found[number]}")
        queued = device.compute_queue()
        for bad in (-1, 1.5, (64 << 10) - 31, 1 << 40):
            with pytest.raises(BadArgument, match="shared memory"):
                queued.exec(program, [out, 1], shared_bytes=bad)


@pytest.mark.parametrize(("chip", "queue"), WAYS[:1] + WAYS[4:5])
def test_too_little_shared_memory_is_seen(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        program, out = device.load(binary("turns", chip)), put(device, np.zeros(4001, np.uint32))
        device.compute_queue().exec(program, [out, 4000], (1, 1, 1), (64, 1, 1)).submit()
        with pytest.raises(DeviceFault, match="turns"):
            device.synchronize()


@pytest.mark.parametrize(
    "hidden",
    [
        [Hidden(8, 4, "hidden_block_count_x"), Hidden(8, 2, "hidden_group_size_x")],
        [Hidden(4, 4, "hidden_block_count_x")], [Hidden(10, 4, "hidden_block_count_x")],
        [Hidden(8, 2, "hidden_block_count_x")], [Hidden(8, 1, "hidden_group_size_x")],
        [Hidden(40, 2, "hidden_group_size_x")], [Hidden(16, 4, "hidden_block_count_x"),
                                                 Hidden(8, 4, "hidden_block_count_y")],
    ],
)  # fmt: skip
def test_arguments_that_overlap_or_lie_outside(hidden: list[Hidden]) -> None:
    check_place("k", [Hidden(8, 4, "hidden_block_count_x"), Hidden(38, 2, "hidden_none")], 8, 40)
    with pytest.raises(MalformedInput, match="k: hidden_"):
        check_place("k", hidden, 8, 40)
