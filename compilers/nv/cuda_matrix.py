"""CUDA C functions of one line for what only PTX can say: matrix units, and copies under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from compilers.ir import COPIED_BYTES, Pending, TileOperand
from compilers.matrix_form import MatrixForm
from compilers.nv.cuda_text import INLINE
from compilers.nv.matrix_forms import MatrixInstruction
from compilers.render.c_ops import scalar_type

SHARED: Final = '"r"((u32)__cvta_generic_to_shared({}))'
GLOBAL: Final = '"l"(__cvta_generic_to_global({}))'
CORE_BYTES: Final = 128
"""8 rows of 16 bytes. # src: PTX ISA, wgmma "Strides": a core matrix"""
GATHER: Final = (
    f"{INLINE} void gather(u32 *r, const void *row) {{ "
    'asm volatile("ldmatrix.sync.aligned.m8n8.x4{turned}.shared.b16 {{%0, %1, %2, %3}}, [%4];" : '
    '"=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : ' + SHARED.format("row") + ' : "memory"); }'
)
GATHERED: Final = f"""\
template <class T> {INLINE} void {{name}}d(T *to, const void *row) {{{{
  u32 r[4];
  {{name}}(r, row);
  _Pragma("unroll") for (int i = 0; i < 4; i++) stored<4>(to + i * 4 / (int)sizeof(T), r[i]);
}}}}"""
# src: PTX ISA, "cp.async": bytes past the size of the source are zeros
COPY: Final = (
    f"{INLINE} void copy(void *to, const void *from) {{ "
    f'asm volatile("cp.async.cg.shared.global [%0], [%1], {COPIED_BYTES};" : : '
    f'{SHARED.format("to")}, {GLOBAL.format("from")} : "memory"); }}'
)
COPY_IF: Final = (
    f"{INLINE} void copy_if(void *to, const void *from, u32 n) {{ "
    f'asm volatile("cp.async.cg.shared.global [%0], [%1], {COPIED_BYTES}, %2;" : : '
    f'{SHARED.format("to")}, {GLOBAL.format("from")}, "r"(n) : "memory"); }}'
)
# src: PTX ISA, "Matrix Descriptor Format" of wgmma: bits 13-0 the address, 29-16 the leading,
# 45-32 the stride offset, each without its low 4 bits; 63-62 zero: no swizzle
ADDRESS_MASK: Final = 0x3FFFF
TILE: Final = (
    f"{INLINE} u64 tile(const void *at, u64 strides) {{ return "
    f"(u64)(((u32)__cvta_generic_to_shared(at) & {ADDRESS_MASK:#x}u) >> 4) | strides; }}"
)
# src: PTX ISA: "cp.async.commit_group", "cp.async.wait_group", "membar/fence" .proxy.async,
# "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"
PENDING: Final = {
    ("copies", "close"): "cp.async.commit_group;",
    ("copies", "wait"): "cp.async.wait_group {newest};",
    ("copies", "show"): "fence.proxy.async.shared::cta;",
    ("products", "open"): "wgmma.fence.sync.aligned;",
    ("products", "close"): "wgmma.commit_group.sync.aligned;",
    ("products", "wait"): "wgmma.wait_group.sync.aligned {newest};",
}


def pending(step: Pending) -> tuple[str, str]:
    """(name, function) of a step."""
    name = f"{step.of}_{step.step}{step.newest or ''}"
    text = PENDING[step.of, step.step].format(newest=step.newest)
    return name, f'{INLINE} void {name}() {{ asm volatile("{text}" : : : "memory"); }}'


def gather(*, turned: bool) -> tuple[str, list[str]]:
    """(name, functions) of a gather to elements of any type."""
    name = "gather_turned" if turned else "gather"
    text = GATHER.replace("gather(", f"{name}(").replace("{turned}", ".trans" if turned else "")
    text = text.replace("{{", "{").replace("}}", "}")
    return f"{name}d", [text, GATHERED.format(name=name)]


