"""Kernels with control flow, shared memory, atomics, matrices and scratch, as LLVM IR."""

from __future__ import annotations

from tests.boards import isa_gfx12
from tests.boards.isa_kernels import IDS
from tests.boards.isa_mfma import MFMA, MFMA_90A
from tests.boards.isa_shuffle import SHUFFLE, SHUFFLE_GFX9
from tests.boards.wave_harness import kernel

_G = "ptr addrspace(1) noalias"
_BARRIER = "declare void @llvm.amdgcn.s.barrier()\n"
_FENCED = """  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
"""

NAIVE = kernel(
    """entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %row = call i32 @llvm.amdgcn.workgroup.id.y()
  %b = shl i32 %g, 6
  %col = add i32 %b, %t
  %r0 = mul i32 %row, %n
  br label %loop
loop:
  %k = phi i32 [0, %entry], [%k1, %loop]
  %acc = phi float [0.0, %entry], [%acc1, %loop]
  %ai = add i32 %r0, %k
  %bk = mul i32 %k, %n
  %bi = add i32 %bk, %col
  %ap = getelementptr float, ptr addrspace(1) %a, i32 %ai
  %bp = getelementptr float, ptr addrspace(1) %bb, i32 %bi
  %av = load float, ptr addrspace(1) %ap
  %bv = load float, ptr addrspace(1) %bp
  %acc1 = call float @llvm.fma.f32(float %av, float %bv, float %acc)
  %k1 = add i32 %k, 1
  %e = icmp eq i32 %k1, %n
  br i1 %e, label %done, label %loop
done:
  %ci = add i32 %r0, %col
  %cp = getelementptr float, ptr addrspace(1) %c, i32 %ci
  store float %acc1, ptr addrspace(1) %cp
  ret void""",
    f"{_G} %a, {_G} %bb, {_G} %c, i32 %n",
    top=IDS + "declare float @llvm.fma.f32(float, float, float)\n",
)
"""c = a @ bb, f32, n x n; a thread an element; workgroups (64, 1)."""

TILED = kernel(
    f"""entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %x = and i32 %t, 15
  %y = lshr i32 %t, 4
  %gx = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %cx0 = shl i32 %gx, 4
  %cy0 = shl i32 %gy, 4
  %col = add i32 %cx0, %x
  %row = add i32 %cy0, %y
  %r0 = mul i32 %row, %n
  %sa = getelementptr [256 x float], ptr addrspace(3) @ta, i32 0, i32 %t
  %sb = getelementptr [256 x float], ptr addrspace(3) @tb, i32 0, i32 %t
  %ly = shl i32 %y, 4
  br label %tile
tile:
  %k = phi i32 [0, %entry], [%k1, %next]
  %acc = phi float [0.0, %entry], [%acc3, %next]
  %akx = add i32 %k, %x
  %ai = add i32 %r0, %akx
  %bky = add i32 %k, %y
  %bk = mul i32 %bky, %n
  %bi = add i32 %bk, %col
  %ap = getelementptr float, ptr addrspace(1) %a, i32 %ai
  %bp = getelementptr float, ptr addrspace(1) %bb, i32 %bi
  %av = load float, ptr addrspace(1) %ap
  %bv = load float, ptr addrspace(1) %bp
  store float %av, ptr addrspace(3) %sa
  store float %bv, ptr addrspace(3) %sb
{_FENCED}  br label %inner
inner:
  %j = phi i32 [0, %tile], [%j1, %inner]
  %acc2 = phi float [%acc, %tile], [%acc3, %inner]
  %la = add i32 %ly, %j
  %lj = shl i32 %j, 4
  %lb = add i32 %lj, %x
  %pa = getelementptr [256 x float], ptr addrspace(3) @ta, i32 0, i32 %la
  %pb = getelementptr [256 x float], ptr addrspace(3) @tb, i32 0, i32 %lb
  %va = load float, ptr addrspace(3) %pa
  %vb = load float, ptr addrspace(3) %pb
  %acc3 = call float @llvm.fma.f32(float %va, float %vb, float %acc2)
  %j1 = add i32 %j, 1
  %je = icmp eq i32 %j1, 16
  br i1 %je, label %next, label %inner
next:
{_FENCED}  %k1 = add i32 %k, 16
  %e = icmp eq i32 %k1, %n
  br i1 %e, label %done, label %tile
done:
  %ci = add i32 %r0, %col
  %cp = getelementptr float, ptr addrspace(1) %c, i32 %ci
  store float %acc3, ptr addrspace(1) %cp
  ret void""",
    f"{_G} %a, {_G} %bb, {_G} %c, i32 %n",
    top=IDS
    + _BARRIER
    + "declare float @llvm.fma.f32(float, float, float)\n"
    + "@ta = internal addrspace(3) global [256 x float] undef\n"
    + "@tb = internal addrspace(3) global [256 x float] undef\n",
)
"""c = a @ bb through 16x16 tiles in LDS; workgroups of 256, one for each 16x16 tile."""

