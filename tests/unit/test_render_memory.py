"""Memory accesses of the renderers: contiguous, reversed, strided, masked, and never outside."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from compilers import dtype as dt
from compilers.index import Div, Dyn, Index, Var, var
from compilers.index import const as index_const
from compilers.ir import Expr, If, Kernel, Loop, Ref, Store, Valid
from tests.ir_interpreter import Interpreter
from tests.support import check
from tests.unit.kernel_harness import FFI, HOST, RENDERERS, by_all, compile_all, launch, read, run

FFI.cdef(
    "void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);"
    "int mprotect(void *, size_t, int);"
)
LIBC: Any = FFI.dlopen(None)
PAGE = mmap.PAGESIZE
WIDTH = 16
N = 64
EDGE = 21


def constant(value: float, dtype: dt.DType) -> Expr:
    return Expr("const", dtype, (), value)


Case = tuple[str, Kernel, list[np.ndarray]]


def agree(cases: list[Case]) -> None:
    """Every renderer writes what the interpreter writes, in every named case."""
    functions = by_all(lambda renderer: compile_all([kernel for _, kernel, _ in cases], renderer))
    for place, (name, kernel, arrays) in enumerate(cases):
        wanted = [array.copy() for array in arrays]
        Interpreter(kernel, dict(zip(kernel.params, wanted, strict=True))).run()
        for renderer in RENDERERS:
            got = [array.copy() for array in arrays]
            launch(functions[renderer][place], kernel, got)
            for slot, (a, b) in enumerate(zip(got, wanted, strict=True)):
                np.testing.assert_array_equal(a, b, f"{name}, {renderer}, parameter {slot}")


def copy_kernel(
    out_index: Any,
    in_index: Any,
    dtype: dt.DType = dt.float32,
    *,
    load_valid: Any = None,
    store_valid: Any = None,
    size: int = N,
    blocks: int = 1,
) -> Kernel:
    """out[out_index(i, l)] = in[in_index(i, l)] in a vector loop."""
    out, source = Ref("out", dtype, size, "global", 0), Ref("in", dtype, size, "global", 1)
    i, lane = Var("i", blocks), Var("l", WIDTH)
    at = (var(i), var(lane))
    loaded = read(source, in_index(*at), load_valid(*at) if load_valid else ())
    store = Store(out, out_index(*at), loaded, store_valid(*at) if store_valid else ())
    return Kernel("kernel", (out, source), (), Loop(i, "grid", (Loop(lane, "vector", (store,)),)))


def filled(dtype: dt.DType = dt.float32, size: int = N) -> list[np.ndarray]:
    return [np.full(size, 99).astype(dtype.storage), np.arange(1, size + 1).astype(dtype.storage)]


INDICES = {
    "contiguous": lambda i, v: i * WIDTH + v,
    "reversed": lambda i, v: v * -1 + (WIDTH - 1) + i * WIDTH,
    "stride-2": lambda i, v: v * 2 + i,
    "stride-3-back": lambda i, v: v * -3 + 50,
    "quotient": lambda i, v: (v + i) // 3,
    "remainder": lambda i, v: (v * 5 + i) % 7 + v * 0,
    "no-carry": lambda i, v: (i * WIDTH + v) % 32,
    "mixed": lambda i, v: (v % 4) * 4 + v // 4,
    "uniform": lambda i, v: i * 7 + 3,
    "uniform-quotient": lambda i, v: (i * WIDTH + v) // 32,
}


def test_loads_and_stores() -> None:
    straight = INDICES["contiguous"]
    cases = []
    for name, index in INDICES.items():
        cases.append((f"load {name}", copy_kernel(straight, index, blocks=3), filled()))
        cases.append((f"store {name}", copy_kernel(index, straight, blocks=3), filled()))
    agree(cases)


def test_dtypes() -> None:
    def inside(_: Index, v: Index) -> Valid:
        return ((v, 3, 13),)

    cases = []
    for dtype in (dt.bool_, dt.uint8, dt.int16, dt.int64, dt.float64):
        for name in ("contiguous", "reversed", "stride-2"):
            kernel = copy_kernel(INDICES[name], INDICES["mixed"], dtype, load_valid=inside)
            cases.append((f"{name} {dtype.name}", kernel, filled(dtype)))
    agree(cases)


VALIDS: dict[str, Any] = {
    "tail": lambda i, v: ((i * WIDTH + v, 0, 37),),
    "head": lambda i, v: ((i * WIDTH + v, 5, 1000),),
    "window": lambda i, v: ((i * WIDTH + v - 4, 3, 29),),
    "uniform": lambda i, v: ((i, 1, 2),),
    "never": lambda i, v: ((v, 20, 30),),
    "strided": lambda i, v: ((v * 3, 4, 20), (i, 0, 2)),
    "modulo": lambda i, v: (((i * WIDTH + v) % 5, 2, 4),),
    "negative-quotient": lambda i, v: (((v - 9) // 4, -2, 1),),
}


@pytest.mark.parametrize("shape", ["contiguous", "reversed", "stride-2", "uniform"])
def test_predicates(shape: str) -> None:
    straight, index = INDICES["contiguous"], INDICES[shape]
    cases = []
    for name, valid in VALIDS.items():
        loads = copy_kernel(straight, index, load_valid=valid, blocks=3)
        stores = copy_kernel(index, straight, store_valid=valid, blocks=3)
        cases += [(f"load {name}", loads, filled()), (f"store {name}", stores, filled())]
    agree(cases)


@pytest.fixture
def guarded() -> Iterator[Any]:
    """Buffers of given sizes that end where an unreadable page begins, or begin where one ends."""
    maps = []

    def make(nbytes: int, *, at_end: bool) -> np.ndarray:
        base = LIBC.mmap(FFI.NULL, 3 * PAGE, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        maps.append(base)
        address = int(FFI.cast("uintptr_t", base))
        for page in (0, 2):
            check(LIBC.mprotect(FFI.cast("void *", address + page * PAGE), PAGE, 0) == 0)
        start = address + (2 * PAGE - nbytes if at_end else PAGE)
        view: Any = FFI.buffer(FFI.cast("char *", start), nbytes)
        return np.frombuffer(view, np.uint8)

    yield make
    for base in maps:
        LIBC.munmap(base, 3 * PAGE)


def edge_kernel(dtype: dt.DType, kind: str) -> Kernel:
    """out = in, then out = in backwards, by lanes of which some are outside."""
    out, source = (Ref(name, dtype, EDGE, "global", slot) for slot, name in enumerate("ab"))
    i, lane = Var("i", 4), Var("l", WIDTH)
    at = var(i) * WIDTH + var(lane) - WIDTH
    inside: Valid = ((at, 0, EDGE),)
    back = index_const(EDGE - 1) - at
    statements = (
        Store(out, at, read(source, at, inside), inside),
        Store(out, at, read(source, back, inside), inside),
    )
    return Kernel("kernel", (out, source), (), Loop(i, "grid", (Loop(lane, kind, statements),)))


@pytest.mark.parametrize("renderer", RENDERERS)
def test_masked_lanes_touch_no_page(renderer: str, guarded: Any) -> None:
    dtypes = (dt.uint8, dt.float16, dt.float32, dt.float64)
    kernels = [edge_kernel(dtype, kind) for dtype in dtypes for kind in ("vector", "serial")]
    for kernel, function in zip(kernels, compile_all(kernels, renderer), strict=True):
        dtype = kernel.params[0].dtype
        for at_end in (True, False):
            views = [guarded(EDGE * dtype.itemsize, at_end=at_end) for _ in kernel.params]
            views = [view.view(dtype.storage) for view in views]
            views[1][:] = np.arange(EDGE)
            launch(function, kernel, views)
            wanted = np.arange(EDGE)[::-1].astype(dtype.storage)
            np.testing.assert_array_equal(views[0], wanted, f"{dtype} {at_end}")


def test_registers_and_scratch_see_stores_in_order() -> None:
    """A running sum through a register, a scratch array, an If, unrolled and serial loops."""
    out, source = Ref("out", dt.int32, N, "global", 0), Ref("in", dt.int32, N, "global", 1)
    acc, kept = Ref("acc", dt.int32, 2, "register"), Ref("kept", dt.int32, N, "scratch", 64)
    i, j, u, k = Var("i", 1), Var("j", N // 2), Var("u", 2), Var("k", N)
    at = var(j) * 2 + var(u)
    zero = index_const(0)
    here = read(acc, zero)
    step = (
        Store(acc, zero, Expr("add", dt.int32, (here, read(source, at)))),
        Store(kept, at, here),
        If(((at, 10, 20),), (Store(acc, zero, Expr("add", dt.int32, (here, here))),)),
        Store(out, at, here),
    )
    body = (
        Store(acc, zero, constant(0, dt.int32)),
        Loop(j, "serial", (Loop(u, "unroll", step),)),
        Loop(
            k,
            "serial",
            (Store(out, var(k), Expr("sub", dt.int32, (read(out, var(k)), read(kept, var(k))))),),
        ),
    )
    kernel = Kernel("kernel", (out, source), (acc, kept), Loop(i, "grid", body))
    agree([("registers", kernel, filled(dt.int32))])


KINDS = ("vector", "serial", "unroll")


def test_gather_through_a_dynamic_index() -> None:
    out, source = Ref("out", dt.float32, N, "global", 0), Ref("in", dt.float32, N, "global", 1)
    places = Ref("at", dt.int64, N, "global", 2)
    i, lane = Var("i", N // WIDTH), Var("l", WIDTH)
    at = var(i) * WIDTH + var(lane)
    clamped = Expr("max", dt.int64, (read(places, at), constant(0, dt.int64)))
    clamped = Expr("min", dt.int64, (clamped, constant(N - 1, dt.int64)))
    found = Index({Dyn(clamped, 0, N - 1): 1}, 0)
    store = Store(out, at, read(source, found))
    order = np.random.default_rng(5).integers(-5, N + 5, N)
    cases = []
    for kind in KINDS:
        body = Loop(i, "grid", (Loop(lane, kind, (store,)),))
        cases.append((kind, Kernel("kernel", (out, source, places), (), body), [*filled(), order]))
    agree(cases)


def test_negative_quotients_round_down() -> None:
    out = Ref("out", dt.int64, N, "global", 0)
    i, lane = Var("i", N // WIDTH), Var("l", WIDTH)
    at = var(i) * WIDTH + var(lane)
    low = at * 3 - 100
    store = Store(out, at, Expr("index", dt.int64, (), low // 7 + (low % 5) * 1000))
    cases = []
    for kind in KINDS:
        body = Loop(i, "grid", (Loop(lane, kind, (store,)),))
        cases.append((kind, Kernel("kernel", (out,), (), body), [np.zeros(N, np.int64)]))
    agree(cases)


def test_indices_beyond_32_bits() -> None:
    out = Ref("out", dt.int64, WIDTH, "global", 0)
    i, lane = Var("i", 1), Var("l", WIDTH)
    wide = var(lane) * (3 << 33) + 5
    value = Expr("index", dt.int64, (), Index({Div(wide, 3, 0, 1 << 40): 1}, 0))
    valid: Valid = ((wide, 1 << 34, 1 << 36),)
    kernel = Kernel(
        "kernel",
        (out,),
        (),
        Loop(i, "grid", (Loop(lane, "vector", (Store(out, var(lane), value, valid),)),)),
    )
    agree([("wide", kernel, [np.zeros(WIDTH, np.int64)])])


@pytest.mark.parametrize("renderer", RENDERERS)
def test_streaming_stores(renderer: str) -> None:
    kernel = copy_kernel(INDICES["contiguous"], INDICES["reversed"], blocks=4)
    loop: Any = kernel.body.body[0]
    store: Any = loop.body[0]
    streaming = Store(store.ref, store.index, store.value, streaming=True)
    kernel = Kernel(
        "kernel",
        kernel.params,
        (),
        Loop(kernel.body.var, "grid", (Loop(loop.var, "vector", (streaming,)),)),
    )
    memory = np.zeros(4 * N + 64, np.uint8)
    start = -memory.ctypes.data % 64
    out = memory[start : start + 4 * N].view(np.float32)
    source = filled()[1]
    run(kernel, [out, source], renderer)
    np.testing.assert_array_equal(out, source.reshape(4, WIDTH)[:, ::-1].ravel())
    text = RENDERERS[renderer].render(kernel, HOST)
    check("nontemporal" in text, text)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_text_is_deterministic(renderer: str) -> None:
    texts = {
        RENDERERS[renderer].render(
            copy_kernel(
                INDICES["mixed"], INDICES["quotient"], load_valid=VALIDS["modulo"], blocks=3
            ),
            HOST,
        )
        for _ in range(3)
    }
    check(len(texts) == 1, "equal kernels give equal texts")


@pytest.mark.parametrize("renderer", RENDERERS)
def test_mistakes_are_named(renderer: str) -> None:
    stray = copy_kernel(INDICES["contiguous"], lambda i, v: var(Var("nowhere", 5)))
    with pytest.raises(ValueError, match="nowhere"):
        RENDERERS[renderer].render(stray, HOST)
    out = Ref("out", dt.int32, 1, "global", 0)
    i = Var("i", 1)
    one = constant(1, dt.int32)
    bad = Store(out, index_const(0), Expr("div", dt.int32, (one, one)))
    with pytest.raises(TypeError, match="'div' for int32"):
        RENDERERS[renderer].render(Kernel("kernel", (out,), (), Loop(i, "grid", (bad,))), HOST)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("step", [2, -2])
def test_every_other_element_touches_no_page(step: int, renderer: str, guarded: Any) -> None:
    n = 2 * WIDTH - 1
    out = np.zeros(WIDTH, np.float32)
    for at_end in (True, False):
        source = guarded(4 * n, at_end=at_end).view(np.float32)
        source[:] = np.arange(n)
        refs = (Ref("out", dt.float32, WIDTH, "global", 0), Ref("in", dt.float32, n, "global", 1))
        i, lane = Var("i", 1), Var("l", WIDTH)
        place = var(lane) * step + (0 if step > 0 else n - 1)
        store = Store(refs[0], var(lane), read(refs[1], place))
        kernel = Kernel("kernel", refs, (), Loop(i, "grid", (Loop(lane, "vector", (store,)),)))
        run(kernel, [out, source], renderer)
        np.testing.assert_array_equal(out, source[::step])
