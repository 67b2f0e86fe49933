"""Kernel IR to C with vector extensions (clang), with the same results as the LLVM IR renderer."""

from __future__ import annotations

from collections.abc import Sequence

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.index import Var
from compilers.ir import Kernel, Ref
from compilers.math import Expander
from compilers.render_c_ops import Unit, literal_text
from compilers.render_common import Value, memory_dtype
from compilers.render_walk import Walker

CACHE_LINE = 64


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The translation unit's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have, ValueError for a variable without a loop.
    """
    expander = Expander(features, native_half=False)
    return Walker(kernel, CPrinter(kernel, features), expander).run()


class CPrinter:
    """Prints one constant per value. Integers are unsigned until an op needs their sign."""

    def __init__(self, kernel: Kernel, features: frozenset[str]) -> None:
        self.unit = Unit(features)
        self.lines: list[str] = []
        self.count = 0
        self.loops = 0
        self.names: dict[Ref, str] = {}
        for position, ref in enumerate(kernel.params):
            self.names[ref] = f"p{position}"
        for position, ref in enumerate(kernel.locals):
            self._local(ref, f"m{position}")

    def _local(self, ref: Ref, name: str) -> None:
        self.names[ref] = name
        kind = self.unit.memory(memory_dtype(ref))
        if ref.space == "register":
            self.lines.append(
                f"{kind} {name}[{max(ref.size, 1)}] __attribute__((aligned({CACHE_LINE})));"
            )
        else:
            self.lines.append(f"{kind} *const {name} = ({kind} *)(scratch + {ref.slot});")

    def _new(self, text: str, dtype: DType, lanes: int) -> Value:
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"const {self.unit.type(dtype, lanes)} {name} = {text};")
        return Value(name, dtype, lanes)

    # values

    def literal(self, value: float, dtype: DType) -> Value:
        return Value(literal_text(value, dtype), dtype, 0, literal=True)

    def iota(self, lanes: int, dtype: DType) -> Value:
        numbers = ", ".join(str(lane) for lane in range(lanes))
        return Value(f"(({self.unit.type(dtype, lanes)}){{{numbers}}})", dtype, lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        kind = self.unit.type(value.dtype, lanes)
        text = f"-{value.text}" if value.dtype is dt.bool_ else value.text
        if value.literal:
            return Value(f"(({kind})({text}))", value.dtype, lanes)
        return self._new(f"({kind})({text})", value.dtype, lanes)

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str = "") -> Value:
        text = self.unit.operation(op, dtype, args, name)
        return self._new(text, dtype, args[0].lanes)

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        places = ", ".join(str(place) for place in order)
        text = f"__builtin_shufflevector({a.text}, {b.text}, {places})"
        return self._new(text, a.dtype, len(order))

    # memory

    def load(self, ref: Ref, index: Value) -> Value:
        return self._new(f"{self.names[ref]}[(i64){index.text}]", memory_dtype(ref), 0)

    def load_lanes(self, ref: Ref, index: Value, lanes: int, mask: Value | None) -> Value:
        dtype, base = memory_dtype(ref), self.names[ref]
        if mask is None:
            kind = self.unit.memory(dtype, lanes)
            return self._new(f"*(const {kind} *)({base} + (i64){index.text})", dtype, lanes)
        helper = self.unit.masked("load", dtype, lanes)
        return self._new(f"{helper}({base}, {index.text}, {mask.text})", dtype, lanes)

    def gather(self, ref: Ref, index: Value, mask: Value | None) -> Value:
        dtype = memory_dtype(ref)
        helper = self.unit.masked("gather", dtype, index.lanes)
        condition = mask.text if mask is not None else self._all(index.lanes)
        return self._new(
            f"{helper}({self.names[ref]}, {index.text}, {condition})", dtype, index.lanes
        )

    def _all(self, lanes: int) -> str:
        return self.splat(self.literal(True, dt.bool_), lanes).text

    def store(self, ref: Ref, index: Value, value: Value) -> None:
        self.lines.append(f"{self.names[ref]}[(i64){index.text}] = {value.text};")

    def store_lanes(
        self, ref: Ref, index: Value, value: Value, mask: Value | None, streaming: bool
    ) -> None:
        base, lanes = self.names[ref], value.lanes
        if mask is not None:
            helper = self.unit.masked("store", value.dtype, lanes)
            self.lines.append(f"{helper}({base}, {index.text}, {value.text}, {mask.text});")
            return
        align = value.dtype.itemsize
        if streaming:
            align = min(CACHE_LINE, align * lanes)
        kind = self.unit.memory(value.dtype, lanes, align)
        place = f"({kind} *)({base} + (i64){index.text})"
        self.lines.append(
            f"__builtin_nontemporal_store({value.text}, {place});"
            if streaming
            else f"*{place} = {value.text};"
        )

    def scatter(self, ref: Ref, index: Value, value: Value, mask: Value | None) -> None:
        helper = self.unit.masked("scatter", value.dtype, value.lanes)
        condition = mask.text if mask is not None else self._all(value.lanes)
        self.lines.append(f"{helper}({self.names[ref]}, {index.text}, {value.text}, {condition});")

    # control

    def begin_loop(self, var: Var, extent: int | None) -> Value:
        self.loops += 1
        name = f"i{self.loops}"
        start, stop = ("begin", "end") if extent is None else ("0", str(extent))
        self.lines.append(f"for (u64 {name} = {start}; {name} < {stop}; {name}++) {{")
        return Value(name, dt.int64)

    def end_loop(self) -> None:
        self.lines.append("}")

    def begin_if(self, condition: Value) -> None:
        self.lines.append(f"if ({condition.text}) {{")

    def end_if(self) -> None:
        self.lines.append("}")

    def finish(self, kernel: Kernel) -> str:
        """Types, helpers, the body, and the entry that unpacks its arguments."""
        kinds = [self.unit.memory(memory_dtype(ref)) for ref in kernel.params]
        params = "".join(f"{kind} *restrict p{i}, " for i, kind in enumerate(kinds))
        passed = "".join(f"({kind} *)args[{i}], " for i, kind in enumerate(kinds))
        return (
            "\n".join(
                [
                    *self.unit.header(),
                    f"static __attribute__((noinline)) void {kernel.name}_body({params}"
                    "u64 begin, u64 end, char *restrict scratch) {",
                    *self.lines,
                    "}",
                    f"void {kernel.name}(const u64 *args, u64 begin, u64 end, void *scratch) {{",
                    f"{kernel.name}_body({passed}begin, end, (char *)scratch);",
                    "}",
                ]
            )
            + "\n"
        )
