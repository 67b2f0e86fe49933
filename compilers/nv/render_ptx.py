"""Kernel IR to LLVM IR text for an NVIDIA GPU, of which LLVM makes PTX.

Arguments are only global pointers, without aliases, so that loads of what is not stored become
loads through the read-only path.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import Kernel, shared_size, staged
from compilers.math.expand import Expander
from compilers.nv.llvm_matrix import MatrixLlvm
from compilers.nv.targets import ALIGN_BYTES, STATIC_SHARED_BYTES, WAVE_LANES, nv_target
from compilers.render.common import Value
from compilers.render.llvm_gpu import INT32_LIMIT
from compilers.render.walk import Walker

SPACES: Final = {"global": 1, "shared": 3, "register": 0}
"""# src: LLVM NVPTXUsage, Address Spaces; arrays of a lane begin in the generic one"""
ALL: Final = ("i32", "-1")
"""Every lane of a warp takes part."""
CLAMP: Final = ("i32", str(WAVE_LANES - 1))
"""# src: PTX ISA, shfl.sync: c of the bfly mode for a whole warp"""
DYNAMIC: Final = "dynamic"
"""All shared memory of a kernel that has more than may be declared."""
UNROLLED_NEVER: Final = ("!3 = distinct !{!3, !4}", '!4 = !{!"llvm.loop.unroll.disable"}')
"""What the end of a loop names."""
ARGUMENT_ALIGN_BYTES: Final = 16
"""What memory of a device is aligned to at least."""


def render(kernel: Kernel, arch: str) -> str:
    """The module's text; equal kernels give equal texts.

    Raises: Unsupported for an unknown arch, TypeError for an op its dtype does not have.
    """
    nv_target(arch)
    expander = Expander(frozenset({"fma"}), native_half=True, soft=True, short_nans=False)
    return Walker(kernel, PtxPrinter(kernel), expander).run()


class PtxPrinter(MatrixLlvm):
    """Prints basic blocks in SSA form, for one lane."""

    spaces = SPACES
    align_bytes = ALIGN_BYTES

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        if kernel.shared_bytes <= STATIC_SHARED_BYTES:
            return
        self.tops[:] = [f"@{DYNAMIC} = external addrspace(3) global [0 x i8], align {ALIGN_BYTES}"]
        at = 0
        for ref in kernel.locals:
            if ref.space == "shared":
                place = f"ptr addrspace(3) @{DYNAMIC}, i64 {at}"
                self.names[ref] = f"getelementptr (i8, {place})"
                at += shared_size(ref)

    # values

    def _of_wave(self, op: str, dtype: DType, value: Value) -> Value:
        """ballot; below and among count the bits of one."""
        if op == "ballot":
            return self._call(dtype, "nvvm.vote.ballot.sync", ALL, value)
        if op == "below":
            lower = self._call(dt.uint32, "nvvm.read.ptx.sreg.lanemask.lt")
            value = self.emit("and", dt.uint32, [value, lower], "")
        count = self._call(value.dtype, f"ctpop.i{value.dtype.bits}", value)
        return self.emit("cast", dtype, [count], "")

    def _swap_dword(self, word: Value, mask: int) -> Value:
        name = "nvvm.shfl.sync.bfly.i32"
        return self._call(dt.uint32, name, ALL, word, ("i32", str(mask)), CLAMP)

    # control

    def place(self, kind: str) -> Value:
        """The number of the workgroup or of the lane, and its range."""
        name, fact = ("ctaid", 1) if kind == "grid" else ("tid", 2)
        text = self.module.call("i32", f"llvm.nvvm.read.ptx.sreg.{name}.x")
        return self._new(f"{text}, !range !{fact}", dt.int32)

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        """Not unrolled where it is a pipeline: code would not fit, and sums be spilled."""
        with super().loop(extent) as at:
            yield at
        if staged(self.kernel.body.body):
            last = max(n for n, line in enumerate(self.lines) if line.startswith("br i1 "))
            self.lines[last] += ", !llvm.loop !3"

    def barrier(self, *, wave: bool = False) -> None:
        if wave:
            self.lines.append(self.module.call("void", "llvm.nvvm.bar.warp.sync", ALL))
            return
        name = "llvm.nvvm.barrier.cta.sync.aligned.all"
        self.lines.append(self.module.call("void", name, ("i32", "0")))

    def order(self) -> None:
        """The assembler orders instructions itself."""

    def finish(self, kernel: Kernel) -> str:
        """The kernel, its declarations in the module, and what a launch must keep to."""
        pointer = f"ptr addrspace(1) noalias nofree nonnull align {ARGUMENT_ALIGN_BYTES}"
        params = ", ".join(f"{pointer} %p{i}" for i in range(len(kernel.params)))
        block = kernel.block
        lines = [
            *self.tops,
            f"define ptx_kernel void @{kernel.name}({params}) #0 {{",
            "entry:",
            *self.lines,
            "ret void",
            "}",
            *self.module.footer(),
            f'attributes #0 = {{ nounwind "nvvm.maxntid"="{block},1,1" }}',
            f"!1 = !{{i32 0, i32 {min(max(kernel.grid, 1), INT32_LIMIT - 1)}}}",
            f"!2 = !{{i32 0, i32 {block}}}",
            *(UNROLLED_NEVER if staged(kernel.body.body) else ()),
        ]
        return "\n".join(lines) + "\n"