def product(made: MatrixInstruction) -> str:
    """The function that is a form's instruction."""
    form = made.form
    if not isinstance(form, MatrixForm):
        raise TypeError(f"{form.name} is a form of tiles")
    sums, per_word = form.sums.count, made.per_word
    words, a = (form.a.count + form.b.count) // per_word, form.a.count // per_word
    params = ", ".join(f"u32 x{i}" for i in range(words))
    left, right = (_group(sums + i for i in part) for part in (range(a), range(a, words)))
    totals = _group(range(sums))
    text = f"{made.name} {totals}, {left}, {right}, {totals};"
    outs = _sums(made, sums)
    ins = ", ".join(f'"r"(x{i})' for i in range(words))
    head = f"{INLINE} void {made.helper}({sums_type(made)} *c, {params})"
    return f'{head} {{ asm("{text}" : {outs} : {ins}); }}'


# src: PTX ISA, "cvt": .rna.tf32.f32 rounds to the nearest, ties away from zero
ROUNDED: Final = (
    f"{INLINE} void narrowed(u32 &r, u32 x) {{ "
    'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(bits<f32>(x))); }\n'
    f"{INLINE} u32 rounded(u32 x) {{ u32 r; narrowed(r, x); return r; }}"
)


def tile_product(made: MatrixInstruction, *, a_across: bool, b_across: bool) -> tuple[str, str]:
    """(name, function) of a form of tiles."""
    sums = made.form.sums.count
    name = f"{made.helper}_{int(a_across)}{int(b_across)}"
    text = tile_text(made, a_across=a_across, b_across=b_across)
    outs = _sums(made, sums)
    ins = '"l"(a), "l"(b)'
    head = f"{INLINE} void {name}({sums_type(made)} *c, u64 a, u64 b)"
    return name, f'{head} {{ asm volatile("{text}" : {outs} : {ins} : "memory"); }}'


def tile_text(made: MatrixInstruction, *, a_across: bool, b_across: bool) -> str:
    """The instruction: operands are the sums, then the descriptors of A and B. Sums are added to.

    # src: PTX ISA, "wgmma.mma_async": scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b;
    integers have the first alone
    """
    count = made.form.sums.count
    more = "" if made.total == "s32" else f", 1, 1, {int(a_across)}, {int(b_across)}"
    if made.form.dtype.itemsize != 2 and (a_across or b_across):
        raise TypeError(f"{made.form.name}: k is not contiguous")
    return (
        "{ .reg .pred p; setp.eq.u32 p, 0, 0; "
        f"{made.name} {_group(range(count))}, %{count}, %{count + 1}, p{more}; }}"
    )


def descriptor_strides(leading: int, stride: int) -> int:
    """Both offsets, in bytes, where a descriptor has them."""
    return leading >> 4 << 16 | stride >> 4 << 32


def strides(operand: TileOperand, itemsize: int) -> tuple[int, int]:
    """The leading and the stride offset of a descriptor, in bytes.

    # src: CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp, the canonical layouts of
    LayoutType::INTERLEAVE: with k contiguous ((8,n),2):((1,SBO),LBO), with lines
    ((1,n),(8,k)):((X,SBO),(1,LBO)), in units of 16 bytes
    """
    pitch = operand.pitch * itemsize
    return (CORE_BYTES, pitch) if operand.across else (pitch, CORE_BYTES)


def sums_type(made: MatrixInstruction) -> str:
    """Of the sums in C."""
    return scalar_type(made.form.sums_dtype)


def _group(numbers: Iterable[int]) -> str:
    return "{" + ", ".join(f"%{i}" for i in numbers) + "}"


def _sums(made: MatrixInstruction, count: int) -> str:
    letter = "r" if made.total == "s32" else "f"
    return ", ".join(f'"+{letter}"(c[{i}])' for i in range(count))
