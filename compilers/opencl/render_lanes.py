"""Kernel IR with lanes to OpenCL C, for GPUs: workgroups, local memory, barriers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from compilers import dtype as dt
from compilers.ir import Kernel, Matrix
from compilers.math.expand import Expander
from compilers.opencl.common import ENTRY, SPACES
from compilers.opencl.compiler import BLOCK
from compilers.opencl.render_host import HostClPrinter
from compilers.render.common import MemoryAccess, Value, alignment, memory_dtype
from compilers.render.walk import Walker

ALIGN_BYTES: Final = 16
"""Of arrays, and of one lane's widest load."""


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The program's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have, or one between the lanes of a wave.
    """
    expander = Expander(features, native_half=False, soft=True)
    return Walker(kernel, LanesClPrinter(kernel, features), expander).run()


class LanesClPrinter(HostClPrinter):
    """Prints one constant per value, for one lane."""

    narrow = True

    def __init__(self, kernel: Kernel, features: frozenset[str]) -> None:
        super().__init__(Kernel(kernel.name, kernel.params, (), kernel.body), features)
        for position, ref in enumerate(kernel.locals):
            name = self.names[ref] = f"m{position}"
            kind = self.unit.memory(memory_dtype(ref))
            self.lines.append(
                f"{SPACES[ref.space]}{kind} {name}[{max(ref.size, 1)}] "
                f"__attribute__((aligned({ALIGN_BYTES})));"
            )

    # memory

    def _at(self, index: Value) -> str:
        return index.text if index.dtype is dt.int64 else f"(u32)({index.text})"

    def _whole(self, access: MemoryAccess, dtype: dt.DType, lanes: int) -> str:
        """Neighbouring elements, all of them."""
        align = alignment(dtype, lanes, access.unit, ALIGN_BYTES)
        return f"*{self._place(access.ref, dtype, lanes, align, self._at(access.index))}"

    def _one(self, access: MemoryAccess, lane: int) -> str:
        """The index of one element."""
        index = access.index
        return f"{index.text}[{lane}]" if index.lanes else f"{index.text} + {lane}"

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        mask, dtype = access.mask, memory_dtype(access.ref)
        if not access.index.lanes and not mask:
            return self._new(self._whole(access, dtype, lanes), dtype, lanes)
        parts = []
        for lane in range(lanes):
            element = f"{self.names[access.ref]}[{self._one(access, lane)}]"
            zero = f"({self.unit.type(dtype)})0"
            parts.append(f"({mask.text}[{lane}] ? {element} : {zero})" if mask else element)
        kind = self.unit.type(dtype, lanes)
        return self._new(f"({kind})({', '.join(parts)})", dtype, lanes)

    def store(self, access: MemoryAccess, value: Value) -> None:
        if not access.index.lanes and not access.mask:
            place = self._whole(access, value.dtype, value.lanes)
            self.lines.append(f"{place} = {value.text};")
            return
        for lane in range(value.lanes):
            guard = f"if ({access.mask.text}[{lane}]) " if access.mask else ""
            element = f"{self.names[access.ref]}[{self._one(access, lane)}]"
            self.lines.append(f"{guard}{element} = {value.text}[{lane}];")

    # control

    def place(self, kind: str) -> Value:
        """The number of the workgroup or of the lane."""
        name = "group" if kind == "grid" else "local"
        return self._new(f"(i32)get_{name}_id(0)", dt.int32)

    def barrier(self, *, wave: bool = False) -> None:
        if wave:
            raise TypeError("OpenCL's waves have no width that is known")
        self.lines.append("barrier(CLK_LOCAL_MEM_FENCE);")

    def order(self) -> None:
        """OpenCL C has no such hint: the compiler orders instructions as it likes."""

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        raise TypeError(f"OpenCL has no matrix step {step.form.name}")

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        self.count += 1
        name = f"at{self.count}"
        self.lines.append(f"for (i32 {name} = 0; {name} < {extent}; {name}++) {{")
        yield Value(name, dt.int32)
        self.lines.append("}")

    def finish(self, kernel: Kernel) -> str:
        """Types, helpers, and the kernel."""
        kinds = [self.unit.memory(memory_dtype(ref)) for ref in kernel.params]
        params = ", ".join(f"__global {kind} *restrict p{i}" for i, kind in enumerate(kinds))
        lines = [
            *self.unit.header(),
            f"__kernel __attribute__(({BLOCK.format(kernel.block)}))",
            f"void {ENTRY}{kernel.name}({params}) {{",
            *self.lines,
            "}",
        ]
        return "\n".join(lines) + "\n"
