"""The tensor layer on software GPUs computes what numpy does, and the boards find nothing wrong.

This is a selection that fits into every run. All of the tensor layer's own tests run on one with

    python -m pytest tests/array_api tests/unit/test_tensor_*.py tests/unit/test_jit*.py \\
        tests/unit/test_examples.py --board gfx1100 [--aql | --pm4] [--hip]

where a test also fails when the board found something. Tolerances: tensor_programs.TOLERANCES.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

import tensor as xp
from boards.amd.kfd.world import BoardWorld
from compilers import toolchains
from compilers.amd.disasm import instructions
from compilers.plan import schedule
from compilers.plan.signature import rebuild, signature
from tensor import engine
from tests.amd_toolbox import needs_comgr, needs_libllvm
from tests.board_option import board_as
from tests.boards.tensor_programs import PROGRAMS, whole
from tests.share import part
from tests.support import check, patience

DEVICE = "AMD:7"
"""A name that no --board takes."""
FULL = ("gfx1100", "PM4", "LLVM")
OTHERS = [
    ("gfx1100", "AQL", "LLVM"),
    ("gfx1201", "PM4", "LLVM"),
    ("gfx1201", "AQL", "LLVM"),
    ("gfx942", "PM4", "LLVM"),
    ("gfx942", "AQL", "LLVM"),
    ("gfx1030", "PM4", "LLVM"),
    ("gfx1030", "AQL", "LLVM"),
    ("gfx1151", "PM4", "LLVM"),
    ("gfx1151", "AQL", "LLVM"),
    ("gfx90a", "PM4", "LLVM"),
    ("gfx90a", "AQL", "LLVM"),
    pytest.param(("gfx1030", "PM4", "HIP"), marks=needs_comgr),
    ("gfx1100", "PM4", "LLVM", "PCI"),
    ("gfx1201", "AQL", "LLVM", "PCI", "vram"),
    ("gfx942", "AQL", "LLVM", "PCI"),
    ("gfx1100", "PM4", "LLVM", "USB"),
    ("gfx1201", "PM4", "LLVM", "USB"),
]
put = partial(xp.asarray, device=DEVICE)


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest) -> Iterator[BoardWorld]:
    with board_as(DEVICE, *request.param) as board:
        yield board


@pytest.fixture
def board(opened: BoardWorld) -> Iterator[BoardWorld]:
    """The board; a test fails for what it found."""
    yield opened
    found = [str(violation) for violation in opened.violations]
    opened.hardware.forget_violations()
    check(not found, f"the board found {found}")


everywhere = pytest.mark.parametrize("opened", [FULL, *OTHERS], indirect=True, ids=str)
on_one = pytest.mark.parametrize("opened", [FULL], indirect=True, ids=str)
on_others = pytest.mark.parametrize("opened", OTHERS, indirect=True, ids=str)


@on_one
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(board: BoardWorld, name: str) -> None:
    for case in PROGRAMS[name](put):
        case.judge()


@on_others
def test_some_of_each_program(board: BoardWorld, request: pytest.FixtureRequest) -> None:
    """Every fifth case, others on each board; together they are all of them, about twice.

    Some 4 s of CPU each, on 17 boards: all of the compiler meets all of a chip's instructions here.
    `make test` takes a third of the cases.
    """
    stride = part(5, 15)
    first = request.node.callspec.indices["opened"]
    for program in PROGRAMS.values():
        for number, case in enumerate(program(put)):
            if number % stride == first % stride:
                case.judge()


@everywhere
def test_captured_functions_and_random_numbers(board: BoardWorld) -> None:
    """Graphs are replayed with other arguments; random bits are those of every device."""
    a, b = whole(1, "float32", 20, 33), whole(2, "float32", 33, 8)

    @xp.jit
    def layer(x: xp.Tensor, w: xp.Tensor) -> tuple[xp.Tensor, xp.Tensor]:
        y = (x @ w).realize()
        return xp.nn.relu(y) + 1, xp.sum(y, axis=0)

    for scale in range(1, 5):
        first, second = layer(put(a * scale), put(b))
        np.testing.assert_array_equal(first.numpy(), np.maximum(a @ b * scale, 0) + 1)
        np.testing.assert_array_equal(second.numpy(), (a @ b * scale).sum(0))
    keys = xp.random.key(5, device=DEVICE), xp.random.key(5, device="CPU")
    here, there = (xp.random.bits(key, (100,)).numpy() for key in keys)
    np.testing.assert_array_equal(here, there)
    here, there = (xp.random.permutation(key, 60).numpy() for key in keys)
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(np.sort(here), np.arange(60))


@everywhere
def test_two_sums_in_one_kernel(board: BoardWorld) -> None:
    """The second uses the first, both through shared memory: LLVM 15 once mixed them up."""
    values = whole(7, "float64", 3, 4, 5)
    found = xp.var(put(values), axis=0).numpy()
    np.testing.assert_allclose(found, values.var(0), rtol=1e-12, atol=1e-14)


@on_one
def test_threads_compile_and_read_at_the_same_time(board: BoardWorld) -> None:
    """Code and results go through one staging memory, small results lie beside each other."""
    base = whole(6, "float32", 500)
    x, wrong = put(base), list[object]()

    def work(thread: int) -> None:
        try:
            for k in range(4):
                got = float(xp.sum(x * float(k) + float(thread)))
                wrong.extend([(thread, k, got)] if got != (base * k + thread).sum() else [])
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=patience(60))
    np.testing.assert_equal(wrong, [])


@on_one
def test_a_card_does_not_share_memory_with_numpy(board: BoardWorld) -> None:
    given = np.arange(4.0)
    with pytest.raises(ValueError, match="copy"):
        put(given, copy=False)
    x = put(given)
    given[0] = 9.0
    np.testing.assert_array_equal(x.numpy(), [0, 1, 2, 3])
    check(not x.numpy().flags.writeable, "a tensor is a value")


MATRIX = {
    "gfx1100": "v_wmma_f32_16x16x16",
    "gfx1201": "v_wmma_f32_16x16x16",
    "gfx942": "v_mfma_f32",
}
"""The instructions that multiply matrices. # src: the vendor's ISA documents, by chip"""
KINDS = {"float16": "_f16", "bfloat16": "_bf16"}


