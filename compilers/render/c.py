"""Kernel IR to C with vector extensions (clang), with the same results as the LLVM IR renderer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import Kernel, Ref
from compilers.math.expand import Expander
from compilers.render.c_ops import Unit
from compilers.render.common import CACHE_LINE, HostPrinter, MemoryAccess, Value, memory_dtype
from compilers.render.walk import Walker


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The translation unit's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have, ValueError for a variable without a loop.
    """
    expander = Expander(features, native_half=False)
    return Walker(kernel, CPrinter(kernel, features), expander).run()


class CPrinter(HostPrinter):
    """Prints one constant per value. Signed integers wrap (-fwrapv), and a bool is 0 or -1."""

    def __init__(self, kernel: Kernel, features: frozenset[str]) -> None:
        self.unit = Unit(features)
        self.lines: list[str] = []
        self.count = 0
        self.polls = False
        self.names = {ref: f"p{position}" for position, ref in enumerate(kernel.params)}
        for position, ref in enumerate(kernel.locals):
            name = self.names[ref] = f"m{position}"
            kind = self.unit.memory(memory_dtype(ref))
            self.lines.append(
                f"{kind} {name}[{max(ref.size, 1)}] __attribute__((aligned({CACHE_LINE})));"
                if ref.space == "register"
                else f"{kind} *const {name} = ({kind} *)(scratch + {ref.slot});"
            )

    def _new(self, text: str, dtype: DType, lanes: int = 0) -> Value:
        self.count += 1
        self.lines.append(f"const {self.unit.type(dtype, lanes)} v{self.count} = {text};")
        return Value(f"v{self.count}", dtype, lanes)

    # values

    def literal(self, value: float, dtype: DType) -> Value:
        return Value(self.unit.literal(value, dtype), dtype)

    def iota(self, lanes: int, dtype: DType) -> Value:
        return Value(self.unit.numbers(dtype, lanes), dtype, lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        return self._new(self.unit.splat(value, lanes), value.dtype, lanes)

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        text = self.unit.operation(op, dtype, args, name)
        return self._new(text, dtype, args[0].lanes)

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        return self._new(self.unit.shuffle(a, b, order), a.dtype, len(order))

    # memory

    def _masked(self, op: str, kind: Value, ref: Ref, operands: Sequence[Value]) -> str:
        helper = self.unit.masked(op, kind.dtype, kind.lanes)
        return f"{helper}({', '.join([self.names[ref], *(value.text for value in operands)])})"

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        ref, index, mask = access.ref, access.index, access.mask
        dtype, base = memory_dtype(ref), self.names[ref]
        if index.lanes or mask:
            every = mask or self.splat(self.literal(True, dt.bool_), lanes)
            op = "gather" if index.lanes else "load"
            text = self._masked(op, Value("", dtype, lanes), ref, (index, every))
        else:
            kind = self.unit.memory(dtype, lanes)
            text = f"*(const {kind} *)({base} + {index.text})"
        return self._new(text, dtype, lanes)

    def store(self, access: MemoryAccess, value: Value) -> None:
        ref, index, mask = access.ref, access.index, access.mask
        if index.lanes or mask:
            every = mask or self.splat(self.literal(True, dt.bool_), value.lanes)
            op = "scatter" if index.lanes else "store"
            self.lines.append(f"{self._masked(op, value, ref, (index, value, every))};")
            return
        nbytes = value.dtype.itemsize * max(value.lanes, 1)
        align = min(CACHE_LINE, nbytes) if access.streaming else value.dtype.itemsize
        kind = self.unit.memory(value.dtype, value.lanes, align)
        place = f"({kind} *)({self.names[ref]} + {index.text})"
        self.lines.append(
            f"__builtin_nontemporal_store({value.text}, {place});"
            if access.streaming
            else f"*{place} = {value.text};"
        )

    # control

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        self.count += 1
        name = f"at{self.count}"
        start, stop = ("(i64)begin", "(i64)end") if extent is None else ("0", str(extent))
        self.lines.append(f"for (i64 {name} = {start}; {name} < {stop}; {name}++) {{")
        yield Value(name, dt.int64)
        self.lines.append("}")

    def poll(self) -> None:
        self.polls = True
        self.lines.append("if (__builtin_expect(*(const volatile i64 *)hold < 0, 0)) return;")

    @contextmanager
    def branch(self, condition: Value) -> Iterator[None]:
        self.lines.append(f"if ({condition.text}) {{")
        yield
        self.lines.append("}")

    def rarely(self, condition: Value, usual: Value, other: Callable[[], Value]) -> Value:
        """A variable that a branch changes."""
        self.count += 1
        name, kind = f"v{self.count}", self.unit.type(usual.dtype, usual.lanes)
        self.lines.append(f"{kind} {name} = {usual.text};")
        parts = [self.unit.lane(condition, lane) for lane in range(condition.lanes)]
        with self.branch(Value(" | ".join(parts) or condition.text, dt.bool_)):
            chosen = self.emit("where", usual.dtype, [condition, other(), usual], "")
            self.lines.append(f"{name} = {chosen.text};")
        return Value(name, usual.dtype, usual.lanes)

    def finish(self, kernel: Kernel) -> str:
        """Types, helpers, the body, and the entry that unpacks its arguments."""
        kinds = [self.unit.memory(memory_dtype(ref)) for ref in kernel.params]
        params = "".join(f"{kind} *restrict p{i}, " for i, kind in enumerate(kinds))
        passed = "".join(f"({kind} *)args[{i}], " for i, kind in enumerate(kinds))
        hold, given = (", const u64 *hold", ", args - 1") if self.polls else ("", "")
        lines = [
            *self.unit.header(),
            f"static __attribute__((noinline)) void {kernel.name}_body({params}"
            f"u64 begin, u64 end, char *restrict scratch{hold}) {{",
            *self.lines,
            "}",
            f"void {kernel.name}(const u64 *args, u64 begin, u64 end, void *scratch) {{",
            f"{kernel.name}_body({passed}begin, end, (char *)scratch{given});",
            "}",
        ]
        return "\n".join(lines) + "\n"
