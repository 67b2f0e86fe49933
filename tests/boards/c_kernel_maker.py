"""Random C whose meaning C fixes entirely: the same bits on every correct machine.

A unit is OpenCL C for amdgcn and plain C for the host, by macros. Integers wrap (-fwrapv), shift
counts are masked, divisors guarded, indices masked, loops bounded; float arithmetic is never
contracted, and floats become integers only inside a range that holds them.
"""

from __future__ import annotations

import random
from collections.abc import Callable

ITEMS = 64
"""Work-items of a launch."""
INTEGERS_IN, FLOATS_IN, INTEGERS_OUT, FLOATS_OUT = 6, 4, 6, 3
"""Elements of each buffer for a work-item."""
_INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
_FLOATS = ("f32", "f64")
_HEAD = """#ifdef GPU
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define MEM global
#define ENTRY kernel void
#define BEGIN int id = __builtin_amdgcn_workgroup_id_x() * 32 + __builtin_amdgcn_workitem_id_x(); {
#define END }
typedef char i8; typedef long i64; typedef unsigned long u64;
#else
#define MEM
#define ENTRY void
#define BEGIN for (int id = 0; id < ITEMS; id++) {
#define END }
typedef signed char i8; typedef long long i64; typedef unsigned long long u64;
#endif
typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned u32; typedef float f32; typedef double f64;
static i64 to_int(f64 x) { return x > -1e9 && x < 1e9 ? (i64)x : 77; }
static i64 divide(i64 a, i64 b) { return b == 0 || b == -1 ? a : a / b; }
static i64 rest(i64 a, i64 b) { return b == 0 || b == -1 ? b : a % b; }
static u64 divide_u(u64 a, u64 b) { return b == 0 ? a : a / b; }
static i32 divide_w(i32 a, i32 b) { return b == 0 || b == -1 ? a : a / b; }
static u32 rest_w(u32 a, u32 b) { return b == 0 ? a : a % b; }
"""


def width(kind: str) -> int:
    return int(kind[1:])