@needs_libllvm
@pytest.mark.parametrize("opened", [(chip, "", "LLVM") for chip in MATRIX], indirect=True, ids=str)
@pytest.mark.parametrize("dtype", KINDS)
def test_small_floats_are_multiplied_by_matrix_instructions(
    board: BoardWorld, dtype: str, request: pytest.FixtureRequest
) -> None:
    chip = request.node.callspec.params["opened"][0]
    a, b = whole(3, "float32", 64, 96), whole(4, "float32", 96, 80)
    product = xp.astype(
        put(a, dtype=getattr(xp, dtype)) @ put(b, dtype=getattr(xp, dtype)), xp.float32
    )
    run = engine.runtime(DEVICE)
    key, _ = signature([product._node])
    steps = schedule.plan(rebuild(key).roots, run.target).steps
    names: set[str] = set()
    for step in steps:
        binary = toolchains.build(step.kernel, run.compiler, chip, frozenset())
        names |= {line.text.split()[0] for line in instructions(binary)}
    used = [name for name in names if name.startswith(MATRIX[chip]) and KINDS[dtype] in name]
    check(bool(used), f"{chip} multiplies {dtype} with {sorted(names)}")
    want = xp.astype(xp.asarray(a @ b, device="CPU"), getattr(xp, dtype))
    np.testing.assert_array_equal(
        product.numpy(), xp.astype(want, xp.float32).numpy(), "whole numbers, rounded once"
    )
