"""What kernels for GPUs are made of: the instructions, the launch they ask for, the source."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import expr as ex
from compilers import graph, toolchains
from compilers import index as ix
from compilers.amd import comgr as amd_comgr
from compilers.amd import disasm as amd_disasm
from compilers.amd import render_hip
from compilers.amd import render_llvm as render_amd_llvm
from compilers.amd import targets as amd_targets
from compilers.amd.matrix_forms import INSTRUCTIONS
from compilers.dtype import DType
from compilers.graph import Node
from compilers.index import Var
from compilers.ir import Barrier, Kernel, Loop, Matrix, Ref, Store
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.base.contracts import Arg, Binary
from drivers.base.errors import Unsupported
from queues.amd.kernel_code import AmdCode
from tests.amd_toolbox import needs_libllvm
from tests.boards.kernel_runner import TARGETS
from tests.c_compiler import clang_command, needs_clang
from tests.compilers.lowering import leaf, matmul, softmax
from tests.support import check, run_limited

HIP = ["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "-std=c++17", "-O1"]
"""clang's options for device code of one chip without the ROCm runtime's headers."""


def kernels(root: Node, arch: str) -> list[Kernel]:
    """The kernels of one root."""
    key, _ = signature([root])
    return [step.kernel for step in plan(rebuild(key).roots, TARGETS[arch]).steps]


def built(root: Node, arch: str, compiler: str = "LLVM") -> Binary:
    """The only kernel of a root, compiled."""
    (kernel,) = kernels(root, arch)
    return toolchains.build(kernel, compiler, arch, frozenset())


def mnemonics(binary: Binary) -> Counter[str]:
    """How often each instruction occurs, as LLVM disassembles it."""
    return Counter(found.text.split()[0] for found in amd_disasm.instructions(binary))


def zeros(*shape: int) -> Node:
    return leaf(np.zeros(shape, np.float32))


def halves(dtype: DType, *shape: int) -> Node:
    stored = np.zeros(shape, dtype.storage)
    return graph.cast(graph.buffer(stored, dtype, shape), dt.float32)


@needs_libllvm
@pytest.mark.parametrize(
    ("arch", "load"), [("gfx1100", "global_load_b128"), ("gfx942", "global_load_dwordx4")]
)
def test_elementwise_work_is_128_bits_a_lane(arch: str, load: str) -> None:
    found = mnemonics(built(graph.binary("add", zeros(4096), zeros(4096)), arch))
    check(found[load] == 2, f"{found}")


@needs_libllvm
@pytest.mark.parametrize(
    ("arch", "dtype", "instruction"),
    [
        ("gfx1100", dt.float16, "v_wmma_f32_16x16x16_f16"),
        ("gfx1100", dt.bfloat16, "v_wmma_f32_16x16x16_bf16"),
        ("gfx1201", dt.float16, "v_wmma_f32_16x16x16_f16"),
        ("gfx1201", dt.bfloat16, "v_wmma_f32_16x16x16_bf16"),
        ("gfx942", dt.float16, "v_mfma_f32_32x32x8_f16"),
        ("gfx942", dt.bfloat16, "v_mfma_f32_32x32x8_bf16"),
    ],
)
def test_products_of_halves_use_the_matrix_unit(arch: str, dtype: DType, instruction: str) -> None:
    binary = built(matmul(halves(dtype, 256, 256), halves(dtype, 256, 256)), arch)
    found = mnemonics(binary)
    check(found[instruction] >= 2, f"{found}")
    check(not any("fmac" in name or "v_pk_fma" in name for name in found), f"{found}")
    check(not binary.resources.scratch_bytes, "fragments went to memory")
    loads = {name for name in found if name.startswith("global_load")}
    check(loads <= {"global_load_b128", "global_load_dwordx4"}, f"narrow loads: {loads}")


@needs_libllvm
@pytest.mark.parametrize(
    ("arch", "multiply", "load"),
    [("gfx1100", "v_dual_fmac_f32", "ds_load_b128"), ("gfx942", "v_pk_fma_f32", "ds_read_b128")],
)
def test_products_of_floats_are_tiled(arch: str, multiply: str, load: str) -> None:
    binary = built(matmul(zeros(256, 256), zeros(256, 256)), arch)
    found = mnemonics(binary)
    check(found[multiply] >= 100 and found[load] >= 16, f"{found}")
    waves = binary.resources.block // AmdCode.of(binary).wave_lanes
    check(found["s_barrier"] == (2 if waves > 1 else 0), f"{found}")
    check(not binary.resources.scratch_bytes and not AmdCode.of(binary).vgpr_spills, "spilled")
    check(binary.resources.shared_bytes > 0, "no shared memory")
    narrow = {"global_load_b32", "global_load_dword"} & found.keys()
    check(not narrow, f"operands are not read 128 bits at a time: {found}")


@pytest.mark.parametrize(("size", "tile"), [(4096, 128), (640, 128), (320, 64), (128, 32)])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float16])
def test_tiles_are_as_large_as_48_units_allow(dtype: DType, size: int, tile: int) -> None:
    (kernel,) = kernels(matmul(halves(dtype, size, size), halves(dtype, size, size)), "gfx1100")
    check(kernel.grid == (-(-size // tile)) ** 2, f"{kernel.grid} workgroups")


@needs_libllvm
def test_a_wide_load_begins_at_any_element() -> None:
    """Neighbours that begin at an odd element of 16 bits are one access: UNALIGNED mode."""
    x, y = (graph.buffer(np.zeros(1, np.float16), dt.float16, (4104,)) for _ in range(2))
    for start in (0, 8, 1, 3):
        moved = graph.slice_(x, ((start, 1),), (4096,))
        whole = graph.slice_(y, ((0, 1),), (4096,))
        found = mnemonics(built(graph.binary("add", moved, whole), "gfx1100"))
        check(found["global_load_b128"] == 2, f"from {start}: {found}")


@needs_libllvm
def test_a_product_of_two_kinds_of_halves_is_one_of_floats() -> None:
    operands = halves(dt.float16, 64, 64), halves(dt.bfloat16, 64, 64)
    found = mnemonics(built(matmul(*operands), "gfx1100"))
    check(not any("wmma" in name for name in found) and found["v_dual_fmac_f32"] > 0, f"{found}")


@needs_libllvm
@pytest.mark.parametrize(
    ("arch", "wait"), [("gfx1100", "s_waitcnt lgkmcnt(0)"), ("gfx1201", "s_wait_dscnt 0x0")]
)
def test_stores_to_shared_memory_are_done_before_a_barrier(arch: str, wait: str) -> None:
    """The barrier does not wait for them: another wave could read what was there before."""
    for root in (matmul(zeros(256, 256), zeros(256, 256)), softmax(zeros(64, 8192))):
        texts = [found.text for found in amd_disasm.instructions(built(root, arch))]
        pending = barriers = 0
        for text in texts:
            pending += text.startswith("ds_store")
            if text == wait:
                pending = 0
            if text.startswith(("s_barrier_signal", "s_barrier")) and "wait" not in text:
                check(not pending, f"{pending} stores are on their way at {text}")
                barriers += 1
        check(barriers >= 2, f"{barriers} barriers")


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_rows_of_shared_memory_begin_in_different_banks(arch: str) -> None:
    """An odd number of 16 bytes apart: eight rows are in all of the 32 banks of 4 bytes. Those of
    products of halves: tests/boards/test_product_cycles.py."""
    (kernel,) = kernels(matmul(zeros(64, 64), zeros(64, 64)), arch)
    tiles = [ref for ref in kernel.locals if ref.space == "shared"]
    for ref in tiles:
        row_bytes = ref.size // 16 * ref.dtype.itemsize  # the tile is 32 x 16 along k
        check(row_bytes % 32 == 16, f"{ref}: {row_bytes} bytes")
    check(len(tiles) == 2, f"{tiles}")


@needs_libllvm
def test_rows_meet_inside_a_wave_without_memory() -> None:
    found = mnemonics(built(graph.reduce("add", zeros(64, 128), (1,)), "gfx1100"))
    check(any(name.endswith("_dpp") for name in found), f"{found}")
    check(not any(name.startswith("ds_") for name in found), f"{found}")


@pytest.mark.parametrize("arch", TARGETS)
def test_a_launch_needs_pointers_and_a_block_only(arch: str) -> None:
    binary = built(graph.binary("add", zeros(1000), zeros(1000)), arch)
    resources, code = binary.resources, AmdCode.of(binary)
    check(not code.implicit and code.kernarg_bytes == 24, f"{resources}")
    check(resources.args == tuple(Arg(at, 8, True) for at in (0, 8, 16)), "offsets")
    check(resources.block == resources.max_block == 256, f"{resources}")
    check(not code.dynamic_stack, "a stack")


@pytest.mark.parametrize(
    ("shape", "axis", "launch"),
    [((64, 2048), 1, (64, 256)), ((64, 96), 1, (64, 32)), ((64, 40), 1, (4, 256)),
     ((250, 64), 0, (2, 256)), ((250, 5), 0, (1, 64))],
)  # fmt: skip
def test_teams_of_reductions(shape: tuple[int, int], axis: int, launch: tuple[int, int]) -> None:
    """A workgroup, a wave, 16 lanes for a row; 8 lanes for each of 32, or 8, columns."""
    (kernel,) = kernels(graph.reduce("add", zeros(*shape), (axis,)), "gfx1100")
    check((kernel.grid, kernel.block) == launch, f"{kernel.grid} x {kernel.block}")


def test_what_spreads_a_reduction_of_few_points_is_a_kernel_of_its_own() -> None:
    """Two workgroups for two rows would leave 46 units idle."""
    grids = [kernel.grid for kernel in kernels(softmax(zeros(2, 100_000)), "gfx1100")]
    check(grids[-1] >= 48 and max(grids[:-1]) >= 20, f"{grids}")
    check([kernel.grid for kernel in kernels(softmax(zeros(64, 100)), "gfx1100")] == [64], "64")


@needs_libllvm
def test_the_sine_of_huge_angles_is_behind_a_branch() -> None:
    texts = [found.text for found in amd_disasm.instructions(built(
        graph.unary("sin", zeros(4096)), "gfx1100"))]  # fmt: skip
    branch = next(n for n, text in enumerate(texts) if text.startswith("s_cbranch_execz"))
    before, behind = (sum("_f64" in text for text in part) for part in
                      (texts[:branch], texts[branch:]))  # fmt: skip
    check(behind > 2 * before, f"{before} float64 instructions before it, {behind} behind")


def test_what_a_barrier_or_a_matrix_step_changes_is_read_again() -> None:
    out, shared = Ref("out", dt.float32, 64, "global"), Ref("s", dt.float32, 512, "shared")
    acc, zero = Ref("acc", dt.float32, 8, "register"), ix.const(0)
    other, sum_ = ex.load(shared, zero), ex.load(acc, zero)
    halves = Ref("h", dt.float16, 512, "shared")
    body = (
        Store(out, ix.const(0), other), Store(out, ix.const(1), sum_), Barrier(),
        Matrix(INSTRUCTIONS["wmma11.float16"].form, acc, 0, halves, zero, halves, zero),
        Store(out, ix.const(2), other), Store(out, ix.const(3), sum_),
    )  # fmt: skip
    grid = Loop(Var("g", 1), "grid", (Loop(Var("lane", 32), "lane", body),))
    text = render_amd_llvm.render(Kernel("k", (out,), (shared, halves, acc), grid, 32), "gfx1100")
    check(text.count("load float, ptr addrspace(3)") == 2, text)
    check(text.count("load float, ptr addrspace(5)") == 2, text)


def test_a_grid_is_counted_in_workgroups() -> None:
    (kernel,) = kernels(graph.binary("add", zeros(4100), zeros(4100)), "gfx1100")
    check((kernel.grid, kernel.block) == (5, 256), f"{kernel.grid} x {kernel.block}")


def test_kernels_keep_no_scratch_memory_outside() -> None:
    for root in (graph.argsort(zeros(9, 70), 1, False), softmax(zeros(5, 999))):
        for kernel in kernels(root, "gfx1100"):
            check(not kernel.scratch_bytes, kernel.name)


@pytest.mark.parametrize("render", [render_amd_llvm.render, render_hip.render])
def test_equal_kernels_give_equal_texts(render: object) -> None:
    first, second = (kernels(softmax(zeros(64, 100)), "gfx1100")[0] for _ in range(2))
    if callable(render):
        check(render(first, "gfx1100") == render(second, "gfx1100"), "texts differ")


@pytest.mark.parametrize("compiler", ["LLVM", "HIP"])
def test_an_unknown_chip_is_refused_by_name(compiler: str) -> None:
    (kernel,) = kernels(graph.binary("add", zeros(8), zeros(8)), "gfx1100")
    with pytest.raises(Unsupported, match="gfx9999"):
        toolchains.build(kernel, compiler, "gfx9999", frozenset())


@pytest.mark.parametrize("arch", sorted(amd_targets.TARGETS.keys() - TARGETS.keys()))
def test_chips_without_a_board_get_kernels_of_their_generation(arch: str) -> None:
    family = amd_targets.amd_target(arch).chip.family
    target = Target.gpu_of(arch, 32)
    product = matmul(halves(dt.bfloat16, 256, 256), halves(dt.bfloat16, 256, 256))
    for root in (product, softmax(zeros(9, 8192)), graph.unary("sin", zeros(99))):
        key, _ = signature([root])
        (step,) = plan(rebuild(key).roots, target).steps
        binary = toolchains.build(step.kernel, "LLVM", arch, frozenset())
        check(AmdCode.of(binary).wave_lanes == family.wave_lanes, f"{binary.resources}")
        check(not AmdCode.of(binary).vgpr_spills, f"{binary.resources}")
        text = render_amd_llvm.render(step.kernel, arch)
        used = ".f32.16x16x16" in text or ".f32.32x32x8" in text
        wanted = bool(family.matrix) and root is product  # RDNA2 has no matrix unit
        check(used == wanted, f"{family.matrix} in {step.kernel.name}: {used}")


_MATRIX_CHIPS = sorted(
    arch for arch, target in amd_targets.TARGETS.items() if target.generation.matrix
)


@pytest.mark.parametrize("arch", _MATRIX_CHIPS)
@pytest.mark.parametrize("columns", [4096, 4001])
def test_large_products_of_halves_fit_in_registers(columns: int, arch: str) -> None:
    """Whole tiles and cut-off ones, with an epilogue that needs registers of its own."""
    target = Target.gpu_of(arch, 48)
    x, w = (graph.buffer(np.zeros(1, np.uint16), dt.bfloat16, (4096, n)) for n in (4096, columns))
    product = matmul(graph.permute(graph.cast(x, dt.float32), (1, 0)), graph.cast(w, dt.float32))
    root = graph.cast(graph.binary("mul", product, graph.unary("erf", product)), dt.bfloat16)
    key, _ = signature([root])
    (step,) = plan(rebuild(key).roots, target).steps
    made = toolchains.build(step.kernel, "LLVM", arch, frozenset())
    resources = made.resources
    check(not AmdCode.of(made).vgpr_spills and not resources.scratch_bytes, f"{resources}")
    check(resources.shared_bytes <= 64 << 10, f"{resources}")


@needs_clang
def test_hip_promises_no_more_of_a_fragment_than_shared_memory_keeps() -> None:
    """Rows of a staged tile are 80 bytes apart; clang's own alignment of 16 halves is 32."""
    command = [*clang_command(), *HIP, "--offload-arch=gfx1100", "-emit-llvm", "-S", "-o", "-", "-"]
    (kernel,) = kernels(matmul(halves(dt.float16, 64, 64), halves(dt.float16, 64, 64)), "gfx1100")
    source = amd_comgr.PROLOGUE + render_hip.render(kernel, "gfx1100")
    done = run_limited(command, input=source, capture_output=True, text=True, cpu_s=60)
    found = re.findall(r"load <16 x half>, ptr addrspace\(3\) .*, align (\d+)", done.stdout)
    check(len(found) >= 2 and set(found) == {"16"}, f"{found} {done.stderr[:500]}")


@needs_clang
@pytest.mark.parametrize("arch", TARGETS)
def test_hip_source_is_what_a_newer_clang_takes_too(arch: str) -> None:
    """COMGR of Debian 12 knows neither gfx11, gfx12 nor gfx942."""
    roots = [matmul(halves(dt.bfloat16, 64, 64), halves(dt.bfloat16, 64, 64)),
             matmul(halves(dt.float16, 64, 64), halves(dt.float16, 64, 64)),
             softmax(zeros(3, 3000)), graph.scan("add", zeros(3, 700), 1),
             graph.argsort(zeros(3, 300), 1, False)]  # fmt: skip
    command = [*clang_command(), *HIP, f"--offload-arch={arch}", "-ffp-contract=off", "-fwrapv",
               "-S", "-o", "-", "-"]  # fmt: skip
    for root in roots:
        (kernel,) = kernels(root, arch)
        source = amd_comgr.PROLOGUE + render_hip.render(kernel, arch)
        done = run_limited(command, input=source, capture_output=True, text=True, cpu_s=60)
        check(done.returncode == 0, done.stderr[:2000])
        check(re.search(r"s_endpgm", done.stdout), "no kernel")
