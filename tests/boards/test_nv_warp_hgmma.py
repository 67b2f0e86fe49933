"""Hopper's HGMMA and IGMMA in a kernel of inline PTX (wgmma) against numpy, exactly.

Layouts of shared memory are written here from the PTX ISA, "Shared Memory Matrix Layout" and
"Matrix Descriptor Format" of wgmma. Numbers are small and whole, so that every sum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from boards.nv.launch import SmException
from boards.nv.warp.memory import OUT_OF_RANGE
from queues.nv.kernel_code import NvCode
from tests.boards.nv_warp_harness import compiled, run
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
THREADS, ROWS, CHUNK = 128, 64, 16
_RNG = np.random.default_rng(90)


@dataclass(frozen=True)
class Form:
    """One form of the instruction."""

    kind: str = "f16"
    total: str = "f32"
    columns: int = 8
    a_across: bool = False
    b_across: bool = False
    swizzle: int = 1
    """Chunks of 16 bytes that are mixed: 1 for none, 2, 4 or 8."""
    registers: bool = False
    """Whether A is in registers."""
    negated: tuple[int, int] = (1, 1)
    adds: bool = True

    @property
    def nbytes(self) -> int:
        return {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1}[self.kind]

    @property
    def depth(self) -> int:
        return 32 // self.nbytes

    @property
    def sums(self) -> int:
        return self.columns // (4 if self.total == "f16" else 2)


DEPBAR = 1 << 47 | 0x9C5
NOP = 0x7918, 0x000FC00000000000
Kernel = tuple[bytes, NvCode, dict[int, bytes]]


def source(form: Form) -> str:
    """A and B as bytes that go to shared memory unchanged; sums from o and to it."""
    count, operand = form.sums, "+f" if form.total == "f32" else "+r"
    kind = {"f32": "float", "s32": "int", "f16": "unsigned"}[form.total]
    sums = ", ".join(f"%{n}" for n in range(count))
    a = f"%{count}" if not form.registers else "{" + ", ".join(
        f"%{n}" for n in (count, *range(count + 3, count + 6))) + "}"  # fmt: skip
    signs = "" if form.total == "s32" else f", {form.negated[0]}, {form.negated[1]}"
    turned = ""
    if form.nbytes == 2:
        turned = f", {int(form.b_across)}"
        turned = turned if form.registers else f", {int(form.a_across)}{turned}"
    shape = f"m64n{form.columns}k{form.depth}.{form.total}.{form.kind}.{form.kind}"
    first = '"r"(x[0])' if form.registers else '"l"(da)'
    more = ', "r"(x[1]), "r"(x[2]), "r"(x[3])' if form.registers else ""
    outs = ", ".join(f'"{operand}"(c[{n}])' for n in range(count))
    return f"""
