"""Kernel IR with lanes to ir3 on virtual registers: every value of a vector is a register."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import Kernel, Matrix
from compilers.qcom.emitter import Emitter, literal
from compilers.qcom.images import Images
from compilers.qcom.memory import Memory
from compilers.qcom.ops import computed, constant
from compilers.render.common import LanesApart, MemoryAccess, Value, memory_dtype

_PARAM_WORDS: Final = 2
"""Constants of a parameter; behind them is the number of the launch's first workgroup."""
HEAD: Final = "ir3 {generation} {registers} {block} {shared} {params}{textures}"
"""The first line: what the code depends on beside its lines."""


class Ir3Printer(LanesApart):
    """The text of a vector is its lanes' scalars with commas between them."""

    narrow = True

    def __init__(
        self, kernel: Kernel, generation: int, registers: int, images: Images, *,
        flush16: bool = False,
    ) -> None:  # fmt: skip
        self.kernel, self.generation, self.registers = kernel, generation, registers
        self.code = Emitter(flush16=flush16)
        self.images = images
        self.memory = Memory(kernel, self.code, generation, images)

    # values

    def literal(self, value: float, dtype: DType) -> Value:
        return Value(constant(value, dtype), dtype)

    def iota(self, lanes: int, dtype: DType) -> Value:
        return _vector([constant(place, dtype) for place in range(lanes)], dtype)

    def splat(self, value: Value, lanes: int) -> Value:
        return _vector([value.text] * lanes, value.dtype)

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        if op == "swap":
            made = [self._swapped(one, int(name)) for one in _lanes(args[0])]
            return _vector(made, dtype) if args[0].lanes else Value(made[0], dtype)
        kinds = [arg.dtype for arg in args]
        columns = zip(*(_lanes(arg) for arg in args), strict=True)
        made = [computed(self.code, op, dtype, kinds, column) for column in columns]
        return _vector(made, dtype) if args[0].lanes else Value(made[0], dtype)

    def _swapped(self, scalar: str, mask: int) -> str:
        """A scalar of the lane whose number differs in one bit."""
        words = scalar.split(":")
        return ":".join(self.code.op("shfl.xor", word, literal(mask)) for word in words)

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        both = [*_lanes(a), *_lanes(b)]
        return _vector([both[place] for place in order], a.dtype)

    # memory

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        dtype, index = memory_dtype(access.ref), access.index
        if not index.lanes and access.mask is None:
            found = self.memory.load(access.ref, index.text, max(lanes, 1), access.unit)
            return _vector(found, dtype) if lanes else Value(found[0], dtype)
        found = []
        for lane, (at, mask) in enumerate(self._places(access, lanes)):
            place = Value(at, index.dtype)
            if not index.lanes:
                place = self._plus(place, lane)
            found.append(self._load_one(access, place, mask))
        return _vector(found, dtype)

    def _places(self, access: MemoryAccess, lanes: int) -> Iterator[tuple[str, str | None]]:
        index = _lanes(access.index) if access.index.lanes else [access.index.text] * lanes
        masks: Sequence[str | None] = _lanes(access.mask) if access.mask else [None] * lanes
        return zip(index, masks, strict=True)

    def _plus(self, place: Value, number: int) -> Value:
        return self.emit("add", place.dtype, (place, self.literal(number, place.dtype)), "")

    def _load_one(self, access: MemoryAccess, place: Value, mask: str | None) -> str:
        """An element; where its mask is false the first is read, and 0 the result."""
        if mask is None:
            return self.memory.load(access.ref, place.text, 1)[0]
        condition, zero = Value(mask, dt.bool_), self.literal(0, place.dtype)
        place = self.emit("where", place.dtype, (condition, place, zero), "")
        dtype = memory_dtype(access.ref)
        found = Value(self.memory.load(access.ref, place.text, 1)[0], dtype)
        return self.emit("where", dtype, (condition, found, self.literal(0, dtype)), "").text

    def store(self, access: MemoryAccess, value: Value) -> None:
        if not access.index.lanes and access.mask is None:
            self.memory.store(access.ref, access.index.text, _lanes(value))
            return
        for lane, (at, mask) in enumerate(self._places(access, max(value.lanes, 1))):
            place = Value(at, access.index.dtype)
            place = place if access.index.lanes else self._plus(place, lane)
            one = [_lanes(value)[lane]]
            if mask is None:
                self.memory.store(access.ref, place.text, one)
            else:
                with self.code.branch(mask):
                    self.memory.store(access.ref, place.text, one)

    # control

    def place(self, kind: str) -> Value:
        """The number of the workgroup or of the lane."""
        if kind == "grid":
            base = f"c{_PARAM_WORDS * len(self.kernel.params)}"
            name, most = (
                self.code.once("add.u", self.code.once("mov", "g0"), base),
                self.kernel.grid,
            )
        else:
            name, most = self.code.once("mov", "r0"), self.kernel.block
        return Value(self.code.bounded(name, max(most - 1, 0)), dt.int32)

    def barrier(self, *, wave: bool = False) -> None:
        if wave:
            raise TypeError("ir3: no barrier of a wave here")
        self.code.line("fence")
        self.code.line("bar")

    def order(self) -> None:
        """Instructions stay in the order in which they are printed."""

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        raise TypeError(f"ir3: no matrix step {step.form.name}")

    def poll(self) -> None:
        """No GPU's kernel polls."""

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        if extent is None:
            raise TypeError("ir3: a GPU's workgroups are no loop")
        with self.code.loop(extent) as counter:
            yield Value(counter, dt.int32)

    @contextmanager
    def branch(self, condition: Value) -> Iterator[None]:
        with self.code.branch(condition.text):
            yield

    def rarely(self, condition: Value, usual: Value, other: Callable[[], Value]) -> Value:
        """Registers that a branch changes."""
        code = self.code
        words = [word for lane in _lanes(usual) for word in lane.split(":")]
        names = [code.name("m") for _ in words]
        for name, word in zip(names, words, strict=True):
            code.line("mov", name, word)
        some = reduce(lambda a, b: code.op("or.b", a, b), _lanes(condition))
        with code.branch(some):
            chosen = self.emit("where", usual.dtype, [condition, other(), usual], "")
            words = [word for lane in _lanes(chosen) for word in lane.split(":")]
            for name, word in zip(names, words, strict=True):
                code.line("mov", name, word)
        found = iter([code.op("mov", name) for name in names])
        each = [":".join(next(found) for _ in lane.split(":")) for lane in _lanes(usual)]
        return _vector(each, usual.dtype) if usual.lanes else Value(each[0], usual.dtype)

    def finish(self, kernel: Kernel) -> str:
        """The kernel's text."""
        head = HEAD.format(
            generation=self.generation,
            registers=self.registers,
            block=max(kernel.block, 1),
            shared=kernel.shared_bytes,
            params=len(kernel.params),
            textures=self.images.textures(kernel.params),
        )
        return "\n".join([head, *self.code.head, *self.code.lines, "end"]) + "\n"


def _lanes(value: Value) -> list[str]:
    return value.text.split(",")


def _vector(parts: Sequence[str], dtype: DType) -> Value:
    return Value(",".join(parts), dtype, len(parts))
