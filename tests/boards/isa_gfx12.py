"""Kernels for what only gfx12 has, as LLVM IR."""

from __future__ import annotations

from tests.boards.isa_kernels import IDS
from tests.boards.wave_harness import kernel

_G = "ptr addrspace(1) noalias"
# (A and B, how the intrinsic calls them, bits of an element, whether it takes signs)
FACTORS = {
    "f16": ("half", 16), "bf16": ("i16", 16), "iu8": ("i32", 8), "iu4": ("i32", 4),
    "fp8_fp8": ("i32", 8), "bf8_fp8": ("i32", 8), "fp8_bf8": ("i32", 8),
}  # fmt: skip
_TYPES = {"f32": "float", "i32": "i32", "f16": "half", "bf16": "i16"}
_SUFFIX = {"half": "f16", "float": "f32", "i16": "i16", "i32": "i32"}


def _vector(count: int, element: str) -> tuple[str, str]:
    """A type and how an intrinsic's name spells it."""
    if count == 1:
        return element, _SUFFIX[element]
    return f"<{count} x {element}>", f"v{count}{_SUFFIX[element]}"


def wmma(result: str, factor: str, lanes: int = 32, k: int = 16) -> str:
    """c = a @ bt.T + c, each lane's registers in a row of memory."""
    element, bits = FACTORS[factor]
    held = 16 * k * bits // lanes // (16 if bits == 16 else 32)
    a, a_name = _vector(max(held, 1), element)
    d, d_name = _vector(256 // lanes, _TYPES[result])
    name = f"llvm.amdgcn.wmma.{result}.16x16x{k}.{factor.replace('_', '.')}.{d_name}.{a_name}"
    if factor.startswith("iu"):
        head, call = f"i1, {a}, i1, {a}, {d}, i1", f"i1 1, {a} %va, i1 1, {a} %vb, {d} %vc, i1 0"
    elif result in ("f16", "bf16"):
        head, call = f"{a}, {a}, {d}, i1", f"{a} %va, {a} %vb, {d} %vc, i1 0"
    else:
        head, call = f"{a}, {a}, {d}", f"{a} %va, {a} %vb, {d} %vc"
    loads = "\n".join(
        f"  %p{n} = getelementptr {t}, ptr addrspace(1) %{n}, i32 %t\n"
        f"  %v{n} = load {t}, ptr addrspace(1) %p{n}"
        for n, t in (("a", a), ("b", a), ("c", d))
    )
    body = f"""  %t = call i32 @llvm.amdgcn.workitem.id.x()
{loads}
  %vd = call {d} @{name}({call})
  store {d} %vd, ptr addrspace(1) %pc
  ret void"""
    return kernel(body, f"{_G} %a, {_G} %b, {_G} %c", top=f"{IDS}declare {d} @{name}({head})\n")


SCALAR_FLOATS = kernel(
    """  %xy = fadd float %x, %y
  %a = fmul float %xy, %y
  %b = call float @llvm.fma.f32(float %a, float %x, float %y)
  %c = call float @llvm.fabs.f32(float %x)
  %s = call float @llvm.floor.f32(float %b)
  %m = call nnan float @llvm.minnum.f32(float %s, float %y)
  %n = call nnan float @llvm.maxnum.f32(float %x, float %m)
  %i = fptosi float %n to i32
  %f = sitofp i32 %i to float
  %g = fsub float %b, %f
  %h = fptrunc float %g to half
  %hh = fadd half %h, 0xH4248
  %w = fpext half %hh to float
  %lt = fcmp olt float %w, %x
  %r = select i1 %lt, float %w, float %g
  store float %r, ptr addrspace(1) %out
  ret void""",
    f"float %x, float %y, {_G} %out",
    top="declare float @llvm.fma.f32(float, float, float)\n"
    "declare float @llvm.fabs.f32(float)\ndeclare float @llvm.floor.f32(float)\n"
    "declare float @llvm.minnum.f32(float, float)\ndeclare float @llvm.maxnum.f32(float, float)\n",
)
"""out[0] = a function of two uniform floats, which gfx12 computes in scalar registers."""

EIGHT_BITS = kernel(
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %p = getelementptr i32, ptr addrspace(1) %a, i32 %t\n"
    "  %v = load i32, ptr addrspace(1) %p\n"
    + "".join(
        f"  %{kind}{i} = call float @llvm.amdgcn.cvt.f32.{kind}(i32 %v, i32 {i})\n"
        for kind in ("fp8", "bf8")
        for i in range(4)
    )
    + """  %g = call <2 x float> @llvm.amdgcn.cvt.pk.f32.fp8(i32 %v, i1 1)
  %g0 = extractelement <2 x float> %g, i32 0
  %g1 = extractelement <2 x float> %g, i32 1
  %base = mul i32 %t, 11
"""
    + "".join(
        f"  %i{n} = add i32 %base, {n}\n"
        f"  %q{n} = getelementptr float, ptr addrspace(1) %c, i32 %i{n}\n"
        f"  store float %{name}, ptr addrspace(1) %q{n}\n"
        for n, name in enumerate(
            ["fp80", "fp81", "fp82", "fp83", "bf80", "bf81", "bf82", "bf83", "g0", "g1"]
        )
    )
    + """  %x = load float, ptr addrspace(1) %q0
  %h0 = call i32 @llvm.amdgcn.cvt.pk.fp8.f32(float %fp80, float %fp81, i32 0, i1 0)
  %h1 = call i32 @llvm.amdgcn.cvt.pk.fp8.f32(float %fp82, float %fp83, i32 %h0, i1 1)
  %i10 = add i32 %base, 10
  %q10 = getelementptr i32, ptr addrspace(1) %c, i32 %i10
  store i32 %h1, ptr addrspace(1) %q10
  ret void""",
    f"{_G} %a, {_G} %c",
    top=IDS
    + "declare float @llvm.amdgcn.cvt.f32.fp8(i32, i32)\n"
    + "declare float @llvm.amdgcn.cvt.f32.bf8(i32, i32)\n"
    + "declare <2 x float> @llvm.amdgcn.cvt.pk.f32.fp8(i32, i1)\n"
    + "declare i32 @llvm.amdgcn.cvt.pk.fp8.f32(float, float, i32, i1)\n",
)
"""Every byte of a[t] as a float, and the four fp8 ones packed again; 11 dwords a lane."""

UNIFORM_BYTES = kernel(
    """  %x = load i8, ptr addrspace(4) %a
  %p1 = getelementptr i8, ptr addrspace(4) %a, i32 1
  %y = load i8, ptr addrspace(4) %p1
  %p2 = getelementptr i8, ptr addrspace(4) %a, i32 2
  %z = load i16, ptr addrspace(4) %p2
  %p3 = getelementptr i8, ptr addrspace(4) %a, i32 4
  %w = load <3 x i32>, ptr addrspace(4) %p3
  %xs = sext i8 %x to i32
  %yz = zext i8 %y to i32
  %zs = sext i16 %z to i32
  %w2 = extractelement <3 x i32> %w, i32 2
  %s1 = mul i32 %xs, %yz
  %s2 = add i32 %s1, %zs
  %s3 = xor i32 %s2, %w2
  store i32 %s3, ptr addrspace(1) %out
  ret void""",
    f"ptr addrspace(4) align 4 noalias %a, {_G} %out",
)
"""out[0] = (i8 a[0] * u8 a[1] + i16 a[2:4]) ^ u32 a[12:16]: scalar loads of all sizes."""

WAVE_ID = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %w = call i32 @llvm.amdgcn.wave.id()
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %w, ptr addrspace(1) %p
  ret void""",
    f"{_G} %out",
    top=IDS + "declare i32 @llvm.amdgcn.wave.id()\n",
)
"""out[t] = the number of the wave in its workgroup."""


def packed_add(pair: str) -> str:
    """c[i & 7] += a[i], pairs of 16-bit floats; old[i] = what was there."""
    return kernel(
        f"""  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr {pair}, ptr addrspace(1) %a, i32 %t
  %v = load {pair}, ptr addrspace(1) %p
  %slot = and i32 %t, 7
  %q = getelementptr {pair}, ptr addrspace(1) %c, i32 %slot
  %r = atomicrmw fadd ptr addrspace(1) %q, {pair} %v syncscope("agent") monotonic, !n !{{}}
  %po = getelementptr {pair}, ptr addrspace(1) %old, i32 %t
  store {pair} %r, ptr addrspace(1) %po
  ret void""".replace("!n", "!amdgpu.no.fine.grained.memory"),
        f"{_G} %a, {_G} %c, {_G} %old",
        top=IDS,
    )


LDS_ATOMICS = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  store i32 70, ptr addrspace(3) @count
  store <2 x half> zeroinitializer, ptr addrspace(3) @total
  %p = getelementptr <2 x half>, ptr addrspace(1) %a, i32 %t
  %v = load <2 x half>, ptr addrspace(1) %p
  fence syncscope("workgroup") acq_rel
  %r = call i32 @llvm.amdgcn.atomic.cond.sub.u32.p3(ptr addrspace(3) @count, i32 %t)
  %s = atomicrmw fadd ptr addrspace(3) @total, <2 x half> %v syncscope("workgroup") monotonic
  fence syncscope("workgroup") acq_rel
  %w = load i32, ptr addrspace(3) @count
  %x = load i32, ptr addrspace(3) @total
  store i32 %w, ptr addrspace(1) %c
  %q1 = getelementptr i32, ptr addrspace(1) %c, i32 1
  store i32 %x, ptr addrspace(1) %q1
  %t2 = add i32 %t, 2
  %q = getelementptr i32, ptr addrspace(1) %c, i32 %t2
  store i32 %r, ptr addrspace(1) %q
  ret void""",
    f"{_G} %a, {_G} %c",
    top=IDS
    + "declare i32 @llvm.amdgcn.atomic.cond.sub.u32.p3(ptr addrspace(3), i32)\n"
    + "@count = internal addrspace(3) global i32 undef\n"
    + "@total = internal addrspace(3) global <2 x half> undef\n",
)
"""One wave: 70 less every lane number that still fits, and the sum of pairs; old counts after."""