class Maker:
    """One random kernel."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.integers: dict[str, str] = {}
        self.floats: dict[str, str] = {}
        self.arrays: dict[str, tuple[str, int]] = {}
        self.readonly: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.work = 1
        self.names = 0

    def kernel(self, name: str) -> str:
        self._declare()
        for _ in range(self.random.randint(5, 10)):
            self.statement()
        self._results()
        parameters = "MEM const i64 *in, MEM const f64 *fin, MEM i64 *out, MEM f64 *fout"
        return "\n".join([f"ENTRY {name}({parameters}) {{ BEGIN", *self.lines, "END }", ""])

    def _line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def _name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def _declare(self) -> None:
        pick = self.random.choice
        for i in range(INTEGERS_IN):
            kind, name = pick(_INTEGERS), self._name("v")
            self._line(f"{kind} {name} = ({kind})in[id * {INTEGERS_IN} + {i}];")
            self.integers[name] = kind
        for i in range(FLOATS_IN):
            kind, name = pick(_FLOATS), self._name("x")
            self._line(f"{kind} {name} = ({kind})fin[id * {FLOATS_IN} + {i}];")
            self.floats[name] = kind
        for _ in range(self.random.randint(0, 2)):
            kind, name, size = pick(_INTEGERS + _FLOATS), self._name("a"), pick((4, 8, 16))
            self._line(f"{kind} {name}[{size}];")
            fill = self.integer(kind, 1) if kind in _INTEGERS else self.number(kind, 1)
            self._line(
                f"for (int q = 0; q < {size}; q++) {name}[q] = ({kind})({fill} + ({kind})q);"
            )
            self.arrays[name] = (kind, size)

    def _results(self) -> None:
        for i in range(INTEGERS_OUT):
            self._line(f"out[id * {INTEGERS_OUT} + {i}] = (i64)({self.integer('i64', 1)});")
        for i in range(FLOATS_OUT):
            self._line(f"fout[id * {FLOATS_OUT} + {i}] = (f64)({self.number('f64', 1)});")

    # expressions

    def integer(self, kind: str, depth: int) -> str:
        """An expression that has the type `kind` after its cast."""
        if depth <= 0 or self.random.random() < 0.12:
            return f"(({kind}){self._integer_leaf()})"
        make = self.random.choices(
            (self._binary, self._shift, self._divide, self._unary, self._ternary, self._from_float),
            (10, 4, 3, 2, 3, 1.5),
        )[0]
        return f"(({kind})({make(kind, depth - 1)}))"

    def _integer_leaf(self) -> str:
        roll = self.random.random()
        if roll < 0.65:
            return self.random.choice([*self.integers, *self.readonly])
        arrays = [name for name, (kind, _) in self.arrays.items() if kind in _INTEGERS]
        if roll < 0.8 and arrays:
            return self._element(self.random.choice(arrays))
        value = self.random.choice([0, 1, 2, 3, 7, 31, 100, 127, 128, 255, 4096, 65535, 0x7FFFFFFF])
        return f"{value}" if self.random.random() < 0.7 else f"({-value})"

    def _element(self, name: str) -> str:
        size = self.arrays[name][1]
        index = self.random.choice([*self.integers, *self.readonly])
        return f"{name}[(u32)({index}) & {size - 1}]"

    def _binary(self, kind: str, depth: int) -> str:
        operator = self.random.choice(["+", "-", "*", "&", "|", "^", "+", "-", "*"])
        return f"{self.integer(kind, depth)} {operator} {self.integer(kind, depth)}"

    def _shift(self, kind: str, depth: int) -> str:
        operator = self.random.choice(["<<", ">>"])
        count = f"((u32){self.integer('u8', depth)} & {width(kind) - 1})"
        return f"{self.integer(kind, depth)} {operator} {count}"

    def _divide(self, kind: str, depth: int) -> str:
        small = kind in ("i8", "i16", "i32", "u8", "u16", "u32")
        function = self.random.choice(
            ["divide_w", "rest_w"] if small else ["divide", "rest", "divide_u"]
        )
        return f"{function}({self.integer(kind, depth)}, {self.integer(kind, depth)})"

    def _unary(self, kind: str, depth: int) -> str:
        return f"{self.random.choice('-~!')}{self.integer(kind, depth)}"

    def _ternary(self, kind: str, depth: int) -> str:
        return (
            f"{self.condition(depth)} ? {self.integer(kind, depth)} : {self.integer(kind, depth)}"
        )

    def _from_float(self, kind: str, depth: int) -> str:
        return f"to_int({self.number('f64', depth)})"

    def condition(self, depth: int) -> str:
        operator = self.random.choice(["<", "<=", "==", "!=", ">", ">="])
        if self.random.random() < 0.3:
            kind = self.random.choice(_FLOATS)
            return f"({self.number(kind, depth)} {operator} {self.number(kind, depth)})"
        kind = self.random.choice(_INTEGERS)
        return f"({self.integer(kind, depth)} {operator} {self.integer(kind, depth)})"

    def number(self, kind: str, depth: int) -> str:
        """A float expression of type `kind`."""
        roll = self.random.random()
        if depth <= 0 or roll < 0.15:
            return f"(({kind}){self._float_leaf()})"
        if roll < 0.75:
            operator = self.random.choice("+-*+-*/")
            return f"({self.number(kind, depth - 1)} {operator} {self.number(kind, depth - 1)})"
        if roll < 0.85:
            source = self.random.choice(_INTEGERS)
            return f"(({kind}){self.integer(source, depth - 1)})"
        if roll < 0.93:
            a, b = self.number(kind, depth - 1), self.number(kind, depth - 1)
            return f"({self.condition(depth - 1)} ? {a} : {b})"
        suffix = "f" if kind == "f32" else ""
        function = self.random.choice(["fabs", "sqrt", "floor", "ceil", "trunc"])
        return f"__builtin_{function}{suffix}({self.number(kind, depth - 1)})"

    def _float_leaf(self) -> str:
        # No zero: LLVM 22 turns 0.0 - (float)i into -(float)i for gfx942, which is -0.0 for i = 0.
        roll = self.random.random()
        arrays = [name for name, (kind, _) in self.arrays.items() if kind in _FLOATS]
        if roll < 0.2 and arrays:
            return self._element(self.random.choice(arrays))
        if roll < 0.8:
            return self.random.choice(list(self.floats))
        return self.random.choice(["0.5", "1.0", "-2.5", "0.1", "3.0", "1e10", "1e-30", "-1e-310"])

    # statements

    def statement(self) -> None:
        choices: list[tuple[Callable[[], None], float]] = [
            (self._assign, 6), (self._assign_float, 3), (self._store, 2),
        ]  # fmt: skip
        if self.depth < 4:
            choices += [(self._branch, 3), (self._switch, 1.2)]
            if self.work < 40:
                choices += [(self._loop, 3), (self._while, 1.2)]
        functions, weights = zip(*choices, strict=True)
        self.random.choices(functions, weights)[0]()

    def _assign(self) -> None:
        name = self.random.choice(list(self.integers))
        kind = self.integers[name]
        operator = self.random.choice(["", "", "", "+", "^", "-", "*"])
        self._line(f"{name} {operator}= {self.integer(kind, 3)};")

    def _assign_float(self) -> None:
        name = self.random.choice(list(self.floats))
        self._line(f"{name} = {self.number(self.floats[name], 2)};")

    def _store(self) -> None:
        if not self.arrays:
            return self._assign()
        name = self.random.choice(list(self.arrays))
        kind = self.arrays[name][0]
        value = self.integer(kind, 2) if kind in _INTEGERS else self.number(kind, 2)
        return self._line(f"{self._element(name)} = {value};")

    def _block(self, count: int) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, count)):
            self.statement()
        self.depth -= 1

    def _branch(self) -> None:
        self._line(f"if {self.condition(2)} {{")
        self._block(2)
        if self.random.random() < 0.5:
            self._line("} else {")
            self._block(2)
        self._line("}")

    def _switch(self) -> None:
        self._line(f"switch ((u32){self.integer('u32', 1)} & 7) {{")
        for label in self.random.sample(range(8), self.random.randint(2, 5)):
            self._line(f"case {label}: {{")
            self._block(1)
            self._line("}")
            if self.random.random() < 0.7:
                self._line("  break;")
        self._line("default: {")
        self._block(1)
        self._line("} }")

    def _loop(self) -> None:
        count = self.random.randint(2, 6)
        name = self._name("n")
        limit = f"{count}"
        if self.random.random() < 0.5:
            limit = f"(i32)((u32){self.integer('u32', 1)} % {count + 1})"
        bound = self._name("m")
        self._line(f"i32 {bound} = {limit};")
        self._line(f"for (i32 {name} = 0; {name} < {bound}; {name}++) {{")
        self._body(name, count)

    def _while(self) -> None:
        name = self._name("n")
        self._line(f"i32 {name} = 0;")
        self._line(f"while ({name}++ < 5 && {self.condition(1)}) {{")
        self._body(name, 5)

    def _body(self, name: str, count: int) -> None:
        self.readonly.append(name)
        self.work *= count
        if self.random.random() < 0.3:
            self._line(f"  if {self.condition(1)} {self.random.choice(['break', 'continue'])};")
        self._block(3)
        self.work //= count
        self.readonly.pop()
        self._line("}")


def unit(seeds: range) -> str:
    """A source file with a kernel k<seed> for each seed."""
    return f"#define ITEMS {ITEMS}\n" + _HEAD + "\n".join(Maker(s).kernel(f"k{s}") for s in seeds)