REDUCE = kernel(
    f"""entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %b = shl i32 %g, 8
  %i = add i32 %b, %t
  %p = getelementptr float, ptr addrspace(1) %a, i32 %i
  %v = load float, ptr addrspace(1) %p
  %s = getelementptr [256 x float], ptr addrspace(3) @ta, i32 0, i32 %t
  store float %v, ptr addrspace(3) %s
{_FENCED}  br label %loop
loop:
  %w = phi i32 [128, %entry], [%w1, %step]
  %m = icmp ult i32 %t, %w
  br i1 %m, label %add, label %step
add:
  %o = add i32 %t, %w
  %q = getelementptr [256 x float], ptr addrspace(3) @ta, i32 0, i32 %o
  %x = load float, ptr addrspace(3) %q
  %y = load float, ptr addrspace(3) %s
  %z = fadd float %x, %y
  store float %z, ptr addrspace(3) %s
  br label %step
step:
{_FENCED}  %w1 = lshr i32 %w, 1
  %e = icmp eq i32 %w1, 0
  br i1 %e, label %done, label %loop
done:
  %first = icmp eq i32 %t, 0
  br i1 %first, label %out, label %end
out:
  %r = load float, ptr addrspace(3) @ta
  %po = getelementptr float, ptr addrspace(1) %c, i32 %g
  store float %r, ptr addrspace(1) %po
  br label %end
end:
  ret void""",
    f"{_G} %a, {_G} %c",
    top=IDS + _BARRIER + "@ta = internal addrspace(3) global [256 x float] undef\n",
)
"""c[group] = sum of 256 floats, a tree in LDS."""

COLLATZ = kernel(
    """entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %b = shl i32 %g, 6
  %i = add i32 %b, %t
  %start = add i32 %i, 1
  br label %loop
loop:
  %n = phi i32 [%start, %entry], [%n1, %next]
  %c = phi i32 [0, %entry], [%c1, %next]
  %e = icmp eq i32 %n, 1
  br i1 %e, label %done, label %body
body:
  %odd = and i32 %n, 1
  %isodd = icmp ne i32 %odd, 0
  br i1 %isodd, label %up, label %down
up:
  %n3 = mul i32 %n, 3
  %n31 = add i32 %n3, 1
  br label %next
down:
  %h = lshr i32 %n, 1
  br label %next
next:
  %n1 = phi i32 [%n31, %up], [%h, %down]
  %c1 = add i32 %c, 1
  br label %loop
done:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %c, ptr addrspace(1) %p
  ret void""",
    f"{_G} %out",
    top=IDS,
)
"""out[i] = steps of the Collatz sequence of i + 1: loops and branches that diverge."""


