"""Small kernels for AMD GPUs, as LLVM IR text, that tests of several layers compile."""

from __future__ import annotations

RDNA = ("gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150",
        "gfx1151", "gfx1200", "gfx1201")  # fmt: skip
CDNA = ("gfx90a", "gfx942", "gfx950")
ARCHES = RDNA + CDNA

_WORK_ITEM = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
"""


def attributes(lanes: int) -> str:
    """Attributes of a kernel with workgroups of up to `lanes` lanes."""
    return (
        f'attributes #0 = {{ "amdgpu-flat-work-group-size"="1,{lanes}" '
        '"uniform-work-group-size"="true" }'
    )


def add(lanes: int = 256) -> str:
    """k(a, b, c, n): c[i] = a[i] + b[i] for i < n, one float a lane."""
    return f"""
define amdgpu_kernel void @k(ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %b,
                             ptr addrspace(1) noalias %c, i32 %n) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = mul i32 %group, {lanes}
  %i = add i32 %first, %lane
  %in = icmp ult i32 %i, %n
  br i1 %in, label %body, label %end
body:
  %p = getelementptr float, ptr addrspace(1) %a, i32 %i
  %q = getelementptr float, ptr addrspace(1) %b, i32 %i
  %r = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load float, ptr addrspace(1) %p
  %y = load float, ptr addrspace(1) %q
  %z = fadd float %x, %y
  store float %z, ptr addrspace(1) %r
  br label %end
end:
  ret void
}}
{_WORK_ITEM}{attributes(lanes)}
"""


def reverse(lanes: int = 256) -> str:
    """k(a, c): each workgroup reverses its `lanes` floats through local memory."""
    return f"""
@tile = internal addrspace(3) global [{lanes} x float] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %c) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = mul i32 %group, {lanes}
  %i = add i32 %first, %lane
  %p = getelementptr float, ptr addrspace(1) %a, i32 %i
  %x = load float, ptr addrspace(1) %p
  %s = getelementptr float, ptr addrspace(3) @tile, i32 %lane
  store float %x, ptr addrspace(3) %s
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %other = sub i32 {lanes - 1}, %lane
  %t = getelementptr float, ptr addrspace(3) @tile, i32 %other
  %y = load float, ptr addrspace(3) %t
  %r = getelementptr float, ptr addrspace(1) %c, i32 %i
  store float %y, ptr addrspace(1) %r
  ret void
}}
declare void @llvm.amdgcn.s.barrier()
{_WORK_ITEM}{attributes(lanes)}
"""


def table() -> str:
    """k(c, n): c[0] = the n-th of four constants, which live in the image; 3 5 7 11."""
    return f"""
@odd = internal addrspace(4) constant [4 x i32] [i32 3, i32 5, i32 7, i32 11], align 16
define amdgpu_kernel void @k(ptr addrspace(1) %c, i32 %n) #0 {{
  %p = getelementptr i32, ptr addrspace(4) @odd, i32 %n
  %x = load i32, ptr addrspace(4) %p
  store i32 %x, ptr addrspace(1) %c
  ret void
}}
{attributes(64)}
"""


def scratch() -> str:
    """k(c, n): c[lane] = private[n & 31] of 32 private words, word i of which is i * i + lane."""
    stores = "\n".join(
        f"""  %p{i} = getelementptr i32, ptr addrspace(5) %own, i32 {i}
  %v{i} = add i32 %lane, {i * i}
  store volatile i32 %v{i}, ptr addrspace(5) %p{i}"""
        for i in range(32)
    )
    return f"""
define amdgpu_kernel void @k(ptr addrspace(1) %c, i32 %n) #0 {{
  %own = alloca [32 x i32], align 4, addrspace(5)
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
{stores}
  %which = and i32 %n, 31
  %p = getelementptr i32, ptr addrspace(5) %own, i32 %which
  %x = load volatile i32, ptr addrspace(5) %p
  %r = getelementptr i32, ptr addrspace(1) %c, i32 %lane
  store i32 %x, ptr addrspace(1) %r
  ret void
}}
declare i32 @llvm.amdgcn.workitem.id.x()
{attributes(64)}
"""


def pointers() -> str:
    """k(c): c[0] = the target of a pointer in the image (an absolute address, and a slot)."""
    return f"""
@seven = addrspace(1) global i32 7
@where = internal addrspace(1) global ptr addrspace(1) @seven
define amdgpu_kernel void @k(ptr addrspace(1) %c) #0 {{
  %p = load volatile ptr addrspace(1), ptr addrspace(1) @where
  %x = load volatile i32, ptr addrspace(1) %p
  %y = load volatile i32, ptr addrspace(1) @seven
  %z = add i32 %x, %y
  store i32 %z, ptr addrspace(1) %c
  ret void
}}
{attributes(64)}
"""


def _matrix(call: str, declaration: str, operand: str, total: str, lanes: int) -> str:
    return f"""
define amdgpu_kernel void @k(ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %b,
                             ptr addrspace(1) noalias %c) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr {operand}, ptr addrspace(1) %a, i32 %lane
  %q = getelementptr {operand}, ptr addrspace(1) %b, i32 %lane
  %r = getelementptr {total}, ptr addrspace(1) %c, i32 %lane
  %x = load {operand}, ptr addrspace(1) %p
  %y = load {operand}, ptr addrspace(1) %q
  %z = load {total}, ptr addrspace(1) %r
  {call}
  store {total} %w, ptr addrspace(1) %r
  ret void
}}
declare {declaration}
declare i32 @llvm.amdgcn.workitem.id.x()
{attributes(lanes)}
"""


def wmma(arch: str) -> str:
    """k(a, b, c): one wave's f32 16x16x16 f16 WMMA on the registers its lanes load."""
    operand = "<16 x half>" if arch.startswith("gfx11") else "<8 x half>"
    total = "<8 x float>"
    name = f"@llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.{'v16f16' if '16' in operand else 'v8f16'}"
    call = f"%w = call {total} {name}({operand} %x, {operand} %y, {total} %z)"
    return _matrix(call, f"{total} {name}({operand}, {operand}, {total})", operand, total, 32)


def mfma() -> str:
    """k(a, b, c): one wave's f32 16x16x16 f16 MFMA on the registers its lanes load."""
    operand, total, name = "<4 x half>", "<4 x float>", "@llvm.amdgcn.mfma.f32.16x16x16f16"
    call = f"%w = call {total} {name}({operand} %x, {operand} %y, {total} %z, i32 0, i32 0, i32 0)"
    declaration = f"{total} {name}({operand}, {operand}, {total}, i32, i32, i32)"
    return _matrix(call, declaration, operand, total, 64)
