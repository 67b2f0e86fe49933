"""What MSL has beside C: values exchanged in a SIMD-group, votes, matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compilers.ir import Matrix
from compilers.math.build import UNSIGNED
from compilers.msl.functions import NATIVE
from compilers.msl.matrix_forms import FLOAT, HELD, LANES, PUT
from compilers.render.c_gpu import GpuPrinter
from compilers.render.common import Value
from compilers.render.dialects import MSL, MSL_WORDS
from queues.metal.kernel_code import ENTRY

BLOCK: Final = "[[max_total_threads_per_threadgroup({block})]]"
DIALECT: Final = replace(MSL, entry=f"{BLOCK}\nkernel void {ENTRY}{{name}}({{params}})")
WORDS: Final = replace(
    MSL_WORDS,
    functions={**MSL_WORDS.functions, **{name: name for name in (*NATIVE, "pow")}},
)
WORD_BYTES: Final = 4


class MslPrinter(GpuPrinter):
    """See the module. The lanes of a SIMD-group are numbered as those of the threadgroup are."""

    def swapped(self, value: Value, mask: int) -> Value:
        """64-bit values are exchanged as two words: MSL exchanges no longer ones.

        # src: Metal Shading Language Specification 3.1, 6.9.2 "SIMD-Group Functions"
        """
        if value.dtype.itemsize <= WORD_BYTES:
            return super().swapped(value, mask)
        own = self.unit.type(UNSIGNED[value.dtype.itemsize])
        moved = f"simd_shuffle_xor(as_type<uint2>(({own}){value.text}), {mask})"
        text = f"as_type<{self.unit.type(value.dtype)}>({moved})"
        return self._new(text, value.dtype, value.lanes)

    def of_wave(self, op: str, value: Value) -> str:
        """Bits of lanes; below and among count them."""
        if op == "ballot":
            return f"(simd_vote::vote_t)simd_ballot({value.text} != 0)"
        if op == "among":
            return f"popcount((uint){value.text})"
        return f"popcount((uint){value.text} & ((1u << lane % {LANES}u) - 1u))"

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        """A lane's two elements of each operand are put in, and those of the sum taken out."""
        self.count += 1
        a, b, c = (f"{name}{self.count}" for name in "abc")
        self.lines.append(f"{step.form.name} {a}, {b}; {FLOAT.name} {c};")
        for name, ref, index in ((a, step.a, a_index), (b, step.b, b_index)):
            for place in range(HELD):
                element = f"{self.names[ref]}[{index.text} + {place}]"
                value = PUT[step.form.dtype].format(element)
                self.lines.append(f"{name}.thread_elements()[{place}] = {value};")
        sums = [f"{self.names[step.acc]}[{step.slot + place}]" for place in range(HELD)]
        for place, total in enumerate(sums):
            self.lines.append(f"{c}.thread_elements()[{place}] = {total};")
        self.lines.append(f"simdgroup_multiply_accumulate({c}, {a}, {b}, {c});")
        for place, total in enumerate(sums):
            self.lines.append(f"{total} = {c}.thread_elements()[{place}];")