def _wmma(name: str, element: str, count: int, acc: str, size: int, signed: bool) -> str:
    a, d = f"<{count} x {element}>", f"<{size} x {acc}>"
    suffix = f"v{size}{acc.replace('float', 'f32')}"
    source = {"half": "v16f16", "i16": "v16i16", "i32": f"v{count}i32"}[element]
    head = f"declare {d} @llvm.amdgcn.wmma.{name}.{suffix}.{source}"
    if signed:
        declares = f"{head}(i1, {a}, i1, {a}, {d}, i1)\n"
        call = f"i1 true, {a} %va, i1 true, {a} %vb, {d} %vc, i1 false"
    else:
        declares = f"{head}({a}, {a}, {d})\n"
        call = f"{a} %va, {a} %vb, {d} %vc"
    body = f"""  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %l = and i32 %t, 15
  %pa = getelementptr {a}, ptr addrspace(1) %a, i32 %l
  %pb = getelementptr {a}, ptr addrspace(1) %bt, i32 %l
  %pc = getelementptr {d}, ptr addrspace(1) %c, i32 %t
  %va = load {a}, ptr addrspace(1) %pa
  %vb = load {a}, ptr addrspace(1) %pb
  %vc = load {d}, ptr addrspace(1) %pc
  %vd = call {d} @llvm.amdgcn.wmma.{name}.{suffix}.{source}({call})
  store {d} %vd, ptr addrspace(1) %pc
  ret void"""
    return kernel(body, f"{_G} %a, {_G} %bt, {_G} %c", top=IDS + declares)


WMMA_F16 = _wmma("f32.16x16x16.f16", "half", 16, "float", 8, False)
WMMA_BF16 = _wmma("f32.16x16x16.bf16", "i16", 16, "float", 8, False)
WMMA_IU8 = _wmma("i32.16x16x16.iu8", "i32", 4, "i32", 8, True)
"""c += a @ bt.T for 16x16 matrices; lane l of c holds rows 2i + l // 16 of column l % 16."""


def atomic(action: str, kind: str, *, returns: bool = False) -> str:
    """Each thread applies an atomic to counter number (value & 7); `returns`: keep old values."""
    keep = f"""
  %po = getelementptr {kind}, ptr addrspace(1) %old, i32 %i
  store {kind} %r, ptr addrspace(1) %po"""
    return kernel(
        f"""  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %b = shl i32 %g, 6
  %i = add i32 %b, %t
  %p = getelementptr {kind}, ptr addrspace(1) %a, i32 %i
  %v = load {kind}, ptr addrspace(1) %p
  %slot = and i32 %i, 7
  %q = getelementptr {kind}, ptr addrspace(1) %c, i32 %slot
  %r = atomicrmw {action} ptr addrspace(1) %q, {kind} %v syncscope("agent") monotonic
{keep if returns else ""}
  ret void""",
        f"{_G} %a, {_G} %c, {_G} %old",
        top=IDS,
    )


LDS_HISTOGRAM = kernel(
    f"""entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %z = icmp ult i32 %t, 16
  %s = getelementptr [16 x i32], ptr addrspace(3) @ta, i32 0, i32 %t
  br i1 %z, label %clear, label %go
clear:
  store i32 0, ptr addrspace(3) %s
  br label %go
go:
{_FENCED}  %p = getelementptr i32, ptr addrspace(1) %a, i32 %t
  %v = load i32, ptr addrspace(1) %p
  %bin = and i32 %v, 15
  %q = getelementptr [16 x i32], ptr addrspace(3) @ta, i32 0, i32 %bin
  %r = atomicrmw add ptr addrspace(3) %q, i32 1 syncscope("workgroup") monotonic
{_FENCED}  br i1 %z, label %store, label %end
store:
  %w = load i32, ptr addrspace(3) %s
  %po = getelementptr i32, ptr addrspace(1) %c, i32 %t
  store i32 %w, ptr addrspace(1) %po
  br label %end
end:
  ret void""",
    f"{_G} %a, {_G} %c",
    top=IDS + _BARRIER + "@ta = internal addrspace(3) global [16 x i32] undef\n",
)
"""c = histogram of 256 values & 15, counted in LDS; one workgroup of 256."""

SCRATCH = kernel(
    """entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %b = shl i32 %g, 6
  %i = add i32 %b, %t
  %m = alloca [32 x i32], addrspace(5)
  br label %fill
fill:
  %k = phi i32 [0, %entry], [%k1, %fill]
  %v = mul i32 %k, %i
  %q = getelementptr [32 x i32], ptr addrspace(5) %m, i32 0, i32 %k
  store volatile i32 %v, ptr addrspace(5) %q
  %k1 = add i32 %k, 1
  %e = icmp eq i32 %k1, 32
  br i1 %e, label %read, label %fill
read:
  %p = getelementptr i32, ptr addrspace(1) %a, i32 %i
  %x = load i32, ptr addrspace(1) %p
  %j = and i32 %x, 31
  %s = getelementptr [32 x i32], ptr addrspace(5) %m, i32 0, i32 %j
  %y = load volatile i32, ptr addrspace(5) %s
  %po = getelementptr i32, ptr addrspace(1) %c, i32 %i
  store i32 %y, ptr addrspace(1) %po
  ret void""",
    f"{_G} %a, {_G} %c",
    top=IDS,
)
"""c[i] = (a[i] & 31) * i through a private array."""

