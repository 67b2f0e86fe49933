"""The kernel that smoke tests and host-cost figures run: c[i] = a[i] + b[i] for i < n.

A driver is given its code as Firmware; this one is for command lines that open AMD GPUs.
"""

from __future__ import annotations

from compilers.toolchains import compile_source
from drivers.base.contracts import Binary
from drivers.base.errors import NotFound

KIND = "smoke"
BLOCK = 64
"""Lanes of a workgroup: whole waves on every chip."""
_SOURCE = f"""
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()

define amdgpu_kernel void @smoke_add(ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %b,
                                     ptr addrspace(1) noalias %c, i64 %n) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = mul i32 %group, {BLOCK}
  %at = add i32 %first, %lane
  %i = zext i32 %at to i64
  %inside = icmp ult i64 %i, %n
  br i1 %inside, label %body, label %end
body:
  %ap = getelementptr i32, ptr addrspace(1) %a, i64 %i
  %bp = getelementptr i32, ptr addrspace(1) %b, i64 %i
  %cp = getelementptr i32, ptr addrspace(1) %c, i64 %i
  %x = load i32, ptr addrspace(1) %ap
  %y = load i32, ptr addrspace(1) %bp
  %sum = add i32 %x, %y
  store i32 %sum, ptr addrspace(1) %cp
  br label %end
end:
  ret void
}}

attributes #0 = {{ "amdgpu-flat-work-group-size"="1,{BLOCK}" }}
"""


def firmware(kind: str, arch: str) -> Binary:
    """Firmware for the AMD driver's smoke test. Raises: NotFound, CompileError, Unsupported."""
    if kind != KIND:
        raise NotFound(f"there is no {kind!r} for {arch}", hint=f"Ask for {KIND!r}")
    made = compile_source(_SOURCE, "smoke_add", "LLVM", arch, frozenset())
    return made.in_blocks_of(BLOCK)
