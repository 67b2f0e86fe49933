"""Kernel IR to LLVM IR text for an AMD GPU.

Arguments are only global pointers; no hidden ones, so that a launch writes exactly the arguments in
the kernel's IR. Masked accesses are done element by element: lanes of a GPU are not lanes of a
vector, and a vector here is what one lane loads at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from compilers import dtype as dt
from compilers.amd.lanes import SAME_ROW_HIGH, SAME_ROW_LOW, swap
from compilers.amd.matrix_forms import INSTRUCTIONS, MatrixInstruction
from compilers.amd.targets import ALIGN_BYTES, amd_target
from compilers.dtype import DType
from compilers.ir import Kernel, Matrix, Ref
from compilers.math.expand import Expander
from compilers.render.common import Value, memory_dtype
from compilers.render.llvm_gpu import INT32_LIMIT, WORD_BYTES, GpuLlvmPrinter
from compilers.render.walk import Walker

SPACES = {"global": 1, "shared": 3, "register": 5}
"""LLVM's address spaces. # src: LLVM AMDGPUUsage, Address Spaces"""
ARGUMENT_ALIGN_BYTES = 4
"""Declared alignment of a buffer. With a larger one LLVM reads the last three dwords as four."""
HIDDEN = (
    "dispatch-ptr queue-ptr dispatch-id implicitarg-ptr workgroup-id-y workgroup-id-z workitem-id-y"
    " workitem-id-z heap-ptr hostcall-ptr multigrid-sync-arg default-queue completion-action"
    " lds-kernel-id"
)
"""Launch state that kernels here do not request. # src: LLVM AMDGPUAttributes.def"""
FENCE = 'fence syncscope("workgroup") {}, !mmra !1'


def render(kernel: Kernel, arch: str) -> str:
    """The module's text; equal kernels give equal texts.

    Raises: Unsupported for an unknown arch, TypeError for an op its dtype does not have.
    """
    expander = Expander(frozenset({"fma"}), native_half=True, soft=True)
    return Walker(kernel, AmdLlvmPrinter(kernel, arch), expander).run()


_APART = ("gfx942", "gfx950")
"""Where products that become halves have their sign without help. # measured: 2026-11-28, LLVM 22,
boards: halves and float32, 64 pairs of signs and zeros"""


