"""Matrix forms: what lanes hold, and products by a form whose lanes hold scattered elements."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers import index as ix
from compilers.amd.matrix_forms import INSTRUCTIONS
from compilers.gpu_target import GpuTarget
from compilers.graph import Node
from compilers.index import Index
from compilers.ir import Barrier, Loop, Matrix, Store
from compilers.matrix_form import Digit, Fragment, MatrixForm, TileForm
from compilers.nv.matrix_forms import INSTRUCTIONS as NV_INSTRUCTIONS
from tests.compilers.lowering import matmul
from tests.compilers.made_up_gpus import GPUS, Array, StrictInterpreter, interpret, planned
from tests.ir_interpreter import Env
from tests.support import check

# src: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type": groupID is lane / 4
M16N8K16 = MatrixForm(
    name="mma.m16n8k16.float16",
    dtype=dt.float16,
    rows=16,
    columns=8,
    depth=16,
    lanes=32,
    a=Fragment(
        count=8,
        line=(Digit("lane", 4, 8, 1), Digit("element", 2, 2, 8)),
        along=(Digit("lane", 1, 4, 2), Digit("element", 1, 2, 1), Digit("element", 4, 2, 8)),
    ),
    b=Fragment(
        count=4,
        line=(Digit("lane", 4, 8, 1),),
        along=(Digit("lane", 1, 4, 2), Digit("element", 1, 2, 1), Digit("element", 2, 2, 8)),
    ),
    sums=Fragment(
        count=4,
        line=(Digit("lane", 4, 8, 1), Digit("element", 2, 2, 8)),
        along=(Digit("lane", 1, 4, 2), Digit("element", 1, 2, 1)),
    ),
)
NVIDIA = replace(GPUS["nvidia"], matrix_forms=(M16N8K16,))


def of_a(lane: int, i: int) -> tuple[int, int]:
    """Row and column of a_i, as the document has it."""
    group, thread = lane >> 2, lane % 4
    row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
    return row, thread * 2 + (i & 1) + (0 if i < 4 else 8)


def of_b(lane: int, i: int) -> tuple[int, int]:
    """Row (of K) and column of b_i."""
    return (lane % 4) * 2 + (i & 1) + (0 if i < 2 else 8), lane >> 2


def of_c(lane: int, i: int) -> tuple[int, int]:
    """Row and column of c_i."""
    return (lane >> 2) + (0 if i < 2 else 8), (lane % 4) * 2 + (i & 1)


class Mma(StrictInterpreter):
    """Executes mma.m16n8k16 from the document's three formulas; the form is not asked."""

    steps = 0

    def _matrix(self, step: Matrix, env: Env) -> None:
        if step.form is not M16N8K16:
            super()._matrix(step, env)
        check(bool(self.on.all()), "all lanes multiply together")
        a_from, b_from = (self._checked(at, env) for at in (step.a_index, step.b_index))
        a_of, b_of, acc = (self.memory[ref] for ref in (step.a, step.b, step.acc))
        for first in range(0, self.lanes.size, 32):
            a, b = np.zeros((16, 16)), np.zeros((16, 8))
            for lane in range(32):
                here = first + lane
                for i in range(8):
                    a[of_a(lane, i)] = a_of[here, a_from[here] + i]
                for i in range(4):
                    b[of_b(lane, i)] = b_of[here, b_from[here] + i]
            product = a @ b
            for lane in range(32):
                for i in range(4):
                    acc[first + lane, step.slot + i] += product[of_c(lane, i)]
        Mma.steps += 1


def halves(x: Array) -> Node:
    return graph.cast(graph.buffer(x, dt.float16, x.shape), dt.float32)


def whole(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float16)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (70, 33, 41), (130, 128, 32)])
def test_products_by_scattered_elements(m: int, n: int, k: int, transposed: bool) -> None:
    a, b = whole(m, k), whole(n, k) if transposed else whole(k, n)
    right = graph.permute(halves(b), (1, 0)) if transposed else halves(b)
    before = Mma.steps
    found = interpret(matmul(halves(a), right), NVIDIA, Mma)
    want = a.astype(np.float32) @ (b.T if transposed else b).astype(np.float32)
    np.testing.assert_array_equal(found, want)
    check(Mma.steps > before, "the matrix unit was used")