typedef unsigned long long u64; typedef unsigned u32;
extern "C" __global__ void __launch_bounds__({THREADS}) f(
    {kind} *o, const u32 *a, const u32 *b, const u64 *d, const u32 *r, int na, int nb, int adds) {{
  __shared__ __align__(1024) u32 sa[4096], sb[8192]; int t = threadIdx.x;
  for (int i = t; i < na; i += {THREADS}) sa[i] = a[i];
  for (int i = t; i < nb; i += {THREADS}) sb[i] = b[i];
  {kind} c[{count}]; for (int i = 0; i < {count}; i++) c[i] = o[t * {count} + i];
  u32 x[4]; for (int i = 0; i < 4; i++) x[i] = r[t * 4 + i];
  u64 da = d[0] + (((u64)(u32)__cvta_generic_to_shared(sa)) >> 4);
  u64 db = d[1] + (((u64)(u32)__cvta_generic_to_shared(sb)) >> 4);
  asm volatile("fence.proxy.async;"); __syncthreads();
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; "
    "wgmma.mma_async.sync.aligned.{shape} {{{sums}}}, {a}, %{count + 1}, p{signs}{turned}; }}"
    : {outs} : {first}, "l"(db), "r"(adds){more});
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < {count}; i++) o[t * {count} + i] = c[i]; }}"""


def _bits(values: Any, kind: str) -> Any:
    """Whole numbers as elements."""
    if kind == "bf16":
        return (values.astype("f4").view("u4") >> 16).astype("u2")
    dtype = {"f16": "f2", "tf32": "f4", "s8": "i1", "u8": "u1"}[kind]
    return values.astype(dtype).view(f"u{np.dtype(dtype).itemsize}")


def laid_out(values: Any, form: Form, *, across: bool) -> tuple[Any, int]:
    """(32-bit words of shared memory, descriptor without its address) of a matrix, K second."""
    bits, nbytes, width = _bits(values, form.kind), form.nbytes, form.swizzle
    each, (rows, depth) = CHUNK // nbytes, values.shape
    long, short = (rows, depth) if across else (depth, rows)
    chunks, lines = long // each, short // 8
    tile = 8 * CHUNK * width
    if width == 1:
        near, far = (128, 128 * chunks) if not across else (128 * lines, 128)
        leading, stride = (near, far) if not across else (far, near)
    else:
        leading, stride = tile * lines, tile
    out = np.zeros(8192 * 4, np.uint8)
    raw = out.view(f"u{nbytes}")
    for row in range(rows):
        for k in range(depth):
            x, y = (row, k) if across else (k, row)
            chunk, line = x // each, y // 8
            if width == 1:
                at = chunk * near + line * far + y % 8 * CHUNK
            else:
                at = chunk // width * leading + line * stride + y % 8 * CHUNK * width
                at += (chunk % width ^ (y % 8 * width // 8)) * CHUNK
            raw[(at + x % each * nbytes) // nbytes] = bits[row, k]
    mode = {1: 0, 8: 1, 4: 2, 2: 3}[width]
    return out.view("u4"), leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def _fragment(values: Any, form: Form) -> Any:
    """A as registers of 128 threads. # src: PTX ISA, "Register Fragments": fragment A of m64k16"""
    bits, per = _bits(values, form.kind), 4 // form.nbytes
    out = np.zeros((THREADS, 4), np.uint32)
    for thread in range(THREADS):
        warp, lane = divmod(thread, 32)
        for place in range(4):
            row = 16 * warp + lane // 4 + 8 * (place % 2)
            k = (lane % 4 + 4 * (place // 2)) * per
            word = np.ascontiguousarray(bits[row, k : k + per]).view("u4")
            out[thread, place] = word[0]
    return out.ravel()


def _places(form: Form) -> tuple[Any, Any]:
    """Row and column of element i of a thread. # src: PTX ISA: fragment D of m64nNk16"""
    thread, i = np.arange(THREADS)[:, None], np.arange(form.columns // 2)
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
    return row, 8 * (i // 4) + thread % 4 * 2 + i % 2


def _whole(rows: int, form: Form) -> Any:
    return _RNG.integers(0 if form.kind == "u8" else -5, 6, (rows, form.depth))


def computed(
    form: Form, kernel: Kernel, a: Any, b: Any, c: Any
) -> tuple[Any, list[tuple[str, str]]]:
    """(64 x N, violations) that the board computes."""
    sa, da = laid_out(a, form, across=form.a_across)
    sb, db = laid_out(b, form, across=form.b_across)
    row, column = _places(form)
    dtype = {"f32": "f4", "s32": "i4", "f16": "f2"}[form.total]
    sums = np.ascontiguousarray(c[row, column].astype(dtype)).ravel()
    args = (sums.view("u4"), sa[:4096], sb, np.array([da, db], "u8"), _fragment(a, form), 4096,
            8192, int(form.adds))  # fmt: skip
    buffers, found = run(kernel, args, (1, 1, 1), (THREADS, 1, 1))
    got = np.zeros((ROWS, form.columns), dtype)
    got[row, column] = buffers[0].view(dtype).reshape(THREADS, -1)
    return got, found


FORMS = {
    "f16": Form(), "f16 n64": Form(columns=64), "f16 n256": Form(columns=256),
    "bf16": Form(kind="bf16", columns=16), "tf32": Form(kind="tf32", columns=24),
    "s8": Form(kind="s8", total="s32", columns=32), "u8": Form(kind="u8", total="s32", columns=48),
    "s8 n128": Form(kind="s8", total="s32", columns=128),
    "f16 sums": Form(total="f16", columns=16),
    "A along M": Form(a_across=True), "B along N": Form(b_across=True, columns=32),
    "both": Form(a_across=True, b_across=True, columns=64),
    "swizzle of 32": Form(swizzle=2), "A in registers": Form(registers=True, columns=16),
    "s8 in registers": Form(kind="s8", total="s32", registers=True),
    "swizzle of 128, along": Form(swizzle=8, a_across=True, b_across=True, columns=64),
    "swizzle of 64, along": Form(swizzle=4, a_across=True, b_across=True, columns=32),
    "minus A": Form(negated=(-1, 1)), "minus B": Form(negated=(1, -1)),
    "without sums": Form(adds=False),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_product_is_numpys(name: str) -> None:
    form = FORMS[name]
    a, b = _whole(ROWS, form), _whole(form.columns, form)
    c = _RNG.integers(-50, 50, (ROWS, form.columns))
    got, found = computed(form, compiled(source(form), "sm_90a"), a, b, c)
    check(not found, str(found[:3]))
    sign = form.negated[0] * form.negated[1]
    np.testing.assert_array_equal(got, sign * (a @ b.T) + (c if form.adds else 0))


def test_sums_that_are_read_before_the_wait_are_reported() -> None:
    form = Form()
    code, record, banks = compiled(source(form), "sm_90a")
    waits = np.frombuffer(code, "u8").reshape(-1, 2).copy()
    waits[waits[:, 0] & DEPBAR == DEPBAR] = NOP
    a, b = _whole(ROWS, form), _whole(8, form)
    _, found = computed(form, (waits.tobytes(), record, banks), a, b, np.zeros((ROWS, 8)))
    kinds = {kind for kind, _ in found}
    check("result that no scoreboard was waited for" in kinds, str(kinds))


def test_a_matrix_beyond_shared_memory_stops_the_code() -> None:
    form = replace(Form(), columns=256)
    text = source(form).replace("d[1] +", "d[1] + 0x2000 +")
    with pytest.raises(SmException, match="beyond shared memory") as caught:
        computed(
            form,
            compiled(text, "sm_90a"),
            _whole(ROWS, form),
            _whole(256, form),
            np.zeros((ROWS, 256)),
        )
    check(caught.value.warp_esr == OUT_OF_RANGE, hex(caught.value.warp_esr))
