"""Kernel IR in a processor's shape to OpenCL C, for OpenCL devices that are processors.

A work item is a range of the grid, as a thread's is on the CPU device, so that vectors are the
kernel's own and not a driver's guess. Their compilers are clang, whose vectors these are.
"""

from __future__ import annotations

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import Kernel, Ref
from compilers.opencl.common import ENTRY, SPACES, ClUnit
from compilers.opencl.expand import expander
from compilers.render.c import CPrinter
from compilers.render.common import CACHE_LINE, MemoryAccess, Value, memory_dtype
from compilers.render.walk import Walker


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The program's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have, ValueError for a variable without a loop.
    """
    return Walker(kernel, HostClPrinter(kernel, features), expander(features)).run()


class HostClPrinter(CPrinter):
    """CPrinter's C with address spaces; arguments, then scratch memory and the grid."""

    def __init__(self, kernel: Kernel, features: frozenset[str]) -> None:
        super().__init__(Kernel(kernel.name, (), (), kernel.body), features)
        self.unit: ClUnit = ClUnit(features)
        self.names = {ref: f"p{position}" for position, ref in enumerate(kernel.params)}
        for position, ref in enumerate(kernel.locals):
            name = self.names[ref] = f"m{position}"
            kind = f"{SPACES[ref.space]}{self.unit.memory(memory_dtype(ref))}"
            self.lines.append(
                f"{kind} {name}[{max(ref.size, 1)}] __attribute__((aligned({CACHE_LINE})));"
                if ref.space == "register"
                else f"{kind} *const {name} = ({kind} *)(scratch + {ref.slot});"
            )

    def _place(self, ref: Ref, dtype: DType, lanes: int, align: int, index: str) -> str:
        kind = f"{SPACES[ref.space]}{self.unit.memory(dtype, lanes, align)}"
        return f"({kind} *)({self.names[ref]} + {index})"

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        ref, index, mask = access.ref, access.index, access.mask
        dtype = memory_dtype(ref)
        if index.lanes or mask:
            every = mask or self.splat(self.literal(True, dt.bool_), lanes)
            op = "gather" if index.lanes else "load"
            helper = self.unit.masked_in(ref.space, op, dtype, lanes)
            text = f"{helper}({self.names[ref]}, {index.text}, {every.text})"
        else:
            text = f"*{self._place(ref, dtype, lanes, 0, index.text)}"
        return self._new(text, dtype, lanes)

    def store(self, access: MemoryAccess, value: Value) -> None:
        ref, index, mask = access.ref, access.index, access.mask
        if index.lanes or mask:
            every = mask or self.splat(self.literal(True, dt.bool_), value.lanes)
            op = "scatter" if index.lanes else "store"
            helper = self.unit.masked_in(ref.space, op, value.dtype, value.lanes)
            self.lines.append(
                f"{helper}({self.names[ref]}, {index.text}, {value.text}, {every.text});"
            )
            return
        nbytes = value.dtype.itemsize * max(value.lanes, 1)
        align = min(CACHE_LINE, nbytes) if access.streaming else 0
        place = self._place(ref, value.dtype, value.lanes, align, index.text)
        self.lines.append(
            f"{self.unit.streamed()}({value.text}, {place});"
            if access.streaming
            else f"*{place} = {value.text};"
        )

    def poll(self) -> None:
        """OpenCL stops no kernel halfway."""

    def finish(self, kernel: Kernel) -> str:
        """Types, helpers, and the kernel."""
        kinds = [self.unit.memory(memory_dtype(ref)) for ref in kernel.params]
        params = "".join(f"__global {kind} *restrict p{i}, " for i, kind in enumerate(kinds))
        part = "(i64)(count * get_global_id(0) / get_global_size(0))"
        next_part = "(i64)(count * (get_global_id(0) + 1) / get_global_size(0))"
        slot = f" + get_global_id(0) * {kernel.scratch_bytes}ul" if kernel.scratch_bytes else ""
        lines = [
            *self.unit.header(),
            "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))",
            f"void {ENTRY}{kernel.name}({params}__global uchar *restrict memory, ulong count) {{",
            f"const i64 begin = {part}, end = {next_part};",
            f"__global uchar *const restrict scratch = memory{slot};",
            *self.lines,
            "}",
        ]
        return "\n".join(lines) + "\n"