def test_tiles_that_do_not_fit_are_smaller() -> None:
    """128 x 128 takes 18 KiB; a GPU with 16 has 64 x 64."""
    root = matmul(halves(whole(512, 64)), halves(whole(64, 512)))
    for shared_kib, side in ((48, 128), (16, 64)):
        gpu = replace(NVIDIA, shared_bytes=shared_kib << 10)
        (step,) = planned(root, gpu)[0].steps
        check(step.kernel.grid == (512 // side) ** 2, f"{shared_kib} KiB: {step.kernel.grid}")


def test_a_form_of_another_wave_is_not_used() -> None:
    root = matmul(halves(whole(64, 64)), halves(whole(64, 64)))
    gpu = GpuTarget(
        max_block=1024, shared_bytes=48 << 10, wave_lanes=64, swaps=True, matrix_forms=(M16N8K16,)
    )
    (step,) = planned(root, gpu)[0].steps
    check(not any(isinstance(stmt, Matrix) for stmt in _all(step.kernel.body)), "a wave of 64")


def _all(stmt: object) -> list[object]:
    if isinstance(stmt, Store | Barrier | Matrix):
        return [stmt]
    inner = stmt.body if isinstance(stmt, Loop) else getattr(stmt, "body", ())
    return [stmt, *(found for child in inner for found in _all(child))]


NV_FORMS = [form for made in NV_INSTRUCTIONS.values() if isinstance(form := made.form, MatrixForm)]
TILE_FORMS = [form for made in NV_INSTRUCTIONS.values() if isinstance(form := made.form, TileForm)]
FORMS = [M16N8K16, *(made.form for made in INSTRUCTIONS.values()), *NV_FORMS]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_forms_hold_every_element(form: MatrixForm) -> None:
    """Every element of A, B and the sum is in as many lanes as every other one."""
    for fragment, lines, along in (
        (form.a, form.rows, form.depth),
        (form.b, form.columns, form.depth),
        (form.sums, form.rows, form.columns),
    ):
        held = Counter(
            (_number(line), _number(at))
            for lane in range(form.lanes)
            for i in range(fragment.count)
            for line, at in [fragment.place(ix.const(lane), ix.const(i))]
        )
        check(set(held) == {(x, y) for x in range(lines) for y in range(along)}, "which")
        check(len(set(held.values())) == 1, "how often")
    check(form.copies == (2 if form.name.startswith("wmma11") else 1), "RDNA3 has A twice")


def _number(index: Index) -> int:
    check(index.low == index.high, f"{index}")
    return index.low


# src: PTX ISA, "Matrix Fragments for mma.m16n8k32" of .s8: a_i and b_i
def byte_of_a(lane: int, i: int) -> tuple[int, int]:
    row = lane >> 2 if 0 <= i < 4 or 8 <= i < 12 else (lane >> 2) + 8
    return row, (lane % 4) * 4 + (i & 3) + (0 if i < 8 else 16)


def byte_of_b(lane: int, i: int) -> tuple[int, int]:
    return (lane % 4) * 4 + (i & 3) + (0 if i < 4 else 16), lane >> 2


# src: PTX ISA, "Matrix Fragments for mma.m16n8k8" of .tf32: a_i and b_i
def word_of_a(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i in (1, 3) else 0), lane % 4 + (0 if i in (0, 1) else 4)


def word_of_b(lane: int, i: int) -> tuple[int, int]:
    return lane % 4 + (0 if i == 0 else 4), lane >> 2


DOCUMENT = {1: (byte_of_a, byte_of_b), 2: (of_a, of_b), 4: (word_of_a, word_of_b)}
"""By the bytes of an element."""


@pytest.mark.parametrize("form", NV_FORMS, ids=lambda form: form.name)
def test_nvidias_forms_are_the_documents(form: MatrixForm) -> None:
    """Element by element; m16n8k8 of halves is the first half of m16n8k16's."""
    a, b = DOCUMENT[form.dtype.itemsize]
    for fragment, document in ((form.a, a), (form.b, b), (form.sums, of_c)):
        for lane in range(form.lanes):
            for i in range(fragment.count):
                place = tuple(map(_number, fragment.place(ix.const(lane), ix.const(i))))
                want = document(lane, i)[:: -1 if document is b else 1]
                check(place == want, f"lane {lane}, element {i}: {place}")


@pytest.mark.parametrize("form", TILE_FORMS, ids=lambda form: form.name)
def test_sums_of_warpgroups_are_the_documents(form: TileForm) -> None:
    """# src: PTX ISA, wgmma, "Register Fragments": D of m64nNk16, and of m64nNk32 the same"""
    held = set()
    for lane in range(form.lanes):
        for i in range(form.sums.count):
            place = tuple(map(_number, form.sums.place(ix.const(lane), ix.const(i))))
            row = 16 * (lane // 32) + lane % 32 // 4 + 8 * (i // 2 % 2)
            check(place == (row, lane % 4 * 2 + i // 4 * 8 + i % 2), f"lane {lane}, {i}: {place}")
            held.add(place)
    check(len(held) == form.rows * form.columns, "each once")


GATHERED = [form for form in NV_FORMS if form.gathered]


@pytest.mark.parametrize("form", GATHERED, ids=lambda form: form.name)
def test_what_lanes_gather_are_the_forms_registers(form: MatrixForm) -> None:
    """# src: PTX ISA, ldmatrix: lane l gets 4 bytes from byte 4 * (l % 4) of row l / 4 on."""
    word = 4 // form.dtype.itemsize
    for fragment, places in ((form.a, ((0, 0), (8, 0), (0, 1), (8, 1))),
                             (form.b, ((0, 0), (0, 1)))):  # fmt: skip
        for lane in range(form.lanes):
            for i in range(fragment.count):
                down, pieces = places[i // word]
                want = (down + lane // 4, pieces * 4 * word + lane % 4 * word + i % word)
                place = tuple(map(_number, fragment.place(ix.const(lane), ix.const(i))))
                check(place == want, f"lane {lane}, element {i}: {place}")


def test_runs_of_neighbours() -> None:
    check((M16N8K16.a.run, M16N8K16.b.run, M16N8K16.a.whole) == (2, 2, False), "pairs")
    for made in INSTRUCTIONS.values():
        check(made.form.a.whole and made.form.b.whole, "AMD's are one load")
