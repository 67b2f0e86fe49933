"""A kernel for each MFMA of gfx942 and gfx90a: lanes load registers of A, B, C and store D."""

from __future__ import annotations

from typing import NamedTuple

from tests.boards.isa_kernels import IDS
from tests.boards.wave_harness import kernel

_G = "ptr addrspace(1) noalias"
_BITS = {"f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "f64": 64, "bf8": 8, "fp8": 8}
_IR = {"f32": "float", "f64": "double", "i32": "i32"}


class Mfma(NamedTuple):
    """blocks of an m x n x k product; `a`, `b` and `d` name the element types."""

    m: int
    k: int
    blocks: int
    a: str
    d: str = "f32"
    b: str = ""

    @property
    def name(self) -> str:
        """What LLVM's intrinsic is called after `llvm.amdgcn.mfma.`."""
        shape = f"{self.d}.{self.m}x{self.m}x{self.k}"
        if self.a == "bf16":
            return f"{shape}bf16{'.1k' if self.per_lane == 4 else ''}"
        if self.b:
            return f"{shape}.{self.a}.{self.b}"
        dotted = self.a == "xf32" or (self.a == "i8" and self.per_lane == 8)
        return f"{shape}{'.' if dotted else ''}{self.a}"

    @property
    def per_lane(self) -> int:
        """Elements of A (and of B) in a lane."""
        return self.m * self.k * self.blocks // 64

    @property
    def results(self) -> int:
        """Elements of C and D in a lane."""
        return self.m * self.m * self.blocks // 64


def _operand(shape: Mfma) -> str:
    bits = _BITS[shape.a] * shape.per_lane
    if shape.a in ("f16", "bf16"):
        return f"<{shape.per_lane} x {'half' if shape.a == 'f16' else 'i16'}>"
    if shape.a in ("f32", "f64", "xf32"):
        element = _IR[shape.a.removeprefix("x")]
        return element if shape.per_lane == 1 else f"<{shape.per_lane} x {element}>"
    return f"i{bits}"


def program(shape: Mfma, modifiers: tuple[int, int, int] = (0, 0, 0)) -> str:
    """k(a, b, c): c = a @ b + c in the registers' own order, lane after lane."""
    operand, count = _operand(shape), shape.results
    total = _IR[shape.d] if count == 1 else f"<{count} x {_IR[shape.d]}>"
    name = f"@llvm.amdgcn.mfma.{shape.name}"
    control = ", ".join(f"i32 {value}" for value in modifiers)
    body = f"""  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr {operand}, ptr addrspace(1) %a, i32 %t
  %pb = getelementptr {operand}, ptr addrspace(1) %b, i32 %t
  %pc = getelementptr {total}, ptr addrspace(1) %c, i32 %t
  %va = load {operand}, ptr addrspace(1) %pa
  %vb = load {operand}, ptr addrspace(1) %pb
  %vc = load {total}, ptr addrspace(1) %pc
  %vd = call {total} {name}({operand} %va, {operand} %vb, {total} %vc, {control})
  store {total} %vd, ptr addrspace(1) %pc
  ret void"""
    declaration = f"declare {total} {name}({operand}, {operand}, {total}, i32, i32, i32)\n"
    return kernel(body, f"{_G} %a, {_G} %b, {_G} %c", top=IDS + declaration)


SHAPES = [
    Mfma(32, 1, 2, "f32"), Mfma(16, 1, 4, "f32"), Mfma(4, 1, 16, "f32"), Mfma(32, 2, 1, "f32"),
    Mfma(16, 4, 1, "f32"), Mfma(32, 4, 2, "f16"), Mfma(16, 4, 4, "f16"), Mfma(4, 4, 16, "f16"),
    Mfma(32, 8, 1, "f16"), Mfma(16, 16, 1, "f16"), Mfma(32, 4, 2, "bf16"), Mfma(16, 4, 4, "bf16"),
    Mfma(4, 4, 16, "bf16"), Mfma(32, 8, 1, "bf16"), Mfma(16, 16, 1, "bf16"),
    Mfma(32, 4, 2, "i8", "i32"), Mfma(16, 4, 4, "i8", "i32"), Mfma(4, 4, 16, "i8", "i32"),
    Mfma(32, 16, 1, "i8", "i32"), Mfma(16, 32, 1, "i8", "i32"), Mfma(16, 4, 1, "f64", "f64"),
    Mfma(4, 4, 4, "f64", "f64"), Mfma(16, 8, 1, "xf32"), Mfma(32, 4, 1, "xf32"),
    Mfma(16, 32, 1, "fp8", b="fp8"), Mfma(16, 32, 1, "bf8", b="fp8"),
    Mfma(32, 16, 1, "fp8", b="bf8"), Mfma(32, 16, 1, "bf8", b="bf8"),
]  # fmt: skip
"""Every dense matrix product of gfx942, the mixtures of 8-bit floats once for each type."""
MFMA = {shape.name: program(shape) for shape in SHAPES}
SHAPES_90A = [
    *(s for s in SHAPES if s.a in ("f32", "f16", "bf16", "f64") or (s.a == "i8" and s.k == 4)),
    Mfma(32, 8, 1, "i8", "i32"), Mfma(16, 16, 1, "i8", "i32"), Mfma(32, 2, 2, "bf16"),
    Mfma(16, 2, 4, "bf16"), Mfma(4, 2, 16, "bf16"), Mfma(32, 4, 1, "bf16"), Mfma(16, 8, 1, "bf16"),
]  # fmt: skip
"""Every matrix product of gfx90a. # src: LLVM IntrinsicsAMDGPU.td, gfx908 and gfx90a"""
MFMA_90A = {shape.name: program(shape) for shape in SHAPES_90A}


def accumulators(tiles: int) -> str:
    """k(a, b, c): `tiles` 32x32 tiles c[i] += a b at once: more registers than v0 to v255."""
    total = "<16 x float>"
    name = "@llvm.amdgcn.mfma.f32.32x32x2f32"
    lines = [
        """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %t
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %t
  %va = load float, ptr addrspace(1) %pa
  %vb = load float, ptr addrspace(1) %pb"""
    ]
    lines += [
        f"""  %i{i} = add i32 %t, {64 * i}
  %pc{i} = getelementptr {total}, ptr addrspace(1) %c, i32 %i{i}
  %vc{i} = load volatile {total}, ptr addrspace(1) %pc{i}"""
        for i in range(tiles)
    ]
    lines += [
        f"  %vd{i} = call {total} {name}(float %va, float %vb, {total} %vc{i}, i32 0, i32 0, i32 0)"
        for i in range(tiles)
    ]
    lines += [f"  store volatile {total} %vd{i}, ptr addrspace(1) %pc{i}" for i in range(tiles)]
    declaration = f"declare {total} {name}(float, float, {total}, i32, i32, i32)\n"
    return kernel(
        "\n".join([*lines, "  ret void"]),
        f"{_G} %a, {_G} %b, {_G} %c",
        top=IDS + declaration,
        extra='"amdgpu-waves-per-eu"="1,1" "amdgpu-flat-work-group-size"="1,64"',
    )
