"""Ways in which a lane reads another one, as LLVM IR."""

from __future__ import annotations

from tests.boards.isa_kernels import IDS
from tests.boards.wave_harness import kernel

_G = "ptr addrspace(1) noalias"


def _shuffle(*, rows: bool) -> str:
    """Ways to read another lane, c[8 t + way]; `rows`: with those that came after gfx9."""
    calls = [
        "@llvm.amdgcn.update.dpp.i32(i32 0, i32 %v, i32 273, i32 15, i32 15, i1 true)",
        "@llvm.amdgcn.ds.swizzle(i32 %v, i32 1055)",
        "@llvm.amdgcn.ds.bpermute(i32 %rev, i32 %v)",
        "@llvm.amdgcn.readlane.i32(i32 %v, i32 5)",
        "@llvm.amdgcn.readfirstlane.i32(i32 %v)",
    ]
    if rows:
        calls += [
            "@llvm.amdgcn.permlanex16(i32 0, i32 %v, i32 1985229328, i32 -19088744, i1 0, i1 0)",
            "@llvm.amdgcn.mov.dpp8.i32(i32 %v, i32 6053444)",
        ]
    lines = "\n".join(f"""  %x{i} = call i32 {call}
  %q{i} = getelementptr i32, ptr addrspace(1) %q, i32 {i}
  store i32 %x{i}, ptr addrspace(1) %q{i}""" for i, call in enumerate(calls))  # fmt: skip
    return kernel(
        f"""  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %a, i32 %t
  %v = load i32, ptr addrspace(1) %p
  %l4 = shl i32 %t, 2
  %rev = sub i32 124, %l4
  %base = shl i32 %t, 3
  %q = getelementptr i32, ptr addrspace(1) %c, i32 %base
{lines}
  ret void""",
        f"{_G} %a, {_G} %c",
        top=IDS
        + "declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)\n"
        + "declare i32 @llvm.amdgcn.ds.swizzle(i32, i32)\n"
        + "declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)\n"
        + "declare i32 @llvm.amdgcn.readlane.i32(i32, i32)\n"
        + "declare i32 @llvm.amdgcn.readfirstlane.i32(i32)\n"
        + "declare i32 @llvm.amdgcn.permlanex16(i32, i32, i32, i32, i1, i1)\n"
        + "declare i32 @llvm.amdgcn.mov.dpp8.i32(i32, i32)\n",
    )


SHUFFLE = _shuffle(rows=True)
SHUFFLE_GFX9 = _shuffle(rows=False)
