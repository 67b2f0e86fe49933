"""Kernel IR with lanes to WGSL: one module with one entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import Kernel, Matrix, Ref
from compilers.render.common import LanesApart, MemoryAccess, Value, memory_dtype
from compilers.wgsl.exact import Exact, is_literal
from compilers.wgsl.words import MAX_LANES, WORD_BITS, Words, scalar, type_of
from queues.webgpu.kernel_code import BLOCK, ENTRY, READ, SUBGROUPS, WRITE

HEAD: Final = "//! {access} {block} {shared}"
"""The first line of a module: what the driver needs."""
_LANES: Final = "xyzw"
SWAP: Final = "subgroupShuffleXor"


class WgslPrinter(LanesApart):
    """Prints one `let` per value, for one lane. `whole`: arrays that are declared as vec4, because
    they are accessed no other way."""

    narrow = True

    def __init__(
        self, kernel: Kernel, words: Words, stored: frozenset[Ref], whole: frozenset[Ref]
    ) -> None:
        self.kernel, self.words, self.stored, self.whole = kernel, words, stored, whole
        self.lines: list[str] = []
        self.exact = Exact()
        self.count = 0
        self.enabled: set[str] = set()
        """Extensions of the language that the module uses."""
        self.parts: set[Ref] = set()
        """Arrays of which something other than an aligned vec4 was accessed."""
        self.names = {ref: f"p{place}" for place, ref in enumerate(kernel.params)}
        self.names |= {ref: f"m{place}" for place, ref in enumerate(kernel.locals)}

    # values

    def _new(self, text: str, dtype: DType, lanes: int = 0) -> Value:
        self.words.check(dtype)
        self.count += 1
        self.lines.append(f"let v{self.count} = {text};")
        return Value(f"v{self.count}", dtype, lanes)

    def literal(self, value: float, dtype: DType) -> Value:
        return Value(self.words.literal(value, dtype), dtype)

    def iota(self, lanes: int, dtype: DType) -> Value:
        parts = [self.words.literal(number, dtype) for number in range(lanes)]
        return Value(self._vector(parts, dtype), dtype, lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        made = self._new(f"{type_of(value.dtype, lanes)}({value.text})", value.dtype, lanes)
        self.exact.spread(made, value)
        return made

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        if op == "swap":
            return self._swapped(self._named(args[0]), int(name))
        constant = all(map(is_literal, args))
        if constant or any(arg.dtype.bits > WORD_BITS for arg in args if is_literal(arg)):
            args = [self._named(arg) for arg in args]
        held = self.exact.operands(op, args)
        text = self.exact.widened(op, dtype, args, self.words.operation(op, dtype, held))
        made = self._new(text, dtype, args[0].lanes)
        self.exact.made(made, op, args)
        return made

    def _swapped(self, value: Value, mask: int) -> Value:
        """The value of the lane `lane ^ mask` of a subgroup; a bool's is exchanged as a word.

        Lanes of a workgroup of one dimension are numbered from subgroup to subgroup.
        # src: Chrome 144, "WGSL subgroup_id extension": local_invocation_index is
        # subgroup_invocation_id + subgroup_size * subgroup_id
        """
        if SUBGROUPS not in self.words.features or value.dtype.bits > WORD_BITS:
            raise TypeError(f"WGSL: lanes exchange no {value.dtype.name} here")
        self.enabled.add(SUBGROUPS)
        kind = type_of(dt.uint32, value.lanes)
        if value.dtype.kind != "b":
            return self._new(f"{SWAP}({value.text}, {mask}u)", value.dtype, value.lanes)
        word = f"select({kind}(0u), {kind}(1u), {value.text})"
        return self._new(f"{SWAP}({word}, {mask}u) != {kind}(0u)", value.dtype, value.lanes)

    def _named(self, value: Value) -> Value:
        """A literal under a name: compilers evaluate constants by other rules, or not at all."""
        return self._new(value.text, value.dtype, value.lanes) if is_literal(value) else value

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        parts = [
            self._lane(a, place) if place < a.lanes else self._lane(b, place - a.lanes)
            for place in order
        ]
        return self._new(self._vector(parts, a.dtype), a.dtype, len(order))

    def _lane(self, value: Value, lane: int) -> str:
        return f"{value.text}.{_LANES[lane]}" if value.lanes else value.text

    def _vector(self, parts: Sequence[str], dtype: DType) -> str:
        if len(parts) > MAX_LANES:
            raise TypeError(f"WGSL: no vector of {len(parts)} lanes")
        return f"{type_of(dtype, len(parts))}({', '.join(parts)})"

    # memory

    def _packed(self, ref: Ref) -> bool:
        """Whether several elements are in a word: of narrow dtypes in buffers."""
        return ref.space == "global" and memory_dtype(ref).bits < WORD_BITS

    def _whole_access(self, access: MemoryAccess, lanes: int) -> bool:
        """Whether it is an aligned vec4 of 32-bit elements; others are remembered."""
        fits = (
            lanes == MAX_LANES and not access.index.lanes and access.mask is None
            and access.unit % MAX_LANES == 0 and memory_dtype(access.ref).bits == WORD_BITS
        )  # fmt: skip
        if not fits:
            self.parts.add(access.ref)
        return fits and access.ref in self.whole

    def _element(self, ref: Ref, index: str) -> str:
        name, dtype = self.names[ref], memory_dtype(ref)
        if not self._packed(ref):
            return f"{name}[{index}]"
        each = WORD_BITS // dtype.bits
        shift = each.bit_length() - 1
        word, rest = f"{name}[u32({index}) >> {shift}u]", WORD_BITS - dtype.bits
        place = f"(u32({index}) & {each - 1}u) * {dtype.bits}u"
        if dtype.kind == "i":  # Mesa 22 extends some bit fields wrongly: shifts do it
            return f"((bitcast<i32>({word}) << ({rest}u - {place})) >> {rest}u)"
        return f"(({word} >> ({place})) & {(1 << dtype.bits) - 1:#x}u)"

    def _index(self, index: Value) -> str:
        if index.dtype.bits > WORD_BITS:
            return f"u32({index.text})"
        return index.text

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        ref, index, mask = access.ref, access.index, access.mask
        dtype = memory_dtype(ref)
        if self._whole_access(access, lanes):
            return self._new(f"{self.names[ref]}[u32({index.text}) >> 2u]", dtype, lanes)
        if not lanes:
            return self._new(self._element(ref, self._index(index)), dtype)
        each = WORD_BITS // dtype.bits if self._packed(ref) else 0
        if each and not index.lanes and not mask and lanes % each == 0 and not access.unit % each:
            return self._new(self._unpacked(ref, index, lanes), dtype, lanes)
        parts = []
        base = self._index(index)
        for lane in range(lanes):
            at = f"{base}.{_LANES[lane]}" if index.lanes else f"({base} + {lane})"
            if mask:
                at = self._new(f"select(0, {at}, {self._lane(mask, lane)})", dt.int32).text
            found = self._element(ref, at)
            if mask:
                zero = self.words.literal(0, dtype)
                found = f"select({zero}, {found}, {self._lane(mask, lane)})"
            parts.append(found)
        return self._new(self._vector(parts, dtype), dtype, lanes)

    def _unpacked(self, ref: Ref, index: Value, lanes: int) -> str:
        """Whole words of narrow elements."""
        dtype = memory_dtype(ref)
        each = WORD_BITS // dtype.bits
        shift = each.bit_length() - 1
        parts = []
        for place in range(lanes // each):
            at = f"(u32({self._index(index)}) >> {shift}u) + {place}u"
            text = f"{self.names[ref]}[{at}]"
            text = f"bitcast<i32>({text})" if dtype.kind == "i" else text
            word = self._new(text, dt.BY_NAME["int32" if dtype.kind == "i" else "uint32"]).text
            parts += [
                f"extractBits({word}, {number * dtype.bits}u, {dtype.bits}u)"
                for number in range(each)
            ]
        return self._vector(parts, dtype)

    def store(self, access: MemoryAccess, value: Value) -> None:
        ref, index, mask = access.ref, access.index, access.mask
        name = self.names[ref]
        if self._whole_access(access, value.lanes):
            self.lines.append(f"{name}[u32({index.text}) >> 2u] = {value.text};")
            return
        if self._packed(ref):
            self._store_words(access, value)
            return
        if not value.lanes:
            self.lines.append(f"{name}[{self._index(index)}] = {value.text};")
            return
        base = self._index(index)
        for lane in range(value.lanes):
            at = f"{base}.{_LANES[lane]}" if index.lanes else f"{base} + {lane}"
            text = f"{name}[{at}] = {self._lane(value, lane)};"
            self.lines.append(f"if ({self._lane(mask, lane)}) {{ {text} }}" if mask else text)

    def _store_words(self, access: MemoryAccess, value: Value) -> None:
        """Narrow elements, a whole word at a time; masked ones are past the end, and 0 there."""
        each = WORD_BITS // value.dtype.bits
        if access.index.lanes or value.lanes % each or not value.lanes:
            raise TypeError(f"WGSL: {value.lanes} elements of {value.dtype.name} are no words")
        shift = each.bit_length() - 1
        base = f"(u32({self._index(access.index)}) >> {shift}u)"
        for word in range(value.lanes // each):
            parts = []
            for number in range(each):
                lane = word * each + number
                one = Value(self._lane(value, lane), value.dtype)
                bits = self.words.bits_of(one)
                if access.mask:
                    bits = f"select(0u, {bits}, {self._lane(access.mask, lane)})"
                parts.append(f"({bits} << {number * value.dtype.bits}u)")
            self.lines.append(f"{self.names[access.ref]}[{base} + {word}u] = {' | '.join(parts)};")

    # control

    def place(self, kind: str) -> Value:
        """The number of the workgroup or of the lane."""
        text = "group.x" if kind == "grid" else "lane.x"
        return self._new(f"i32({text})", dt.int32)

    def barrier(self, *, wave: bool = False) -> None:
        if wave:
            raise TypeError("WGSL: no barrier of a wave here")
        self.lines.append("workgroupBarrier();")

    def order(self) -> None:
        """WGSL has no such statement, and needs none: lanes meet at barriers."""

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        raise TypeError(f"WGSL: no matrix step {step.form.name}")

    def poll(self) -> None:
        """No GPU's kernel polls."""

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        self.count += 1
        name = f"at{self.count}"
        self.lines.append(f"for (var {name}: i32 = 0; {name} < {extent}; {name}++) {{")
        yield Value(name, dt.int32)
        self.lines.append("}")

    @contextmanager
    def branch(self, condition: Value) -> Iterator[None]:
        self.lines.append(f"if ({condition.text}) {{")
        yield
        self.lines.append("}")

    def rarely(self, condition: Value, usual: Value, other: Callable[[], Value]) -> Value:
        """A variable that a branch changes."""
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"var {name} = {usual.text};")
        text = f"any({condition.text})" if condition.lanes else condition.text
        with self.branch(Value(text, dt.bool_)):
            chosen = self.emit("where", usual.dtype, [condition, other(), usual], "")
            self.lines.append(f"{name} = {chosen.text};")
        return Value(name, usual.dtype, usual.lanes)

    # the module

    def _array(self, ref: Ref) -> str:
        """The type of an array's elements."""
        if ref in self.whole:
            return type_of(memory_dtype(ref), MAX_LANES)
        return "u32" if self._packed(ref) else scalar(memory_dtype(ref))

    def _stride(self, ref: Ref) -> int:
        """Bytes from one of a buffer's elements, as it is declared, to the next."""
        word = max(memory_dtype(ref).itemsize, WORD_BITS // 8)
        return word * MAX_LANES if ref in self.whole else word

    def _sized(self, ref: Ref) -> str:
        size = -(-ref.size // MAX_LANES) if ref in self.whole else ref.size
        return f"array<{self._array(ref)}, {max(size, 1)}>"

    def finish(self, kernel: Kernel) -> str:
        """Buffers, shared memory, helpers, the entry."""
        access = "".join(WRITE if ref in self.stored else READ for ref in kernel.params)
        modes = {WRITE: "read_write", READ: "read"}
        block, first = max(kernel.block, 1), kernel.params[0]
        lines = [HEAD.format(access=access, block=block, shared=kernel.shared_bytes)]
        lines += [f"enable {name};" for name in sorted(self.enabled)]
        for place, (ref, one) in enumerate(zip(kernel.params, access, strict=True)):
            self.words.check(memory_dtype(ref))
            lines.append(
                f"@group(0) @binding({place}) var<storage, {modes[one]}> p{place}: "
                f"array<{self._array(ref)}>;"
            )
        inside = []
        for ref in kernel.locals:
            self.words.check(memory_dtype(ref))
            if ref.space == "shared":
                lines.append(f"var<workgroup> {self.names[ref]}: {self._sized(ref)};")
            else:
                inside.append(f"var {self.names[ref]}: {self._sized(ref)};")
        lines += [
            *self.words.declared.values(),
            f"@compute {BLOCK.format(block, 1, 1)}",
            f"fn {ENTRY}{kernel.name}(@builtin(workgroup_id) group: vec3<u32>, "
            "@builtin(local_invocation_id) lane: vec3<u32>) {",
            *self.exact.opening(f"arrayLength(&{self.names[first]})", self._stride(first)),
            *inside,
            *self.lines,
            "}",
        ]
        return "\n".join(lines) + "\n"