GENERIC = kernel(
    f"""entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %m = alloca [4 x i32], addrspace(5)
  %p = getelementptr i32, ptr addrspace(1) %a, i32 %t
  %v = load i32, ptr addrspace(1) %p
  %k = and i32 %v, 3
  %mine = getelementptr [4 x i32], ptr addrspace(5) %m, i32 0, i32 %k
  %v3 = mul i32 %v, 3
  store volatile i32 %v3, ptr addrspace(5) %mine
  %s = getelementptr [64 x i32], ptr addrspace(3) @ta, i32 0, i32 %t
  store i32 %v, ptr addrspace(3) %s
{_FENCED}  %g1 = addrspacecast ptr addrspace(1) %p to ptr
  %g3 = addrspacecast ptr addrspace(3) %s to ptr
  %g5 = addrspacecast ptr addrspace(5) %mine to ptr
  %o = and i32 %t, 3
  %is1 = icmp eq i32 %o, 1
  %is3 = icmp eq i32 %o, 3
  %x = select i1 %is1, ptr %g1, ptr %g5
  %y = select i1 %is3, ptr %g3, ptr %x
  %w = load volatile i32, ptr %y
  %w1 = add i32 %w, 5
  store volatile i32 %w1, ptr %y
  %z = load volatile i32, ptr %y
  %po = getelementptr i32, ptr addrspace(1) %c, i32 %t
  store i32 %z, ptr addrspace(1) %po
  ret void""",
    "ptr addrspace(1) %a, ptr addrspace(1) %c",
    top=IDS + _BARRIER + "@ta = internal addrspace(3) global [64 x i32] undef\n",
)
"""Generic pointers into global memory, LDS and scratch, mixed within a wave; workgroup of 64."""

RELATIVE = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr <8 x i32>, ptr addrspace(1) %a, i32 %t
  %v = load <8 x i32>, ptr addrspace(1) %p
  %w = insertelement <8 x i32> %v, i32 %t, i32 %i
  %x = extractelement <8 x i32> %w, i32 %j
  %q = getelementptr <8 x i32>, ptr addrspace(1) %c, i32 %t
  store <8 x i32> %w, ptr addrspace(1) %q
  %po = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %x, ptr addrspace(1) %po
  ret void""",
    f"{_G} %a, {_G} %c, {_G} %out, i32 %i, i32 %j",
    top=IDS,
)
"""c[t] = a[t] with element i replaced by t, out[t] = c[t][j]: registers indexed through M0."""

PROGRAMS = {
    "naive": NAIVE, "tiled": TILED, "reduce": REDUCE, "collatz": COLLATZ,
    "histogram": LDS_HISTOGRAM, "scratch": SCRATCH, "shuffle": SHUFFLE, "generic": GENERIC,
    "relative": RELATIVE,
    "atomic_add": atomic("add", "i32"),
    "atomic_fadd": atomic("fadd", "float", returns=True),
    "atomic_umax": atomic("umax", "i64", returns=True),
}  # fmt: skip
MATRICES: dict[str, dict[str, str]] = {
    "gfx1201": isa_gfx12.MATRICES | isa_gfx12.OTHERS,
    "gfx1030": {},
    "gfx1100": {"wmma_f16": WMMA_F16, "wmma_bf16": WMMA_BF16, "wmma_iu8": WMMA_IU8},
    "gfx942": MFMA,
    "gfx90a": MFMA_90A,
}
MATRICES["gfx1151"] = MATRICES["gfx1100"]
"""Matrix and other instructions of one family, for its first wave size."""


def programs(cpu: str) -> dict[str, str]:
    """What a chip can run."""
    return PROGRAMS | ({"shuffle": SHUFFLE_GFX9} if cpu in ("gfx90a", "gfx942") else {})
