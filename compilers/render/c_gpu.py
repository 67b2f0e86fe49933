"""What the languages of GPUs that are C share: a kernel of one lane, its places and its memory.

`GpuPrinter` walks as `CPrinter` does; a `Dialect` has a language's phrases, a `Unit` its types and
operators: GNU's vectors (`c_ops.Unit`, for HIP), or the language's own (`c_native.NativeUnit`, for
OpenCL C and MSL).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import SHARED_ALIGN_BYTES, WAVE_OPS, Kernel, Matrix, Ref
from compilers.render.c import CPrinter
from compilers.render.c_ops import Unit
from compilers.render.common import MemoryAccess, Value, alignment, memory_dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A language's phrases. In `entry` and `param`: {name} {block} {params}; {space} {kind} {i}."""

    name: str
    entry: str
    """The kernel's head: "__kernel void {name}({params})"."""
    param: str
    """One buffer of it, named p{i}: "{space}{kind} *p{i}"."""
    more_params: tuple[str, ...] = ()
    """After the buffers."""
    group: str
    """The number of this workgroup along x; any integer type."""
    lane: str
    """The number of this lane in its workgroup."""
    assume: str = ""
    """Tells the compiler a condition that holds: "__builtin_assume({});"."""
    barrier: tuple[str, ...]
    """All lanes meet; shared memory is seen by all."""
    wave_barrier: tuple[str, ...] = ()
    """The same among the lanes of a wave; () where waves are not known."""
    order: tuple[str, ...] = ()
    """Statements before it are issued before those after it; () where that cannot be said."""
    swap: str = ""
    """{value} of the lane that is {mask} away; "" where lanes do not exchange values."""
    spaces: Mapping[str, str] = field(default_factory=dict)
    """What stands before the type of memory: {"global": "__global ", "shared": "__local "}."""
    shared: str = ""
    """Before the declaration of an array in shared memory, where pointers to it have no space."""
    aligned: str = "__attribute__((aligned({})))"
    """After the declaration of an array."""
    align_bytes: int = SHARED_ALIGN_BYTES
    """Of arrays."""