MINIMA = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %a, i32 %t
  %q = getelementptr float, ptr addrspace(1) %b, i32 %t
  %x = load float, ptr addrspace(1) %p
  %y = load float, ptr addrspace(1) %q
  %lo = call float @llvm.minimum.f32(float %x, float %y)
  %hi = call float @llvm.maximum.f32(float %x, float %y)
  %t2 = shl i32 %t, 1
  %r = getelementptr float, ptr addrspace(1) %c, i32 %t2
  store float %lo, ptr addrspace(1) %r
  %r1 = getelementptr float, ptr addrspace(1) %r, i32 1
  store float %hi, ptr addrspace(1) %r1
  ret void""",
    f"{_G} %a, {_G} %b, {_G} %c",
    top=IDS + "declare float @llvm.minimum.f32(float, float)\n"
    "declare float @llvm.maximum.f32(float, float)\n",
)
"""c[t] = (minimum, maximum) of a[t] and b[t], NaN if either is NaN."""

MATRICES = {
    f"wmma_{result}_{factor}": wmma(result, factor)
    for result, factor in (
        ("f32", "f16"), ("f32", "bf16"), ("f16", "f16"), ("bf16", "bf16"), ("i32", "iu8"),
        ("i32", "iu4"), ("f32", "fp8_fp8"), ("f32", "bf8_fp8"), ("f32", "fp8_bf8"),
    )
} | {"wmma_i32_iu4_k32": wmma("i32", "iu4", k=32)}  # fmt: skip
OTHERS = {
    "scalar_floats": SCALAR_FLOATS, "eight_bits": EIGHT_BITS, "uniform_bytes": UNIFORM_BYTES,
    "wave_id": WAVE_ID, "minima": MINIMA, "pk_add_f16": packed_add("<2 x half>"),
    "lds_atomics": LDS_ATOMICS, "pk_add_bf16": packed_add("<2 x bfloat>"),
}  # fmt: skip