class AmdLlvmPrinter(GpuLlvmPrinter):
    """Prints basic blocks in SSA form, for one lane."""

    spaces = SPACES
    align_bytes = ALIGN_BYTES
    stack = ", addrspace(5)"

    def __init__(self, kernel: Kernel, arch: str) -> None:
        super().__init__(kernel)
        self.target = amd_target(arch)
        self._products: set[str] = set()
        """Products of float32."""

    # values

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        """A product of float32 that becomes a float16 gives it its sign."""
        made = super().emit(op, dtype, args, name)
        if op == "mul" and dtype is dt.float32:
            self._products.add(made.text)
        if op == "cast" and dtype is dt.float16 and args[0].text in self._products:
            return self._signed(made, args[0]) if self.target.arch not in _APART else made
        return made

    def _signed(self, half: Value, product: Value) -> Value:
        """Its sign by the product's bits.

        LLVM makes the product of widened halves and its rounding by v_fma_mixlo_f16, with
        +0 as the addend: 0 * -0 would be +0. # measured: 2026-11-27, gfx1030, gfx1100, gfx1201
        # src: VOP3PInstructions.td MadFmaMixFP16Pats; IEEE 754-2019, 6.3
        """
        lanes, emit = half.lanes, super().emit

        def number(value: int, dtype: DType) -> Value:
            one = self.literal(value, dtype)
            return self.splat(one, lanes) if lanes else one

        word = emit("bitcast", dt.uint32, [product], "")
        high = emit("shr", dt.uint32, [word, number(16, dt.uint32)], "")
        sign = emit("and", dt.uint16, [emit("cast", dt.uint16, [high], ""),
                                       number(0x8000, dt.uint16)], "")  # fmt: skip
        bits = emit("bitcast", dt.uint16, [half], "")
        bits = emit("and", dt.uint16, [bits, number(0x7FFF, dt.uint16)], "")
        return emit("bitcast", dt.float16, [emit("or", dt.uint16, [bits, sign], "")], "")

    def _of_wave(self, op: str, dtype: DType, value: Value) -> Value:
        """ballot; below and among count the bits of one."""
        if op == "ballot":
            return self._call(dtype, f"amdgcn.ballot.i{dtype.bits}", value)
        if op == "among":
            count = self._call(value.dtype, f"ctpop.i{value.dtype.bits}", value)
            return super().emit("cast", dtype, [count], "")
        low, zero = value, ("i32", "0")
        if value.dtype.itemsize == WORD_BYTES:
            return self._call(dtype, "amdgcn.mbcnt.lo", low, zero)
        low = super().emit("cast", dt.uint32, [value], "")
        shift = self.literal(dt.uint32.bits, dt.uint64)
        high = super().emit("shr", dt.uint64, [value, shift], "")
        high = super().emit("cast", dt.uint32, [high], "")
        return self._call(
            dtype, "amdgcn.mbcnt.hi", high, self._call(dt.uint32, "amdgcn.mbcnt.lo", low, zero)
        )

    def _swap_dword(self, word: Value, mask: int) -> Value:
        way = swap(mask, self.target)
        yes, zero, full = ("i1", "true"), ("i32", "0"), ("i32", "15")
        if way.how == "dpp":
            control = ("i32", str(way.control))
            name = "amdgcn.update.dpp.i32"
            return self._call(dt.uint32, name, zero, word, control, full, full, yes)
        if way.how == "permlanex16":
            low, high, no = SAME_ROW_LOW, SAME_ROW_HIGH, ("i1", "false")
            selectors = (("i32", str(low)), ("i32", str(high)))
            name = "amdgcn.permlanex16.i32"
            return self._call(dt.uint32, name, word, word, *selectors, no, no)
        if way.how == "swizzle":
            return self._call(dt.uint32, "amdgcn.ds.swizzle", word, ("i32", str(way.control)))
        lane = self._call(dt.uint32, "amdgcn.mbcnt.lo", ("i32", "-1"), zero)
        lane = self._call(dt.uint32, "amdgcn.mbcnt.hi", ("i32", "-1"), lane)
        other = super().emit("xor", dt.uint32, [lane, self.literal(mask, dt.uint32)], "")
        place = super().emit("mul", dt.uint32, [other, self.literal(WORD_BYTES, dt.uint32)], "")
        return self._call(dt.uint32, "amdgcn.ds.bpermute", place, word)

    # control

    def place(self, kind: str) -> Value:
        """The number of the workgroup or of the lane, and its range."""
        name, fact = ("workgroup", 3) if kind == "grid" else ("workitem", 4)
        text = self.module.call("i32", f"llvm.amdgcn.{name}.id.x")
        return self._new(f"{text}, !range !{fact}", dt.int32)

    def barrier(self, *, wave: bool = False) -> None:
        if wave:  # the LDS serves a wave's accesses in order: only the compiler must keep it
            self.lines.append('fence syncscope("wavefront") acq_rel')
            self.lines.append(self.module.call("void", "llvm.amdgcn.wave.barrier"))
            return
        self.lines.append(FENCE.format("release"))
        self.lines.append(self.module.call("void", "llvm.amdgcn.s.barrier"))
        self.lines.append(FENCE.format("acquire"))

    def order(self) -> None:
        # src: LLVM AMDGPUUsage, llvm.amdgcn.sched.barrier: mask 0, nothing is moved across it
        name = "llvm.amdgcn.sched.barrier"
        self.lines.append(self.module.call("void", name, ("i32", "0")))

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        """Both operands are loaded whole, and their products are added to the accumulator."""
        found = INSTRUCTIONS[step.form.name]
        left = self._fragment(found, step.a, a_index)
        right = self._fragment(found, step.b, b_index)
        total = f"<{step.form.sums.count} x float>"
        slot = self._address(step.acc, self.literal(step.slot, dt.int32))
        text = self._new(f"load {total}, {slot}, align {ALIGN_BYTES}", dt.float32).text
        extra = [("i32", "0")] * found.flags
        for a, b in zip(left, right, strict=True):
            name = f"llvm.amdgcn.{found.intrinsic}"
            made = self.module.call(total, name, a, b, (total, text), *extra)
            text = self._new(made, dt.float32).text
        self.lines.append(f"store {total} {text}, {slot}, align {ALIGN_BYTES}")

    def _fragment(self, made: MatrixInstruction, ref: Ref, index: Value) -> list[tuple[str, str]]:
        """A lane's operands of each instruction, from one load: types and values."""
        count = made.form.a.count
        align = min(ALIGN_BYTES, count * memory_dtype(ref).itemsize)
        whole = f"<{count} x {made.element}>"
        text = f"load {whole}, {self._address(ref, index)}, align {align}"
        loaded = self._new(text, ref.dtype).text
        if made.times == 1:
            return [(whole, loaded)]
        kind, parts = f"<{made.each} x {made.element}>", []
        for first in range(0, count, made.each):
            order = ", ".join(f"i32 {place}" for place in range(first, first + made.each))
            text = f"shufflevector {whole} {loaded}, {whole} poison, <{made.each} x i32> <{order}>"
            parts.append((kind, self._new(text, ref.dtype).text))
        return parts

    def finish(self, kernel: Kernel) -> str:
        """The kernel, its declarations in the module, and its requests to a launch."""
        pointer = f"ptr addrspace(1) noalias nofree nonnull align {ARGUMENT_ALIGN_BYTES}"
        params = ", ".join(f"{pointer} %p{i}" for i in range(len(kernel.params)))
        block = kernel.block
        waves = f'"amdgpu-waves-per-eu"="1,{kernel.waves}" ' if kernel.waves else ""
        hidden = " ".join(f'"amdgpu-no-{name}"' for name in HIDDEN.split())
        lines = [
            *self.tops,
            f"define amdgpu_kernel void @{kernel.name}({params}) #0 !reqd_work_group_size !2 {{",
            "entry:",
            *self.lines,
            "ret void",
            "}",
            *self.module.footer(),
            f'attributes #0 = {{ nounwind "amdgpu-flat-work-group-size"="{block},{block}" '
            f'"uniform-work-group-size"="true" {waves}{hidden} }}',
            '!1 = !{!"amdgpu-synchronize-as", !"local"}',
            f"!2 = !{{i32 {block}, i32 1, i32 1}}",
            f"!3 = !{{i32 0, i32 {min(max(kernel.grid, 1), INT32_LIMIT - 1)}}}",
            f"!4 = !{{i32 0, i32 {block}}}",
        ]
        return "\n".join(lines) + "\n"