class GpuPrinter(CPrinter):
    """Prints one constant per value, for one lane."""

    narrow = True

    def __init__(self, kernel: Kernel, dialect: Dialect, unit: Unit) -> None:
        super().__init__(Kernel(kernel.name, (), (), kernel.body), unit.features)
        self.unit, self.dialect, self.kernel = unit, dialect, kernel
        self.names = {ref: f"p{position}" for position, ref in enumerate(kernel.params)}
        for position, ref in enumerate(kernel.locals):
            name = self.names[ref] = f"m{position}"
            space = self.space(ref) or (dialect.shared if ref.space == "shared" else "")
            kind = f"{space}{self.unit.memory(memory_dtype(ref))}"
            aligned = dialect.aligned.format(dialect.align_bytes)
            self.lines.append(f"{kind} {name}[{max(ref.size, 1)}] {aligned};")

    def space(self, ref: Ref) -> str:
        """What stands before the type of the memory of `ref`."""
        return self.dialect.spaces.get(ref.space, "")

    # values

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        if op == "swap":
            return self.swapped(args[0], int(name))
        if op in WAVE_OPS:
            return self._new(f"({self.unit.type(dtype)}){self.of_wave(op, args[0])}", dtype)
        return super().emit(op, dtype, args, name)

    def swapped(self, value: Value, mask: int) -> Value:
        """The value of the lane `lane ^ mask`. Raises: TypeError where there is none."""
        if not self.dialect.swap:
            raise TypeError(f"{self.dialect.name}: lanes exchange no values here")
        text = self.dialect.swap.format(value=value.text, mask=mask)
        return self._new(text, value.dtype, value.lanes)

    def of_wave(self, op: str, value: Value) -> str:
        """ballot, below or among. Raises: TypeError where there are none."""
        raise TypeError(f"{self.dialect.name}: no {op} of a wave here")

    # memory

    def _element(self, ref: Ref, index: str) -> str:
        return f"{self.names[ref]}[{index}]"

    def _position(self, index: Value) -> str:
        return index.text if index.dtype is dt.int64 else f"(u32)({index.text})"

    def _at(self, access: MemoryAccess) -> str:
        return f"({self.names[access.ref]} + {self._position(access.index)})"

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        ref, index, mask = access.ref, access.index, access.mask
        dtype = memory_dtype(ref)
        if not index.lanes and not mask:
            align = alignment(dtype, lanes, access.unit, self.dialect.align_bytes)
            text = self.unit.read(dtype, lanes, align, self.space(ref), self._at(access))
            return self._new(text, dtype, lanes)
        self.unit.type(dtype, lanes)  # declared before what its elements need
        parts = []
        for lane in range(lanes):
            at = self.unit.lane(index, lane) if index.lanes else f"{index.text} + {lane}"
            wanted = mask and self.unit.lane(mask, lane)
            place = f"{wanted} ? {at} : 0" if wanted else at
            found = self._new(self._element(ref, place), dtype).text
            parts.append(f"({wanted} ? {found} : ({self.unit.type(dtype)})0)" if wanted else found)
        return self._new(self.unit.vector_of(dtype, parts), dtype, lanes)

    def store(self, access: MemoryAccess, value: Value) -> None:
        ref, index, mask = access.ref, access.index, access.mask
        if not index.lanes and not mask:
            align = alignment(value.dtype, value.lanes, access.unit, self.dialect.align_bytes)
            space = self.space(ref)
            self.lines.append(self.unit.write(value, align, space, self._at(access)))
            return
        for lane in range(value.lanes):
            at = self.unit.lane(index, lane) if index.lanes else f"{index.text} + {lane}"
            guard = f"if ({self.unit.lane(mask, lane)}) " if mask else ""
            self.lines.append(f"{guard}{self._element(ref, at)} = {self.unit.lane(value, lane)};")

    # control

    def place(self, kind: str) -> Value:
        """The number of the workgroup or of the lane."""
        text = self.dialect.group if kind == "grid" else self.dialect.lane
        count = self.kernel.grid if kind == "grid" else self.kernel.block
        value = self._new(f"(i32){text}", dt.int32)
        if self.dialect.assume:
            bounds = f"{value.text} >= 0 && {value.text} < {count}ll"
            self.lines.append(self.dialect.assume.format(bounds))
        return value

    def barrier(self, *, wave: bool = False) -> None:
        if wave and not self.dialect.wave_barrier:
            raise TypeError(f"{self.dialect.name}: no barrier of a wave here")
        self.lines += self.dialect.wave_barrier if wave else self.dialect.barrier

    def order(self) -> None:
        self.lines += self.dialect.order

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        raise TypeError(f"{self.dialect.name}: no matrix step {step.form.name}")

    def poll(self) -> None:
        """No GPU's kernel polls."""

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        self.count += 1
        name = f"at{self.count}"
        self.lines.append(f"for (i32 {name} = 0; {name} < {extent}; {name}++) {{")
        yield Value(name, dt.int32)
        self.lines.append("}")

    def finish(self, kernel: Kernel) -> str:
        """Types, helpers and the kernel."""
        dialect = self.dialect
        params = [
            dialect.param.format(space=self.space(ref), kind=self._kind(ref), i=i)
            for i, ref in enumerate(kernel.params)
        ]
        head = dialect.entry.format(
            name=kernel.name, block=kernel.block, params=", ".join((*params, *dialect.more_params))
        )
        body = [*self.opening(kernel), *self.lines]
        return "\n".join([*self.unit.header(), f"{head} {{", *body, "}"]) + "\n"

    def _kind(self, ref: Ref) -> str:
        return self.unit.memory(memory_dtype(ref))

    def opening(self, kernel: Kernel) -> list[str]:
        """The first lines of the body."""
        return []
